"""Slots of this machine for a cluster: Dask's worker as a process of ours, which it ends with.

It is in a session of its own: a Ctrl-C on the terminal, or a signal that ends a container, reaches this process alone,
which ends the other in order. New Pythons and Dask's own handlers would each answer it with a traceback.

    terminal --SIGINT--> join --SIGTERM--> dask worker --> a nanny and a process a slot
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from autotune.worker.isolation.process import DIE_WITH_PARENT

END_SECONDS = 10.0  # what it measures then counts for no run


def run_slots(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run Dask's worker until it ends; its exit code.

    Args:
        arguments: Arguments of ``dask worker``.
        variables: Environment of it, besides that of this process.

    Raises:
        KeyboardInterrupt: This process was interrupted, or told to end; the worker is gone then.
    """
    library = ctypes.CDLL(None)
    worker = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", *arguments],
        env={**os.environ, **variables},
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: library.prctl(DIE_WITH_PARENT, signal.SIGTERM),  # noqa: PLW1509 - one thread runs here
    )
    ending = threading.Event()
    reader = threading.Thread(target=pass_on, args=(worker.stderr, ending), daemon=True)
    reader.start()
    try:
        code = worker.wait()
        reader.join(1.0)
        return code
    finally:
        ending.set()
        end(worker)


def pass_on(lines: IO[bytes] | None, ending: threading.Event) -> None:
    """Write what Dask says to stderr, until it is to end: what it says then is of its own connections."""
    for line in lines or ():
        if not ending.is_set():
            os.write(2, line)


def end(worker: "subprocess.Popen[bytes]") -> None:
    """End a worker in order, or, where that takes too long or is interrupted again, at once."""
    try:
        worker.terminate()  # nothing where it has ended
        worker.wait(END_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
