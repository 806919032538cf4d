"""Decision whether a bundle has become slower, from samples: recorded sessions against current ones.

A session is one process. Its level is the ratio of the lower quartiles of a yardstick and the schedule: noise only adds
time, and slowdowns of both cancel. There are two yardsticks, the baseline and the FMA kernel; the steadier one decides.
If the other one contradicts it by more than the noise, neither an alarm nor an all-clear is given.

A session has many rounds, but they share its random effects (such as memory layout), so that a rank test over rounds
finds any two processes different; sessions are few. A change therefore requires three conditions: levels differ by more
than half of the requested factor (on a log scale), rounds differ in rank, and levels differ by more than the variation
between sessions. An all-clear requires that a slowdown by the factor would have been detected: the change plus its
margin is below it. The sessions of one look run within seconds of each other and share disturbances of the machine, so
an alarm requires that two looks, separated by a pause, and the sessions of all looks together show it.

The comparison of levels is a t-test whose variance is moderated by a prior (G. K. Smyth, "Linear models and empirical
Bayes methods", 2004), since few sessions determine their variance poorly; outlying sessions are winsorized.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, expm1, hypot, log, sqrt
from statistics import median
from typing import Literal

import numpy as np
import scipy  # its parts are loaded when they are first used

from autotune.core.host.scipy_memory import check_room
from autotune.core.ranks import chance_of_ranks
from autotune.core.stats import Interval, Times, quiet_time
from autotune.store.records import ProcessTimes

Yardstick = Literal["its baseline", "the FMA kernel"]
BASELINE: Yardstick = "its baseline"
FMA_KERNEL: Yardstick = "the FMA kernel"
RegressionVerdict = Literal["ok", "faster", "slower", "wrong", "stale", "inconclusive"]
ALARMS = ("slower", "wrong")
ALPHA = 0.01  # significance level of both tests
FINE = 0.002  # probability of an all-clear although the schedule is slower by the factor
LEAST_SESSIONS = 3
LOOKS = 2  # looks that must show a slowdown before an alarm
CONTRADICTS = 3.0  # standard deviations between the slowdowns by two yardsticks
# Prior standard deviation of the logarithm of levels, and its weight in sessions (degrees of freedom).
USUAL_LUCK, PRIOR_SESSIONS = 0.01, 4
FAR = 2.0  # winsorization limit: standard deviations from the median of sessions


@dataclass(frozen=True)
class Judgement:
    """Verdict on a bundle, with the figures behind it.

    Attributes:
        verdict: ``ok``, ``faster``, ``slower`` or ``inconclusive``.
        by: Yardstick of the comparison.
        slowdown: Current over recorded time of the schedule, relative to the yardstick; above 1 if slower.
        margin: Half-width of the 99.8 % confidence interval of the slowdown, relative: 0.02 means 2 %.
        pvalue: Larger p-value of both tests, for the null hypothesis that nothing changed.
        error: Standard error of the logarithm of the slowdown.
        now: Samples of the current sessions that the judgement is based on.
    """

    verdict: RegressionVerdict
    by: Yardstick
    slowdown: float
    margin: float
    pvalue: float
    error: float
    now: tuple[ProcessTimes, ...]


def judge(recorded: Sequence[ProcessTimes], now: Sequence[ProcessTimes], factor: float) -> Judgement:
    """Compare sessions by the steadier yardstick; the verdict is inconclusive if the other one contradicts it.

    Args:
        recorded: Samples of the recorded sessions.
        now: Samples of the current sessions; at least one session.
        factor: Slowdown that must be detected; one below its square root is ignored.
    """
    yardsticks = [by for by in (BASELINE, FMA_KERNEL) if all(has(session, by) for session in (*recorded, *now))]
    first, *others = sorted((judge_by(by, recorded, now, factor) for by in yardsticks), key=lambda each: each.error)
    for second in others:
        apart = abs(log(first.slowdown / second.slowdown))
        is_slower = log(second.slowdown) > log(factor) / 2
        if apart > CONTRADICTS * hypot(first.error, second.error) and is_slower != (first.verdict == "slower"):
            return replace(first, verdict="inconclusive")
    return first


def judge_by(by: Yardstick, recorded: Sequence[ProcessTimes], now: Sequence[ProcessTimes], factor: float) -> Judgement:
    """Compare sessions by a single yardstick."""
    then, here = ([log(level(session, by)) for session in sessions] for sessions in (recorded, now))
    change = median(then) - median(here)
    margin, chance, error = moderated_test(then, here)
    pvalue = max(chance, rank_test(recorded, now, by))
    verdict: RegressionVerdict = "ok" if abs(change) + margin < log(factor) else "inconclusive"
    if abs(change) > log(factor) / 2:
        verdict = "inconclusive" if pvalue >= ALPHA else "slower" if change > 0 else "faster"
    return Judgement(verdict, by, exp(change), expm1(margin), pvalue, error, tuple(now))


def quiet_speedup(sessions: Sequence[ProcessTimes], part_error: float) -> Interval | None:
    """Return the median level of sessions, a speed-up over the baseline, with its 95 % confidence interval.

    A slowdown is the quotient of the estimates of two such speed-ups.

    Args:
        sessions: Samples of each process.
        part_error: Relative error of the baseline's times if only a part of it was timed.
    """
    levels = [log(level(session, BASELINE)) for session in sessions if session.baseline_seconds]
    if not levels:
        return None
    (winsorized,) = drawn_near([levels])
    variance, freedom = moderated_variance([winsorized])
    half = float(scipy.special.stdtrit(freedom, 0.975)) * sqrt(variance / len(levels))
    middle = median(levels)
    return Interval(exp(middle - half), exp(middle), exp(middle + half)).widened(part_error)


def moderated_test(then: Sequence[float], here: Sequence[float]) -> tuple[float, float, float]:
    """Compare two groups of levels by a moderated t-test with winsorized values.

    Returns:
        Half-width of the 99.8 % confidence interval of the difference of means, p-value, standard error.
    """
    near_then, near_here = drawn_near([then, here])
    variance, freedom = moderated_variance([near_then, near_here])
    error = sqrt(variance * (1 / len(then) + 1 / len(here)))
    difference = abs(float(np.mean(near_then) - np.mean(near_here)))
    margin = float(scipy.special.stdtrit(freedom, 1 - FINE / 2)) * error
    return margin, 2 * float(scipy.special.stdtr(freedom, -difference / error)), error


def drawn_near(groups: Sequence[Sequence[float]]) -> list[Times]:
    """Winsorize the levels of several groups of sessions at `FAR` standard deviations from each group's median.

    The standard deviation is estimated from the median deviation of all groups, and is at least `USUAL_LUCK`.
    """
    check_room()
    away = [np.subtract(levels, median(levels)) for levels in groups]
    far = FAR * max(USUAL_LUCK, median_deviation(np.concatenate(away)))
    return [median(levels) + each.clip(-far, far) for levels, each in zip(groups, away, strict=True)]


def median_deviation(values: Times) -> float:
    """Return the median absolute deviation, scaled to estimate the standard deviation of a normal distribution."""
    numbers: list[float] = values.tolist()
    middle = median(numbers)
    return median(abs(value - middle) for value in numbers) / float(scipy.special.ndtri(0.75))


def moderated_variance(groups: Sequence[Times]) -> tuple[float, int]:
    """Return the pooled variance of levels within their groups, moderated by the prior, and its degrees of freedom."""
    squares = sum(float(np.var(levels)) * len(levels) for levels in groups)
    freedom = sum(map(len, groups)) - len(groups) + PRIOR_SESSIONS
    return (PRIOR_SESSIONS * USUAL_LUCK**2 + squares) / freedom, freedom


def is_settled(verdict: RegressionVerdict, sessions: int, most: int) -> bool:
    """Return whether no further process is needed: the verdict has enough sessions, or the maximum is reached.

    An alarm needs the maximum number of sessions.
    """
    enough = {"stale": 1, "ok": LEAST_SESSIONS, "faster": LEAST_SESSIONS}.get(verdict, most)
    return sessions >= min(enough, most)


def conclude(
    recorded: Sequence[ProcessTimes], looks: Sequence[Sequence[ProcessTimes]], factor: float, needed: int = LOOKS
) -> Judgement:
    """Combine several looks, separated by pauses, to one judgement.

    If the latest look finds no slowdown, it decides, since an intermittent slowdown is due to the machine. A slowdown
    must be seen in `needed` looks, and in the sessions of all looks together.

    Args:
        recorded: Samples of the recorded sessions.
        looks: Samples of the sessions of every look, in order; at least one look.
        factor: Slowdown that must be detected.
        needed: Number of looks that must see a slowdown before it is reported.
    """
    judged = [judge(recorded, look, factor) for look in looks]
    latest = judged[-1]
    if latest.verdict in ("ok", "faster"):
        return latest
    seen = sum(log(each.slowdown) > log(factor) / 2 for each in judged)
    together = judge(recorded, [session for look in looks for session in look], factor)
    if together.verdict == "slower" and seen >= needed:
        return together
    return replace(latest, verdict="inconclusive")


def yardstick_seconds(session: ProcessTimes, by: Yardstick) -> tuple[float, ...]:
    """Return the samples of a yardstick in a session, in seconds per call."""
    return session.baseline_seconds if by == BASELINE else session.reference_seconds


def has(session: ProcessTimes, by: Yardstick) -> bool:
    """Return whether a session has samples of a yardstick in every round; those of the baseline always exist."""
    return by == BASELINE or len(session.reference_seconds) == len(session.best_seconds)


def level(session: ProcessTimes, by: Yardstick) -> float:
    """Return the level of a session: the speed-up of the schedule over a yardstick, by lower quartiles."""
    return quiet_time(yardstick_seconds(session, by)) / quiet_time(session.best_seconds)


def rank_test(recorded: Sequence[ProcessTimes], now: Sequence[ProcessTimes], by: Yardstick) -> float:
    """Return the p-value of the Mann-Whitney U test over the speed-ups of all rounds."""
    return chance_of_ranks(ratios(recorded, by), ratios(now, by))


def ratios(sessions: Sequence[ProcessTimes], by: Yardstick) -> list[float]:
    """Return the speed-up over a yardstick in every round."""
    return [
        theirs / ours
        for session in sessions
        for theirs, ours in zip(yardstick_seconds(session, by), session.best_seconds, strict=True)
    ]


def against(by: Yardstick, recorded: Sequence[ProcessTimes], now: Sequence[ProcessTimes]) -> float | None:
    """Return current over recorded time of the schedule, relative to a yardstick; `None` if samples are missing."""
    if not all(has(session, by) for session in (*recorded, *now)):
        return None
    then, here = ([log(level(session, by)) for session in sessions] for sessions in (recorded, now))
    return exp(median(then) - median(here))
