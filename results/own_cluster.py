"""Dask clusters of real processes, for tests and measurements: a scheduler, workers that join it, their ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psutil

T = TypeVar("T")
WAIT_SECONDS = 60.0
SCHEDULER = ("-m", "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard")
PLAIN_WORKER = ("-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-dashboard", "--scheduler-file")
COMMAND = ("-c", "from autotune.cli import main; main()")


class Processes:
    """A scheduler and workers, each a process of its own, that end with the block.

    Attributes:
        folder: Folder of the logs.
        file: The scheduler's file.
        scheduler: The scheduler.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "scheduler.json"
        self._started: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.schedule()

    def schedule(self) -> subprocess.Popen[bytes]:
        """Start a scheduler."""
        self.file.unlink(missing_ok=True)
        self.scheduler = self.start(*SCHEDULER, "--scheduler-file", str(self.file))
        wait_until(self.file.exists, "a scheduler")
        return self.scheduler

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a process of Python."""
        with open(self.folder / f"log{len(self._started)}", "wb") as log:
            process = subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=log, cwd=self.folder)
        self._started.append(process)
        return process

    def join(self, *options: str) -> subprocess.Popen[bytes]:
        """A machine that joins as people make it join."""
        return self.start(*COMMAND, "lab", "join", str(self.file), *options)

    def join_without_slot(self) -> subprocess.Popen[bytes]:
        """A Dask worker that knows nothing of us."""
        return self.start(*PLAIN_WORKER, str(self.file))

    def logs(self) -> str:
        """What all processes said."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("log*")))

    def end(self) -> None:
        """Kill all that runs."""
        for process in reversed(self._started):
            kill(process)


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    """A scheduler that workers may join."""
    found = Processes(folder)
    try:
        yield found
    finally:
        found.end()


def wait_until(is_so: Callable[[], T], what: str = "it") -> T:
    """Wait until something is so."""
    end = time.monotonic() + WAIT_SECONDS
    while not (found := is_so()):
        assert time.monotonic() < end, f"{what} did not happen in {WAIT_SECONDS:.0f} s"
        time.sleep(0.1)
    return found


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it started, at once."""
    for pid in (process.pid, *(child.pid for child in children_of(process.pid))):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def children_of(pid: int) -> Sequence[psutil.Process]:
    """Every process below one."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def measuring_process(nanny: subprocess.Popen[bytes]) -> psutil.Process | None:
    """The Dask worker that a nanny watches: the child of it that has a keeper."""
    with suppress(psutil.NoSuchProcess):
        for child in children_of(nanny.pid):
            if any("keep(" in " ".join(each.cmdline()) for each in child.children()):
                return child
    return None
