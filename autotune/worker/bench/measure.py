"""Measuring: the only module that reads a clock for results.

A sample is the mean of enough calls, looped inside compiled code, to last about a millisecond. A reference kernel (or
another candidate) runs between samples, so that drift of the machine shows and can be divided out. Low quantiles
of such times are robust: noise only ever adds (Chen and Revels, Robust Benchmarking in Noisy Environments, 2016).
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.core.evaluator import Effort
from autotune.core.trial import Samples

Run = Callable[[int], None]  # runs a program that many times
COLD_SECONDS = 0.02  # a call this long is hardly helped by what is in the caches when it begins
LONG_CALL = 0.1  # a call this long is a sample by itself, and what is known of one need not be asked again
MOST_CALLS = 1 << 32  # a program that writes the same whatever it reads may be compiled into one call
LEAST_SAMPLES = 3
RACE_SAMPLES = 3  # after these, a candidate far behind the best is not worth more
HOPELESS = 1.2  # times the best, by the fastest of these: noise makes samples slower, hardly ever faster
SLOW_FACTOR = 5.0


@dataclass(frozen=True)
class RunFromStart:
    """A program that changes what it reads, and that every sample begins anew, outside of the time.

    Attributes:
        run: Runs it that many times, one call after the other.
        put_back: Gives it what it reads in a first call.
    """

    run: Run
    put_back: Callable[[], None]

    def __call__(self, calls: int) -> None:
        """Run it on from where it is."""
        self.run(calls)


def begin(run: Run) -> None:
    """Put a program back to its first call, where calls depend on those before."""
    if isinstance(run, RunFromStart):
        run.put_back()


@dataclass(frozen=True)
class Batch:
    """How one sample of a program is taken.

    Attributes:
        calls: Calls that are timed together.
        warm_up: Untimed calls before them, which bring data and clock back to a steady state after another program.
            As many as are timed beside programs that take long and empty the caches; one beside the reference kernel.
    """

    calls: int
    warm_up: int

    def sample(self, run: Run) -> float:
        """Seconds a call."""
        begin(run)
        if self.warm_up:
            run(self.warm_up)
        return time_once(run, self.calls)


def time_once(run: Run, calls: int) -> float:
    """Seconds a call, over one run of `calls` calls."""
    start = time.perf_counter_ns()
    run(calls)
    return (time.perf_counter_ns() - start) / calls * 1e-9


def calibrate(run: Run, sample_seconds: float, first_call: float = 0.0) -> Batch:
    """Calls that make one sample last about `sample_seconds`; also warms caches and branch predictors.

    Where the program has been called before, and its first call was long, nothing is called.
    """
    if first_call >= max(LONG_CALL, sample_seconds):
        return Batch(1, warm_up=0)
    calls = 1
    while True:
        begin(run)
        seconds = time_once(run, calls) * calls
        if seconds < COLD_SECONDS:  # cheap enough to ask again: one preemption must not pass for the program's time
            seconds = min(seconds, time_once(run, calls) * calls)
        if seconds >= sample_seconds / 4 or calls >= MOST_CALLS:
            needed = min(MOST_CALLS, max(1, math.ceil(calls * sample_seconds / seconds)))
            return Batch(needed, warm_up=int(seconds < COLD_SECONDS))
        calls *= max(2, min(64, int(sample_seconds / max(seconds, 1e-9))))


def steady(batch: Batch) -> Batch:
    """The same batch, warmed up for as long as it is timed."""
    return replace(batch, warm_up=batch.warm_up * batch.calls)


def measure(
    run: Run, reference: Run, effort: Effort, best_seconds: float | None = None, first_call: float = 0.0
) -> Samples:
    """Time one program with the reference kernel between its samples.

    Args:
        run: The program.
        reference: The reference kernel.
        effort: Number of samples and seconds to measure with.
        best_seconds: The best time so far; a program that `is_hopeless` beside it is given up.
        first_call: Seconds of a call of the program before this; 0 if there was none.
    """
    mine, theirs = calibrate(run, effort.sample_seconds, first_call), calibrate(reference, effort.sample_seconds)
    start = time.perf_counter()
    times: list[float] = []
    references: list[float] = []
    while not is_spent(effort, len(times), start):
        references.append(theirs.sample(reference))
        times.append(mine.sample(run))
        if best_seconds is not None and is_hopeless(times, best_seconds):
            break
    return Samples(tuple(times), tuple(references), mine.calls, min(references))


def is_hopeless(times: Sequence[float], best_seconds: float) -> bool:
    """Whether samples say already that a program is no rival of the best; not before `RACE_SAMPLES` of them."""
    return len(times) >= RACE_SAMPLES and min(times) > HOPELESS * best_seconds


def is_spent(effort: Effort, done: int, since: float) -> bool:
    """Return whether `done` samples, begun at time `since`, are enough.

    They are after `effort.seconds`, but not before `LEAST_SAMPLES` of them: one, if that took `SLOW_FACTOR` times as
    long.
    """
    elapsed = time.perf_counter() - since
    enough = done >= LEAST_SAMPLES or (done >= 1 and elapsed > SLOW_FACTOR * effort.seconds)
    return done >= effort.samples or (enough and elapsed > effort.seconds)


def measure_interleaved(
    runs: Sequence[Run], effort: Effort, seed: int = 0, first_calls: Sequence[float] = ()
) -> list[Samples]:
    """Time several programs in one session: every round runs each once, in random order.

    Sample i of one program and sample i of another were taken in the same round: compare them as pairs. `first_calls`
    are seconds of a call of each before this, where there was one.
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
