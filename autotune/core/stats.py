"""Statistics over raw samples: how much faster, whether really different, how noisy, how exact.

Times are seconds a call. A sample is noisy upwards only (delays): programs are compared by lower quartiles, and
speed-ups quoted as medians of ratios; never means.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded when they are first used; scipy.stats, a second and more, for limits of a share

from autotune.core.errors import PayloadError
from autotune.core.host.scipy_memory import check_room
from autotune.core.options import check_real, check_seed
from autotune.core.ranks import chance_of_ranks

Times = npt.NDArray[np.float64]
RESAMPLES = 2000
PERMUTATIONS = 1999
# The quantile that programs are compared by. On a core with two other processes, 60 pairs tell a program that is 5 %
# slower in 100 of 100 cases by the lower quartile, in half of them by the median, in 15 by Wilcoxon's test of ratios.
QUIET = 0.25
# Below this many samples a bootstrap only reshuffles what was seen, and its interval is too narrow to be believed.
FEWEST_FOR_BOOTSTRAP = 5
# Shorter or longer is no time of anything, and ratios of such times would overflow.
SHORTEST, LONGEST = 1e-150, 1e150
# How far a program may be from itself in two calls, on machines as noisy as these: what so few samples cannot show.
FEW_SPREAD = 0.1
# Distance from 1.0 to the next number, by MLIR element type; integer arithmetic is exact.
EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52, "i32": 0.0, "i64": 0.0, "f16": 2.0**-10, "bf16": 2.0**-7, "i8": 0.0}
HALVES, HALF_STEPS = ("f16", "bf16"), 8.0
TINY = {"f32": 2.0**-126, "f64": 2.0**-1022, "i32": 0.0, "i64": 0.0, "f16": 2.0**-14, "bf16": 2.0**-126, "i8": 0.0}


@dataclass(frozen=True)
class Interval:
    """An estimate between its confidence limits: ``low <= estimate <= high``."""

    low: float
    estimate: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.4g}x [{self.low:.4g}, {self.high:.4g}]"

    def to_json(self) -> dict[str, float]:
        """Plain data: the three numbers by name."""
        return asdict(self)

    def scaled(self, factor: float) -> "Interval":
        """So many times the estimate and its limits."""
        return Interval(self.low * factor, self.estimate * factor, self.high * factor)

    def widened(self, error: float) -> "Interval":
        """The same estimate, of which nothing is known more precisely than to a relative error."""
        return Interval(self.low / (1 + error), self.estimate, self.high * (1 + error))


def ratio_interval(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int = 0,
    paired: bool = True,
) -> Interval:
    """Speed-up of `candidate` over `baseline`: above 1 where the candidate is faster.

    Paired: the median of elementwise ratios, which drift common to both cancels out of. Otherwise
    ``median(baseline) / median(candidate)``. The limits are those of a percentile bootstrap; with fewer than
    five samples they are the smallest and the largest ratio seen.

    Args:
        baseline: Seconds a call.
        candidate: Seconds a call; where paired, taken beside the baseline's samples, in the same order.
        confidence: Coverage of the bootstrap interval.
        seed: Seed of the resampling; equal seeds give equal intervals.
        paired: Whether samples belong together by position.

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
    """The median of seconds a call, between its confidence limits (as in `ratio_interval`).

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
    """A share, between its exact (Clopper and Pearson) confidence limits.

    >>> share_interval(0, 100).high < 0.04
    True
    """
    check_room()
    found = scipy.stats.binomtest(count, of).proportion_ci(confidence)
    return Interval(float(found.low), count / of, float(found.high))


def interval(
    data: tuple[Times, ...], statistic: Callable[..., Any], seen: Times, confidence: float, seed: int
) -> Interval:
    """Bootstrap `statistic` of `data`; with too few samples, the range of the ratios `seen`."""
    low, estimate, high = float(seen.min()), float(statistic(*data)), float(seen.max())
    if min(map(len, data)) >= FEWEST_FOR_BOOTSTRAP and low < high:
        # By percentiles: BCa is undefined (NaN) where resamples coincide, as medians of few samples do. Same numbers
        # as of scipy.stats.bootstrap, which takes a second and more to load, in each command that quotes a speed-up.
        rng = np.random.default_rng(seed)
        drawn = (each[rng.integers(0, len(each), (RESAMPLES, len(each)))] for each in data)
        low, high = map(float, np.quantile(statistic(*drawn, axis=-1), [(1 - confidence) / 2, (1 + confidence) / 2]))
    return Interval(min(low, estimate), estimate, max(high, estimate))


def median_ratio(baseline: Times, candidate: Times, axis: int = -1) -> Times:
    """Ratio of medians along `axis`."""
    return np.asarray(np.median(baseline, axis=axis) / np.median(candidate, axis=axis))


def as_times(samples: Sequence[float]) -> Times:
    """An array of times.

    Raises:
        ValueError: A time is not a positive finite number, is beyond `SHORTEST` or `LONGEST`, or there is none.
    """
    times = np.asarray(samples, dtype=np.float64)
    if times.size == 0 or not ((times >= SHORTEST) & (times <= LONGEST)).all():
        bad = next((repr(s) for s in samples if not SHORTEST <= s <= LONGEST), "none")
        raise ValueError(f"times must be positive numbers of seconds, {SHORTEST:g} to {LONGEST:g}; got {bad}")
    return times


def unrest(samples: Sequence[float]) -> float:
    """Relative difference of a program's time in the first half of its samples and in the second: 0.1 means 10 %."""
    half = len(samples) // 2
    return relative_difference(samples[:half], samples[half:])


def quiet_time(samples: Sequence[float]) -> float:
    """What a program takes when nothing disturbs it: the lower quartile, which delays of most samples do not move.

    ``numpy.quantile`` to the last bit, at a tenth of its cost: searches ask for it again and again.

    Raises:
        ValueError: A time is not a positive finite number, or there is none.
    """
    times = sorted(samples)
    if not times or not times[0] >= SHORTEST or not sum(times) <= LONGEST:
        as_times(samples)  # says what is wrong
    position = QUIET * (len(times) - 1)
    below = int(position)
    low, high = times[below], times[min(below + 1, len(times) - 1)]
    share, gap = position - below, high - low
    return float(low + gap * share if share < 0.5 else high - gap * (1 - share))


def relative_difference(a: Sequence[float], b: Sequence[float]) -> float:
    """How much longer the slower takes than the faster, undisturbed: 0.1 means 10 % longer."""
    times = quiet_time(a), quiet_time(b)
    return max(times) / min(times) - 1.0


def is_different(a: Sequence[float], b: Sequence[float], *, floor: float, alpha: float = 0.01) -> bool:
    """Return whether two samples of times really differ: by more than the machine's noise, and not by chance.

    Equally many samples are taken as interleaved pairs, each pair in random order, so that equal programs could as well
    have been exchanged in any of them: a permutation test on the ratio of lower quartiles (exact, whatever the noise).
    Otherwise Mann-Whitney's U. At the default `alpha` no answer is yes with fewer than 8 pairs, or 5 against 5 or so
    unpaired: take more samples rather than a larger `alpha`.

    Args:
        a: Seconds a call.
        b: Seconds a call.
        floor: Relative difference that the same program shows against itself, from `noise_floor`.
        alpha: Probability of calling equal programs different, of the test alone.

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
    """Two-sided p-value of a paired permutation test on the ratio of lower quartiles.

    What `scipy.stats.permutation_test` does, without the 1.2 s that loading it adds to each command that compares: all
    ways to exchange pairs where they are at most `PERMUTATIONS`, else so many random ones and the observed one.

    Args:
        a: Seconds a call, n of them.
        b: Seconds a call, of the same pairs.
    """
    logs, pairs = np.log([a, b]), len(a)
    exact = 2**pairs <= PERMUTATIONS
    if exact:
        exchanged = np.arange(2**pairs)[:, None] >> np.arange(pairs) & 1 > 0
    else:
        exchanged = np.random.default_rng(0).random((PERMUTATIONS, pairs)) < 0.5
    gaps = quartile_gap(np.where(exchanged, logs[1], logs[0]), np.where(exchanged, logs[0], logs[1]))
    seen = quartile_gap(*logs)
    slack = 1e-14 * abs(seen)  # a gap that rounding alone sets apart from the observed one is as large
    tail = min(np.count_nonzero(gaps <= seen + slack), np.count_nonzero(gaps >= seen - slack))
    chance = tail / len(gaps) if exact else (tail + 1) / (len(gaps) + 1)
    return float(min(1.0, 2 * chance))


def quartile_gap(a: Times, b: Times) -> Times:
    """Difference of lower quartiles along the last axis."""
    gap: Times = np.quantile(a, QUIET, axis=-1) - np.quantile(b, QUIET, axis=-1)
    return gap


def noise_floor(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """The A/A floor: the 95th percentile of how much one program differs from itself.

    Args:
        pairs: Two runs of the same program each, in seconds a call.

    Raises:
        ValueError: There are no pairs.
    """
    if not pairs:
        raise ValueError("noise floor must come from at least one A/A pair; got none")
    return float(np.quantile([relative_difference(a, b) for a, b in pairs], 0.95))


def tolerance(dtype: str, reduction: int, magnitude: float) -> float:
    """Largest absolute error of an element that rounding alone explains: ``eps * (4 + 2 sqrt(n)) * magnitude``.

    Summing n products in any order is off by at most ``n u sum|x||y|`` (Higham 2002, section 3.1), and, as rounding
    errors behave like independent ones, by ``lambda sqrt(n) u sum|x||y|`` with near certainty (Higham and Mary 2019).
    Random-sign data has ``max|oracle| ~ sqrt(n)``, all-positive data ``~ n``; for sums taken one by one both give a
    largest error of ``c sqrt(n) eps max|oracle|``, with c measured as 0.33 and 0.45 for n from 64 to 4096. 2 leaves
    room for unlucky data; 4 ulps are for what happens to the sum afterwards (an approximated exp or tanh, a division).
    At n = 512, f32, values in [-1, 1), the tolerance is about seven times the error of a plain loop and a
    thousandth of one typical product.

    Floats of 16 bits are computed in f32 and rounded once, or, where they cannot be, a few times: however long the sum,
    they may be off by `HALF_STEPS` of their own besides. One lost product of hundreds would hide in more.

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
