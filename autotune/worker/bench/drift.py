"""The machine's drift: how the reference kernel runs beside the programs that are measured on a core, over many."""

from collections import deque
from dataclasses import replace
from math import inf
from statistics import median
from threading import Lock

from autotune.core.evaluator import Evaluation
from autotune.core.stats import quiet_time

LATEST = 32  # programs over which drift is seen: some ten seconds


class Drift:
    """The reference kernel's times on one core, whichever processes took them.

    Attributes:
        quiet: The kernel's best time so far, in seconds.
    """

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.quiet = inf
        self._levels: deque[float] = deque(maxlen=LATEST)  # its usual time beside the latest programs
        self._lock = Lock()

    def learn(self, found: Evaluation) -> Evaluation:
        """Learn the reference kernel's time beside a program, and give its samples the median of the recent ones."""
        samples = found.samples
        if samples is None or not samples.quiet_reference:
            return found
        with self._lock:
            self.quiet = min(self.quiet, samples.quiet_reference)
            self._levels.append(quiet_time(samples.reference_seconds))
            return replace(found, samples=replace(samples, reference_level=median(self._levels)))
