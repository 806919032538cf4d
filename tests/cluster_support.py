"""Dask clusters of real processes for tests, as measurements have them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "results"))
from own_cluster import children_of, kill, measuring_process, processes, wait_until

__all__ = ["children_of", "kill", "measuring_process", "processes", "wait_until"]
