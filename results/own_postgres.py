"""A PostgreSQL server of one's own in a temporary folder, for tests and measurements: nobody else's is touched."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

USER = "autotune"
SERVERS = "/usr/lib/postgresql"  # where Debian has them, a folder a version
ACCOUNT = "postgres"  # of the Debian package; a server refuses to run as root
ADVICE = "a PostgreSQL server must be installed; it is not: apt-get install postgresql, or brew install postgresql"


class NoServerError(Exception):
    """There is no PostgreSQL here that a test may start."""


@dataclass(frozen=True)
class OwnPostgres:
    """A server.

    Attributes:
        programs: Folder of its programs.
        folder: Folder of its data, its log and its socket.
        port: Port of it on this host.
        password: Password of `USER`, who may do everything.
        settings: Settings as the command line of a server takes them.
    """

    programs: Path
    folder: Path
    port: int
    password: str
    settings: tuple[str, ...] = ()

    def url(self, database: str = "postgres", password: str | None = None) -> str:
        """The URL of a database."""
        return f"postgresql://{USER}:{password or self.password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = [f"-c {setting}" for setting in (f"port={self.port}", *self.settings)]
        options += ["-c listen_addresses=127.0.0.1", f"-c unix_socket_directories={self.folder}"]
        self.control("start", "-l", str(self.folder / "log"), "-o", " ".join(options))

    def stop(self, mode: str = "immediate") -> None:
        """End it: ``fast`` as an administrator would, ``immediate`` as a crash would."""
        self.control("stop", "-m", mode)

    def control(self, *arguments: str) -> None:
        """Run the program that starts and ends servers."""
        self.call("pg_ctl", "-w", "-D", str(self.folder / "data"), *arguments)

    def call(self, program: str, *arguments: str) -> None:
        """Run one of the server's programs as who may."""
        done = subprocess.run(
            [self.programs / program, *arguments],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            **account(),
        )
        if done.returncode:
            raise NoServerError(f"{program} {arguments[0]}: {done.stderr.strip()}")


def account() -> dict[str, object]:
    """Whom a server runs as: us, unless we are root."""
    if os.geteuid():
        return {}
    try:
        found = pwd.getpwnam(ACCOUNT)
    except KeyError as error:
        raise NoServerError(ADVICE) from error
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def find_programs() -> Path:
    """Folder of the newest server's programs.

    Raises:
        NoServerError: There is none.
    """
    installed = sorted(Path(SERVERS).glob("*/bin/initdb"), key=lambda path: float(path.parents[1].name))
    found = installed[-1] if installed else shutil.which("initdb")
    if found is None:
        raise NoServerError(ADVICE)
    return Path(found).resolve().parent


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def own_postgres(*settings: str) -> Iterator[OwnPostgres]:
    """A server with an empty database ``postgres`` that ends with the ``with`` block, and leaves nothing.

    Args:
        settings: Settings such as ``fsync=off``.

    Raises:
        NoServerError: None is installed, or it does not start.
    """
    programs, whom = find_programs(), account()
    folder = Path(tempfile.mkdtemp(prefix="autotune-postgres-"))
    server = OwnPostgres(programs, folder, free_port(), secrets.token_urlsafe(12), settings)
    try:
        (folder / "password").write_text(server.password)
        for path in (folder, folder / "password"):
            os.chown(path, int(str(whom.get("user", -1))), int(str(whom.get("group", -1))))
        safe = ["--auth=scram-sha-256", f"--pwfile={folder}/password", "--encoding=UTF8", "--locale=C", "--no-sync"]
        server.call("initdb", "-D", str(folder / "data"), "-U", USER, *safe)
        server.start()
        try:
            yield server
        finally:
            with suppress(NoServerError):  # it may be down
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
