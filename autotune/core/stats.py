"""Statistics of raw samples: speed-ups with confidence intervals, significance tests, noise floor, error tolerance.

Times are seconds a call. Noise only lengthens samples (delays), so programs are compared by lower quartiles, and
speed-ups are reported as medians of ratios; means are not used.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # submodules are loaded on first use: scipy.stats, a second and more, by `share_interval` only

from autotune.core.errors import PayloadError
from autotune.core.host.scipy_memory import check_room
from autotune.core.options import check_real, check_seed
from autotune.core.ranks import chance_of_ranks

Times = npt.NDArray[np.float64]
RESAMPLES = 2000
PERMUTATIONS = 1999
# Quantile that programs are compared by. On a core with two other processes, 60 pairs detect a slowdown of 5 % in 100
# of 100 cases by the lower quartile, in half of them by the median, in 15 by Wilcoxon's test of ratios.
QUIET = 0.25
# Below this number of samples a bootstrap interval is too narrow.
FEWEST_FOR_BOOTSTRAP = 5
# Valid times, in seconds; ratios of shorter or longer ones could overflow.
SHORTEST, LONGEST = 1e-150, 1e150
# Relative difference of two calls of one program on a noisy machine, which very few samples cannot show.
FEW_SPREAD = 0.1
# Distance from 1.0 to the next number, by MLIR element type; integer arithmetic is exact.
EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52, "i32": 0.0, "i64": 0.0, "f16": 2.0**-10, "bf16": 2.0**-7, "i8": 0.0}
HALVES, HALF_STEPS = ("f16", "bf16"), 8.0
TINY = {"f32": 2.0**-126, "f64": 2.0**-1022, "i32": 0.0, "i64": 0.0, "f16": 2.0**-14, "bf16": 2.0**-126, "i8": 0.0}


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence limits: ``low <= estimate <= high``."""

    low: float
    estimate: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.4g}x [{self.low:.4g}, {self.high:.4g}]"

    def to_json(self) -> dict[str, float]:
        """Return the three numbers by name."""
        return asdict(self)

    def scaled(self, factor: float) -> "Interval":
        """Return the interval with estimate and limits multiplied by a factor."""
        return Interval(self.low * factor, self.estimate * factor, self.high * factor)

    def widened(self, error: float) -> "Interval":
        """Return the interval with limits widened by a relative error."""
        return Interval(self.low / (1 + error), self.estimate, self.high * (1 + error))


def ratio_interval(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int = 0,
    paired: bool = True,
) -> Interval:
    """Return the speed-up of `candidate` over `baseline`: above 1 where the candidate is faster.

    Paired: the median of elementwise ratios, in which drift common to both cancels out. Otherwise
    ``median(baseline) / median(candidate)``. The limits are those of a percentile bootstrap; with fewer than
    five samples they are the smallest and the largest observed ratio.

    Args:
        baseline: Seconds a call.
        candidate: Seconds a call; where paired, taken beside the baseline's samples, in the same order.
        confidence: Coverage of the bootstrap interval.
        seed: Seed of the resampling; equal seeds give equal intervals.
        paired: Whether samples are paired by position.

    Raises:
        ValueError: A sample is not a positive finite number, there are none, or paired lengths differ.

    >>> ratio_interval([2.0, 2.2, 1.8], [1.0, 1.0, 1.0])
    Interval(low=1.8, estimate=2.0, high=2.2)
    """
    check_real("confidence", confidence, 0.01, 0.9999, example=0.95)
    check_seed(seed)
    base, cand = as_times(baseline), as_times(candidate)
    if not paired:
        return interval((base, cand), median_ratio, np.outer(base, 1.0 / cand), confidence, seed)
    if len(base) != len(cand):
        raise ValueError(f"paired samples must be equally many; got {len(base)} and {len(cand)}; try paired=False")
    return interval((base / cand,), np.median, base / cand, confidence, seed)


def median_interval(samples: Sequence[float], *, confidence: float = 0.95, seed: int = 0) -> Interval:
    """Return the median of seconds a call, with its confidence limits (as in `ratio_interval`).

    Args:
        samples: Seconds a call.
        confidence: Coverage of the bootstrap interval.
        seed: Seed of the resampling; equal seeds give equal intervals.

    Raises:
        ValueError: A sample is not a positive finite number, or there are none.

    >>> median_interval([2.0, 1.0, 4.0])
    Interval(low=1.0, estimate=2.0, high=4.0)
    """
    times = as_times(samples)
    return interval((times,), np.median, times, confidence, seed)


def share_interval(count: int, of: int, confidence: float = 0.95) -> Interval:
    """Return a proportion with its exact (Clopper and Pearson) confidence limits.

    >>> share_interval(0, 100).high < 0.04
    True
    """
    check_room()
    limits = scipy.stats.binomtest(count, of).proportion_ci(confidence)
    return Interval(float(limits.low), count / of, float(limits.high))


def interval(
    data: tuple[Times, ...], statistic: Callable[..., Any], seen: Times, confidence: float, seed: int
) -> Interval:
    """Return the bootstrap interval of `statistic` of `data`; with too few samples, the range of `seen`."""
    low, estimate, high = float(seen.min()), float(statistic(*data)), float(seen.max())
    if min(map(len, data)) >= FEWEST_FOR_BOOTSTRAP and low < high:
        # Percentiles: BCa is undefined (NaN) where resamples coincide, as medians of few samples do. Same numbers as
        # scipy.stats.bootstrap, which takes a second and more to load in each command that reports a speed-up.
        rng = np.random.default_rng(seed)
        drawn = (each[rng.integers(0, len(each), (RESAMPLES, len(each)))] for each in data)
        low, high = map(float, np.quantile(statistic(*drawn, axis=-1), [(1 - confidence) / 2, (1 + confidence) / 2]))
    return Interval(min(low, estimate), estimate, max(high, estimate))


def median_ratio(baseline: Times, candidate: Times, axis: int = -1) -> Times:
    """Return the ratio of medians along `axis`."""
    return np.asarray(np.median(baseline, axis=axis) / np.median(candidate, axis=axis))


def as_times(samples: Sequence[float]) -> Times:
    """Return an array of times.

    Raises:
        ValueError: A time is not a number from `SHORTEST` to `LONGEST`, or there is none.
    """
    times = np.asarray(samples, dtype=np.float64)
    if times.size == 0 or not ((times >= SHORTEST) & (times <= LONGEST)).all():
        bad = next((repr(s) for s in samples if not SHORTEST <= s <= LONGEST), "none")
        raise ValueError(f"times must be positive numbers of seconds, {SHORTEST:g} to {LONGEST:g}; got {bad}")
    return times


def unrest(samples: Sequence[float]) -> float:
    """Return the relative difference between the halves of a program's samples, in order of time: 0.1 means 10 %."""
    half = len(samples) // 2
    return relative_difference(samples[:half], samples[half:])


def quiet_time(samples: Sequence[float]) -> float:
    """Return the undisturbed time of a program: the lower quartile, robust against delays of most samples.

    Equal to ``numpy.quantile`` to the last bit, at a tenth of its cost: searches call it often.

    Raises:
        ValueError: A time is not a positive finite number, or there is none.
    """
    times = sorted(samples)
    if not times or not times[0] >= SHORTEST or not sum(times) <= LONGEST:
        as_times(samples)  # raises with the reason
    position = QUIET * (len(times) - 1)
    below = int(position)
    low, high = times[below], times[min(below + 1, len(times) - 1)]
    share, gap = position - below, high - low
    return float(low + gap * share if share < 0.5 else high - gap * (1 - share))


def relative_difference(a: Sequence[float], b: Sequence[float]) -> float:
    """Return by how much the slower sample's undisturbed time exceeds the faster one's: 0.1 means 10 %."""
    times = quiet_time(a), quiet_time(b)
    return max(times) / min(times) - 1.0


def is_different(a: Sequence[float], b: Sequence[float], *, floor: float, alpha: float = 0.01) -> bool:
    """Return whether two samples of times differ significantly, and by more than the machine's noise floor.

    Samples of equal size are treated as interleaved pairs, each in random order, which are exchangeable if the programs
    are equal: a permutation test on the ratio of lower quartiles (exact for any noise). Otherwise a Mann-Whitney U
    test. At the default `alpha` no difference is significant with fewer than 8 pairs, or about 5 against 5 unpaired:
    take more samples rather than a larger `alpha`.

    Args:
        a: Seconds a call.
        b: Seconds a call.
        floor: Relative difference of a program against itself, from `noise_floor`.
        alpha: Significance level of the test.

    Raises:
        ValueError: A sample is not a positive finite number, or there are none.
    """
    check_real("floor", floor, 0.0, 1e6, example=0.01)
    check_real("alpha", alpha, 1e-12, 1.0, example=0.01)
    if relative_difference(a, b) <= floor:
        return False
    times = as_times(a), as_times(b)
    if len(a) == len(b):
        return chance_of_quartiles(*times) < alpha
    return chance_of_ranks(*times) < alpha


def chance_of_quartiles(a: Times, b: Times) -> float:
    """Return the two-sided p-value of a paired permutation test on the ratio of lower quartiles.

    Same as `scipy.stats.permutation_test`, without the 1.2 s that loading it adds to each command that compares: all
    exchanges of pairs where they are at most `PERMUTATIONS`, else that many random ones and the observed one.

    Args:
        a: Seconds a call, of shape (n,).
        b: Seconds a call of the same pairs, of shape (n,).
    """
    logs, pairs = np.log([a, b]), len(a)
    exact = 2**pairs <= PERMUTATIONS
    if exact:
        exchanged = np.arange(2**pairs)[:, None] >> np.arange(pairs) & 1 > 0
    else:
        exchanged = np.random.default_rng(0).random((PERMUTATIONS, pairs)) < 0.5
    gaps = quartile_gap(np.where(exchanged, logs[1], logs[0]), np.where(exchanged, logs[0], logs[1]))
    observed = quartile_gap(*logs)
    slack = 1e-14 * abs(observed)  # gaps that differ from the observed one by rounding errors only count as equal
    tail = min(np.count_nonzero(gaps <= observed + slack), np.count_nonzero(gaps >= observed - slack))
    chance = tail / len(gaps) if exact else (tail + 1) / (len(gaps) + 1)
    return float(min(1.0, 2 * chance))


def quartile_gap(a: Times, b: Times) -> Times:
    """Return the difference of lower quartiles along the last axis."""
    gap: Times = np.quantile(a, QUIET, axis=-1) - np.quantile(b, QUIET, axis=-1)
    return gap


def noise_floor(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Return the noise floor of A/A comparisons: the 95th percentile of a program's relative difference to itself.

    Args:
        pairs: Pairs of runs of the same program, in seconds a call.

    Raises:
        ValueError: There are no pairs.
    """
    if not pairs:
        raise ValueError("noise floor must come from at least one A/A pair; got none")
    return float(np.quantile([relative_difference(a, b) for a, b in pairs], 0.95))


def tolerance(dtype: str, reduction: int, magnitude: float) -> float:
    """Return the absolute error of an element that rounding can explain: ``eps * (4 + 2 sqrt(n)) * magnitude``.

    A sum of n products in any order has an error of at most ``n u sum|x||y|`` (Higham 2002, section 3.1), and, since
    rounding errors behave like independent ones, of ``lambda sqrt(n) u sum|x||y|`` with high probability (Higham and
    Mary 2019). Random-sign data has ``max|oracle| ~ sqrt(n)``, all-positive data ``~ n``; for sequential sums both give
    a largest error of ``c sqrt(n) eps max|oracle|``, with c measured as 0.33 and 0.45 for n from 64 to 4096. The factor
    2 is a safety margin; 4 ulps cover operations after the sum (an approximated exp or tanh, a division).
    At n = 512, f32, values in [-1, 1), the tolerance is about seven times the error of a plain loop and a
    thousandth of one typical product.

    16-bit floats are computed in f32 and rounded once, or a few times where that is not possible: they may be off by
    `HALF_STEPS` of their own in addition, however long the sum. A larger allowance could hide one lost product of
    hundreds.

    Args:
        dtype: MLIR element type.
        reduction: Longest chain of additions behind one element, n.
        magnitude: Largest absolute value of the oracle's array.

    Raises:
        PayloadError: The element type is unknown.
    """
    if dtype not in EPSILON:
        raise PayloadError(f"element type with a tolerance must be one of {', '.join(EPSILON)}; got {dtype!r}")
    steps = 4.0 + 2.0 * math.sqrt(max(reduction, 1))
    largest = max(magnitude, TINY[dtype])
    if dtype in HALVES:
        return (HALF_STEPS * EPSILON[dtype] + steps * EPSILON["f32"]) * largest
    return EPSILON[dtype] * steps * largest
