"""Measurement of run times; no other module reads a clock for results.

A sample is the mean over enough calls, looped inside compiled code, to last about a millisecond. A reference kernel (or
another candidate) runs between samples, so that the machine's drift is visible and can be divided out. Low quantiles
of such times are robust, since noise only adds time (Chen and Revels, Robust Benchmarking in Noisy Environments, 2016).
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.core.evaluator import Effort
from autotune.core.trial import Samples

Run = Callable[[int], None]  # runs a program the given number of times
COLD_SECONDS = 0.02  # the time of a call this long hardly depends on the initial state of the caches
LONG_CALL = 0.1  # a call this long is a sample by itself and needs no calibration
MOST_CALLS = 1 << 32  # the compiler may reduce a loop over calls with the same result to one call
LEAST_SAMPLES = 3
RACE_SAMPLES = 3  # samples before a candidate may be given up
HOPELESS = 1.2  # times the best, by the fastest of these samples: noise rarely makes samples faster
SLOW_FACTOR = 5.0


@dataclass(frozen=True)
class RunFromStart:
    """A program that modifies its inputs, which are reset before every sample, outside of the measured time.

    Attributes:
        run: Function that runs the program a given number of times.
        restore: Function that resets the states to their initial values.
    """

    run: Run
    restore: Callable[[], None]

    def __call__(self, calls: int) -> None:
        """Run the program without resetting its states."""
        self.run(calls)


def begin(run: Run) -> None:
    """Reset a program's states if it has any."""
    if isinstance(run, RunFromStart):
        run.restore()


@dataclass(frozen=True)
class Batch:
    """Number of calls in one sample of a program.

    Attributes:
        calls: Number of calls that are timed together.
        warm_up: Number of untimed calls before them, which restore caches and clock frequency after another program:
            one next to the reference kernel, as many as timed calls next to other programs, which evict the caches.
    """

    calls: int
    warm_up: int

    def sample(self, run: Run) -> float:
        """Take one sample, in seconds per call."""
        begin(run)
        if self.warm_up:
            run(self.warm_up)
        return time_once(run, self.calls)


def time_once(run: Run, calls: int) -> float:
    """Time one run of `calls` calls, in seconds per call."""
    start = time.perf_counter_ns()
    run(calls)
    return (time.perf_counter_ns() - start) / calls * 1e-9


def calibrate(run: Run, sample_seconds: float, first_call: float = 0.0) -> Batch:
    """Return the batch with which a sample lasts about `sample_seconds`; warms up caches and branch predictors.

    If the time of an earlier call is known and long enough, the program is not called.
    """
    if first_call >= max(LONG_CALL, sample_seconds):
        return Batch(1, warm_up=0)
    calls = 1
    while True:
        begin(run)
        seconds = time_once(run, calls) * calls
        if seconds < COLD_SECONDS:  # repeat a short run, since a preemption may have inflated its time
            seconds = min(seconds, time_once(run, calls) * calls)
        if seconds >= sample_seconds / 4 or calls >= MOST_CALLS:
            needed = min(MOST_CALLS, max(1, math.ceil(calls * sample_seconds / seconds)))
            return Batch(needed, warm_up=int(seconds < COLD_SECONDS))
        calls *= max(2, min(64, int(sample_seconds / max(seconds, 1e-9))))


def steady(batch: Batch) -> Batch:
    """Return a batch with as many untimed calls as timed ones, if it has any."""
    return replace(batch, warm_up=batch.warm_up * batch.calls)


def measure(
    run: Run, reference: Run, effort: Effort, best_seconds: float | None = None, first_call: float = 0.0
) -> Samples:
    """Time one program with the reference kernel between its samples.

    Args:
        run: The program.
        reference: The reference kernel.
        effort: Limits of the number of samples and of the measurement time.
        best_seconds: Best time so far in seconds; a program that `is_hopeless` in comparison is given up.
        first_call: Time of an earlier call of the program in seconds; 0 if there was none.
    """
    batch, ref_batch = calibrate(run, effort.sample_seconds, first_call), calibrate(reference, effort.sample_seconds)
    start = time.perf_counter()
    times: list[float] = []
    references: list[float] = []
    while not is_spent(effort, len(times), start):
        references.append(ref_batch.sample(reference))
        times.append(batch.sample(run))
        if best_seconds is not None and is_hopeless(times, best_seconds):
            break
    return Samples(tuple(times), tuple(references), batch.calls, min(references))


def is_hopeless(times: Sequence[float], best_seconds: float) -> bool:
    """Return whether the samples show a program to be clearly slower than the best; `RACE_SAMPLES` are required."""
    return len(times) >= RACE_SAMPLES and min(times) > HOPELESS * best_seconds


def is_spent(effort: Effort, done: int, since: float) -> bool:
    """Return whether a measurement with `done` samples that began at time `since` is complete.

    It is after `effort.samples` samples, or after `effort.seconds` with at least `LEAST_SAMPLES` samples; one sample is
    enough after `SLOW_FACTOR` times as long.
    """
    elapsed = time.perf_counter() - since
    enough = done >= LEAST_SAMPLES or (done >= 1 and elapsed > SLOW_FACTOR * effort.seconds)
    return done >= effort.samples or (enough and elapsed > effort.seconds)


def measure_interleaved(
    runs: Sequence[Run], effort: Effort, seed: int = 0, first_calls: Sequence[float] = ()
) -> list[Samples]:
    """Time several programs, interleaved: every round takes one sample of each, in random order.

    Sample i of one program and sample i of another are from the same round and form a pair. `first_calls` holds the
    time of an earlier call of each program in seconds, 0 if there was none.
    """
    if not runs:
        return []
    known = first_calls or [0.0] * len(runs)
    batches = [steady(calibrate(run, effort.sample_seconds, seen)) for run, seen in zip(runs, known, strict=True)]
    order = list(range(len(runs)))
    shuffle = random.Random(seed).shuffle
    times: list[list[float]] = [[] for _ in runs]
    start = time.perf_counter()
    while not is_spent(effort, len(times[0]), start):
        shuffle(order)
        for index in order:
            times[index].append(batches[index].sample(runs[index]))
    return [Samples(tuple(t), (), batch.calls) for t, batch in zip(times, batches, strict=True)]
