"""Store in a file: a back end for Optuna's journal format.

A journal does not number studies and trials; Optuna counts its lines. A missing, moved or duplicated line would assign
all later trials to other studies, or count trials twice, without an error from Optuna. Damage of this kind by editors,
copies or merges is therefore detected and refused (`JournalChecks`).
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.study import StudyDirection

from autotune.core.errors import StoreError
from autotune.core.host.files import why_refused
from autotune.store.header import HEADER, WAY_OUT, check_header
from autotune.store.room import Pause, with_room
from autotune.store.sweep import study_name

HEADER_START = b'{"op_code":0,"worker_id":"'

optuna.logging.set_verbosity(optuna.logging.WARNING)


class Journal(BaseJournalBackend):
    """Back end for Optuna's journal file, with any number of writers and readers.

    Unlike Optuna's own back end it needs no lock file (a writer holds the file's flock while it writes), repairs a line
    that a killed writer left incomplete, reports the number of a damaged line, and undoes an append that failed
    half-way.
    """

    def __init__(self, path: Path, writable: bool, pause: Pause | None = None) -> None:
        """Create a back end that has read nothing yet.

        Args:
            path: Path of an existing file.
            writable: Whether records may be appended.
            pause: Function called repeatedly while the disk is full; if `None`, that is an error.
        """
        self.path = path
        self.writable = writable
        self.pause = pause
        self.checks = JournalChecks()
        self.starts = [0]  # byte offsets of all records read so far, and of the next one

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the records from a number on; an incomplete last line is ignored."""
        with self.path.open("rb") as file:
            self.check_length(file.fileno())
            number = min(log_number_from, len(self.starts) - 1)
            file.seek(self.starts[number])
            while (line := file.readline()).endswith(b"\n"):
                record = parse(line)
                if record is None and not file.peek(1):
                    return
                if record is None:
                    raise StoreError(
                        f"lines of a store must be records; {self.path} line {number + 1} is not; {WAY_OUT}"
                    )
                number += 1
                if number == len(self.starts):
                    self.starts.append(file.tell())
                    if fault := self.checks.fault(line, record, number):
                        raise StoreError(f"{self.path}: {fault}")
                if number > log_number_from:
                    yield record

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append records in one write, or leave the file unchanged.

        Raises:
            StoreError: The store was opened for reading, or the system refuses the write.
        """
        if not self.writable:
            raise StoreError(f"a store opened for reading must only be read; {self.path} got a record to write")
        data = b"".join(json.dumps(log, separators=(",", ":")).encode() + b"\n" for log in logs)
        try:
            with_room(partial(self._append, data), self.path, self.pause)
        except OSError as error:
            raise StoreError(
                f"store must stay writable; {self.path}: {why_refused(error)}; earlier records are safe: make room or "
                "restore the file, then run again to resume"
            ) from error

    def _append(self, data: bytes) -> None:
        """Append records under the file's lock, after repairing an incomplete last line."""
        with locked(self.path) as descriptor:
            self.check_length(descriptor)
            mend(self.path)
            append(self.path, data)

    def check_length(self, descriptor: int) -> None:
        """Check that the file still holds all records read so far; otherwise further ones would be of others.

        Raises:
            StoreError: The file was truncated, or replaced by a shorter one.
        """
        if os.fstat(descriptor).st_size < self.starts[-1]:
            raise StoreError(
                f"store must only grow; {self.path} has become shorter while it was in use; restore it, or {WAY_OUT}"
            )


def append(path: Path, data: bytes) -> None:
    """Append bytes to an existing file and sync them; on any failure truncate it to its former length."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        except BaseException:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def parse(line: bytes) -> dict[str, Any] | None:
    """Parse a line as a journal record; return `None` if it is not one."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and {"op_code", "worker_id"} <= record.keys() else None


def check_first_line(path: Path) -> None:
    """Raise unless a file is a store, is empty, or holds only an incomplete header."""
    with path.open("rb") as file:
        line = file.readline(1 << 16)
    record = parse(line)
    torn = not line.endswith(b"\n") and HEADER_START.startswith(line[: len(HEADER_START)])
    if record is not None or not torn:
        check_header(path, record.get("study_name") if record else None)


def mend(path: Path) -> None:
    """Repair a file that does not end with a newline; the caller holds its lock, so that no process is writing."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        whole = file.read(1) in (b"", b"\n")
    if not whole:
        repair(path)


def repair(path: Path) -> list[str]:
    """Cut off an incomplete last line and save its bytes in ``<path>.torn``; return messages on what was repaired."""
    data = path.read_bytes()
    start = data.rfind(b"\n", 0, max(len(data) - 1, 0)) + 1
    tail = data[start:]
    if not tail or (tail.endswith(b"\n") and parse(tail) is not None):
        return []
    if parse(tail) is not None:
        append(path, b"\n")
        return [f"{path}: the last record lacked its line end; added, nothing is lost"]
    torn = path.with_name(path.name + ".torn")
    with torn.open("ab") as file:
        file.write(tail)
    os.truncate(path, start)
    return [f"{path}: the last line was torn by a crash and is cut off; its {len(tail)} bytes are kept in {torn}"]


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the lock of a file, as every writer does during its write; return its descriptor."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def load_journal(path: Path, writable: bool, pause: Pause | None = None) -> BaseStorage:
    """Load a journal into an Optuna storage."""
    journal = Journal(path, writable, pause)
    try:
        storage = JournalStorage(journal)
    except (StoreError, OSError):
        raise
    except Exception as error:  # Optuna replays records unchecked: an invalid one may raise anything
        line = len(journal.starts) - 1
        raise StoreError(f"records of a store must make sense; {path} line {line} does not; {WAY_OUT}") from error
    return storage


def open_file(path: Path, create: bool, exclusive: bool, pause: Pause | None) -> tuple[BaseStorage, list[str]]:
    """Open a journal file; return its storage, and messages on what was repaired."""
    if path.exists() and not path.is_file():
        raise StoreError(f"store must be a regular file or a database URL; {path} is not a file; pass --store PATH")
    if not path.exists() and not (create and exclusive):
        raise StoreError(f"store must exist to be read; {path} does not; run `autotune tune` or pass --store PATH")
    if not exclusive:
        check_first_line(path)
        return load_journal(path, writable=False), []
    messages = with_room(partial(make_ready, path), path, pause)
    return load_journal(path, writable=True, pause=pause), messages


def make_ready(path: Path) -> list[str]:
    """Create or repair a file so that records can be appended; return messages on what was repaired."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o666))
    with locked(path):
        check_first_line(path)
        messages = repair(path)
        begin(path)
    return messages


def begin(path: Path) -> None:
    """Write the header of an empty store."""
    if path.stat().st_size == 0:
        header = {"op_code": 0, "worker_id": "autotune", "study_name": HEADER, "directions": [StudyDirection.MINIMIZE]}
        append(path, json.dumps(header, separators=(",", ":")).encode() + b"\n")


CREATE_STUDY, DELETE_STUDY, STUDY_USER, STUDY_SYSTEM, CREATE_TRIAL = range(5)  # codes of Optuna's operations
OF_STUDY, OF_TRIAL = (DELETE_STUDY, STUDY_USER, STUDY_SYSTEM, CREATE_TRIAL), range(5, 10)


class JournalChecks:
    """Consistency checks of a journal's lines, with the state of the lines read so far."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}  # numbers of lines that must be unique, by the hash of the line
        self._names: dict[int, str] = {}
        self._studies = 0
        self._trials = 0

    def fault(self, line: bytes, record: dict[str, Any], number: int) -> str:
        """Check a line against the lines before it; return a message, empty if it is consistent.

        Two processes may create the same study at once, in different lines. Two equal lines are a copy, since a line
        holds the identifier of its writer, and that of a trial its time.

        Args:
            line: The line.
            record: Parsed record of the line.
            number: Number of the line, from 1.
        """
        code = record["op_code"]
        if code in {CREATE_STUDY, CREATE_TRIAL} and (first := self._seen.setdefault(hash(line), number)) != number:
            return f"lines of a store must differ; line {number} is line {first} again; delete one, or {WAY_OUT}"
        if code in OF_STUDY and not 0 <= record["study_id"] < self._studies:
            return missing(number, "study")
        if code in OF_TRIAL and not 0 <= record["trial_id"] < self._trials:
            return missing(number, "trial")
        if code == CREATE_STUDY and record["study_name"] not in self._names.values():
            self._names[self._studies] = record["study_name"]
            self._studies += 1
        elif code == DELETE_STUDY:
            self._names.pop(record["study_id"], None)
        elif code == STUDY_USER and not is_named(record["user_attr"].get("sweep"), self._names.get(record["study_id"])):
            return (
                f"sweeps of a store must lie in studies of their name; line {number} is moved; restore it, or {WAY_OUT}"
            )
        elif code == CREATE_TRIAL:
            self._trials += 1
            if record["study_id"] == 0:
                return f"a store's first study must be empty; line {number} is of another file; delete it, or {WAY_OUT}"
        return ""


def missing(number: int, kind: str) -> str:
    """Return the message for a line whose study or trial was not created by an earlier line."""
    return f"a {kind} must begin before its records; that of line {number} is missing; restore it, or {WAY_OUT}"


def is_named(sweep: Any, name: str | None) -> bool:  # noqa: ANN401 - of a file
    """Return whether a study's name matches its sweep attribute; true if either is missing."""
    if sweep is None or name is None:
        return True
    return study_name(sweep["payload"], sweep["task"], sweep["identity"]) == name
