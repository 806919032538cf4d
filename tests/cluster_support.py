"""Dask clusters of real processes for tests: a scheduler, workers that join it, and what kills them."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil

WAIT_SECONDS = 60.0
SCHEDULER = ("-m", "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard")
PLAIN_WORKER = ("-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-dashboard", "--scheduler-file")


class Processes:
    """A scheduler and workers, each a process of its own, that end with the block.

    Attributes:
        file: The scheduler's file.
    """

    def __init__(self, folder: Path):
        self.folder, self.file, self.started = folder, folder / "scheduler.json", []
        self.scheduler = self.start(*SCHEDULER, "--scheduler-file", str(self.file))
        wait_until(self.file.exists)

    def start(self, *arguments):
        log = open(self.folder / f"log{len(self.started)}", "wb")  # noqa: SIM115 - the process's own
        process = subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=log, cwd=self.folder)
        log.close()
        self.started.append(process)
        return process

    def join(self, *options):
        """A machine that joins as people make it join."""
        return self.start("-c", "from autotune.cli import main; main()", "join", str(self.file), *options)

    def join_without_slot(self):
        """A Dask worker that knows nothing of us."""
        return self.start(*PLAIN_WORKER, str(self.file))

    def logs(self):
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("log*")))

    def end(self):
        for process in reversed(self.started):
            kill(process)


@contextmanager
def processes(folder):
    """A scheduler that workers may join."""
    found = Processes(folder)
    try:
        yield found
    finally:
        found.end()


def wait_until(is_so, what="it"):
    """Wait until something is so."""
    end = time.monotonic() + WAIT_SECONDS
    while not (found := is_so()):
        assert time.monotonic() < end, f"{what} did not happen in {WAIT_SECONDS:.0f} s"
        time.sleep(0.1)
    return found


def kill(process):
    """Kill a process and what it started, at once."""
    family = [process.pid, *(child.pid for child in children_of(process.pid))]
    for pid in family:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def children_of(pid):
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def measuring_process(nanny):
    """The Dask worker that a nanny watches: the child of it that has a keeper."""
    for child in children_of(nanny.pid):
        if any("keep(" in " ".join(each.cmdline()) for each in child.children()):
            return child
    return None
