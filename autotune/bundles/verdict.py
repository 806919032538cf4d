"""Has a bundle become slower? The decision alone, from samples: recorded sessions against those of now.

A session is one process. Its level is the ratio of the lower quartiles of a yardstick and the schedule: noise only
adds, and what slows both cancels. There are two yardsticks, the baseline and the FMA kernel; whichever was steadier
judges. Where the other contradicts it by more than its own noise, an alarm needs both, and that all is well does too.
Rounds of one session are many but share its luck (where memory lies), so that a rank test over rounds sees any two
processes differ; sessions are few. Hence three conditions: levels differ by more than halfway to the factor asked
for, rounds differ in rank, and levels differ by more than sessions do among themselves. That all is well needs that a
slowdown by the factor would have shown: the change and its margin together are below it. Sessions of one look follow
each other within seconds, and share what disturbs the machine then. So an alarm needs two looks, a pause apart, that
see it, and the sessions of all looks together. The last is a t-test whose variance is moderated by a prior (G. K.
Smyth, "Linear models and empirical Bayes methods", 2004), for few sessions tell little of their variance; sessions
far from the others, as disturbed ones are, are drawn near (winsorised).
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
ALPHA = 0.01  # of both tests
FINE = 0.002  # of all being well, though the schedule is slower by the factor asked for
LEAST_SESSIONS = 3
LOOKS = 2  # that say slower, before an alarm
CONTRADICTS = 3.0  # standard deviations between what two yardsticks say
# The standard deviation of levels before any is measured, and how many sessions that knowledge is worth.
USUAL_LUCK, PRIOR_SESSIONS = 0.01, 4
FAR = 2.0  # standard deviations from the median of sessions; what is further away counts as if it were so far


@dataclass(frozen=True)
class Judgement:
    """Verdict on a bundle, with the figures behind it.

    Attributes:
        verdict: ``ok``, ``faster``, ``slower`` or ``inconclusive``.
        by: Yardstick that judged.
        slowdown: Time of the schedule now over that recorded, against the yardstick: above 1 where it has lost.
        margin: Half of the 99.8 % interval of the slowdown, relative: 0.02 means 2 %.
        pvalue: Probability of such samples if nothing had changed: the larger of both tests'.
        error: Standard deviation of the logarithm of the slowdown.
        now: Times of the sessions of now that all of this is about.
    """

    verdict: RegressionVerdict
    by: Yardstick
    slowdown: float
    margin: float
    pvalue: float
    error: float
    now: tuple[ProcessTimes, ...]


def judge(recorded: Sequence[ProcessTimes], now: Sequence[ProcessTimes], factor: float) -> Judgement:
    """Compare sessions by the steadier yardstick; beside one that contradicts it only what both say is said.

    Args:
        recorded: Times of the sessions that the bundle records.
        now: Times of the sessions measured now; at least one session.
        factor: A slowdown by this much is to be found; one by less than its root is none.
    """
    yardsticks = [by for by in (BASELINE, FMA_KERNEL) if all(has(session, by) for session in (*recorded, *now))]
    first, *others = sorted((judge_by(by, recorded, now, factor) for by in yardsticks), key=lambda each: each.error)
    for other in others:
        apart = abs(log(first.slowdown / other.slowdown))
        is_slower = log(other.slowdown) > log(factor) / 2
        if apart > CONTRADICTS * hypot(first.error, other.error) and is_slower != (first.verdict == "slower"):
            return replace(first, verdict="inconclusive")
    return first


def judge_by(by: Yardstick, recorded: Sequence[ProcessTimes], now: Sequence[ProcessTimes], factor: float) -> Judgement:
    """Compare sessions by one yardstick."""
    then, here = ([log(level(session, by)) for session in sessions] for sessions in (recorded, now))
    change = median(then) - median(here)
    margin, chance, error = moderated_test(then, here)
    pvalue = max(chance, rank_test(recorded, now, by))
    verdict: RegressionVerdict = "ok" if abs(change) + margin < log(factor) else "inconclusive"
    if abs(change) > log(factor) / 2:
        verdict = "inconclusive" if pvalue >= ALPHA else "slower" if change > 0 else "faster"
    return Judgement(verdict, by, exp(change), expm1(margin), pvalue, error, tuple(now))


def quiet_speedup(sessions: Sequence[ProcessTimes], part_error: float) -> Interval | None:
    """Speed-up with its 95 % interval, by what slowdowns are judged by: the median level of sessions.

    So a slowdown is the quotient of the estimates of two such speed-ups.

    Args:
        sessions: Times, an entry a process.
        part_error: Relative error of the baseline's times, where a part of it was timed.
    """
    levels = [log(level(session, BASELINE)) for session in sessions if session.baseline_seconds]
    if not levels:
        return None
    (near,) = drawn_near([levels])
    variance, freedom = moderated_variance([near])
    half = float(scipy.special.stdtrit(freedom, 0.975)) * sqrt(variance / len(levels))
    middle = median(levels)
    return Interval(exp(middle - half), exp(middle), exp(middle + half)).widened(part_error)


def moderated_test(then: Sequence[float], here: Sequence[float]) -> tuple[float, float, float]:
    """Half of the 99.8 % interval of the difference of means, the probability of such a one by luck, and its error."""
    near_then, near_here = drawn_near([then, here])
    variance, freedom = moderated_variance([near_then, near_here])
    error = sqrt(variance * (1 / len(then) + 1 / len(here)))
    difference = abs(float(np.mean(near_then) - np.mean(near_here)))
    margin = float(scipy.special.stdtrit(freedom, 1 - FINE / 2)) * error
    return margin, 2 * float(scipy.special.stdtr(freedom, -difference / error)), error


def drawn_near(groups: Sequence[Sequence[float]]) -> list[Times]:
    """Levels of several groups of sessions; those far from the median of their group count as if they were nearer."""
    check_room()
    away = [np.subtract(levels, median(levels)) for levels in groups]
    far = FAR * max(USUAL_LUCK, median_deviation(np.concatenate(away)))
    return [median(levels) + each.clip(-far, far) for levels, each in zip(groups, away, strict=True)]


def median_deviation(values: Times) -> float:
    """Median distance from the median, scaled so that it estimates a normal distribution's standard deviation."""
    found: list[float] = values.tolist()
    middle = median(found)
    return median(abs(value - middle) for value in found) / float(scipy.special.ndtri(0.75))


def moderated_variance(groups: Sequence[Times]) -> tuple[float, int]:
    """Variance of levels within their groups, moderated by what is usual, and its degrees of freedom."""
    squares = sum(float(np.var(levels)) * len(levels) for levels in groups)
    freedom = sum(map(len, groups)) - len(groups) + PRIOR_SESSIONS
    return (PRIOR_SESSIONS * USUAL_LUCK**2 + squares) / freedom, freedom


def is_settled(verdict: RegressionVerdict, sessions: int, most: int) -> bool:
    """Return whether no further process is needed: all is well, or it has been asked as often as it may.

    An alarm needs as many sessions as there may be.
    """
    enough = {"stale": 1, "ok": LEAST_SESSIONS, "faster": LEAST_SESSIONS}.get(verdict, most)
    return sessions >= min(enough, most)


def conclude(
    recorded: Sequence[ProcessTimes], looks: Sequence[Sequence[ProcessTimes]], factor: float, needed: int = LOOKS
) -> Judgement:
    """Judgement of several looks, a pause apart.

    Where the latest finds nothing slower it decides, for what is slow now and then is the machine. A slowdown must be
    seen in as many looks as are needed, and by all of them together.

    Args:
        recorded: Times of the sessions that the bundle records.
        looks: Times of the sessions of every look, in order; at least one look.
        factor: A slowdown by this much is to be found.
        needed: Looks that must see a slowdown before it is called one.
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
    """Times of a yardstick in a session."""
    return session.baseline_seconds if by == BASELINE else session.reference_seconds


def has(session: ProcessTimes, by: Yardstick) -> bool:
    """Return whether a session has times of a yardstick in every round; the baseline is what regress is about."""
    return by == BASELINE or len(session.reference_seconds) == len(session.best_seconds)


def level(session: ProcessTimes, by: Yardstick) -> float:
    """Speed-up of a session over a yardstick."""
    return quiet_time(yardstick_seconds(session, by)) / quiet_time(session.best_seconds)


def rank_test(recorded: Sequence[ProcessTimes], now: Sequence[ProcessTimes], by: Yardstick) -> float:
    """Mann-Whitney's U over the speed-ups of all rounds: probability of such ranks if nothing changed."""
    return chance_of_ranks(ratios(recorded, by), ratios(now, by))


def ratios(sessions: Sequence[ProcessTimes], by: Yardstick) -> list[float]:
    """Speed-up of every round over a yardstick."""
    return [
        theirs / ours
        for session in sessions
        for theirs, ours in zip(yardstick_seconds(session, by), session.best_seconds, strict=True)
    ]


def against(by: Yardstick, recorded: Sequence[ProcessTimes], now: Sequence[ProcessTimes]) -> float | None:
    """How much longer the schedule takes than it did, in units of a yardstick; `None` where not all is recorded."""
    if not all(has(session, by) for session in (*recorded, *now)):
        return None
    then, here = ([log(level(session, by)) for session in sessions] for sessions in (recorded, now))
    return exp(median(then) - median(here))
