"""Drift of the machine's speed: times of the reference kernel next to the latest programs measured on a core."""

from collections import deque
from dataclasses import replace
from math import inf
from statistics import median
from threading import Lock

from autotune.core.evaluator import Evaluation
from autotune.core.stats import quiet_time

LATEST = 32  # programs that the drift is estimated over: some ten seconds


class Drift:
    """Times of the reference kernel on one core, taken by any process; thread-safe.

    Attributes:
        quiet: The kernel's best time so far, in seconds.
    """

    def __init__(self) -> None:
        """Start without observations."""
        self.quiet = inf
        self._levels: deque[float] = deque(maxlen=LATEST)  # its typical time next to each of the latest programs
        self._lock = Lock()

    def learn(self, evaluation: Evaluation) -> Evaluation:
        """Record the reference kernel's time next to a program; return the evaluation with the median of recent times.

        The median is stored in `reference_level` of the samples; an evaluation without reference times is unchanged.
        """
        samples = evaluation.samples
        if samples is None or not samples.quiet_reference:
            return evaluation
        with self._lock:
            self.quiet = min(self.quiet, samples.quiet_reference)
            self._levels.append(quiet_time(samples.reference_seconds))
            return replace(evaluation, samples=replace(samples, reference_level=median(self._levels)))
