"""Dask clusters of real processes for tests, as measurements have them."""

import fcntl
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "results"))
from own_cluster import children_of, kill, measuring_process, processes, wait_until

__all__ = ["children_of", "kill", "measuring_process", "only_slots", "processes", "wait_until"]


@contextmanager
def only_slots():
    """No other test of this machine has slots meanwhile: each takes a core, and there may be but two."""
    with open(Path(tempfile.gettempdir()) / "autotune-slots-of-tests", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
