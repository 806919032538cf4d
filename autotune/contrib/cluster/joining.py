"""Run a Dask worker with slots of this machine as a child process that ends with this process.

The child runs in its own session, so that a Ctrl-C on the terminal, or the signal that stops a container, reaches this
process only, which then terminates the child in order. Otherwise each process of Dask would print a traceback.

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

END_SECONDS = 10.0  # grace period; what it still measures is not recorded


def run_slots(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a Dask worker until it ends; return its exit code.

    Args:
        arguments: Arguments of ``dask worker``.
        variables: Environment variables to add to those of this process.

    Raises:
        KeyboardInterrupt: This process was interrupted or terminated; the worker has ended by then.
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
    """Copy the worker's stderr to that of this process, until `ending` is set.

    What Dask writes after that is about its closed connections.
    """
    for line in lines or ():
        if not ending.is_set():
            os.write(2, line)


def end(worker: "subprocess.Popen[bytes]") -> None:
    """Terminate a worker; kill its process group if that times out or is interrupted again."""
    try:
        worker.terminate()  # no effect if it has ended
        worker.wait(END_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
