"""Has a bundle become slower? The decision alone, from samples: recorded sessions against those of now.

A session is one process. Its level is the ratio of the lower quartiles of baseline and schedule: noise only adds, and
what slows both cancels. Rounds of one session are many but share its luck (where memory lies), so that a rank test
over rounds sees any two processes differ; sessions are few. Hence three conditions: levels differ by more than
halfway to the factor asked for, rounds differ in rank, and levels differ by more than sessions do among themselves.
That all is well needs that a slowdown by the factor would have shown: the change and its margin together are below it.
Sessions of one look follow each other within seconds, and share what disturbs the machine then. So an alarm needs two
looks, a pause apart, that see it, and the sessions of all looks together.
The last is a t-test whose variance is moderated by a prior (G. K. Smyth, "Linear models and empirical Bayes methods",
2004), for few sessions tell little of their variance; sessions far from the others, as disturbed ones are, are drawn
near (winsorised).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, expm1, log, sqrt
from statistics import median
from typing import Any, Literal

import numpy as np
from scipy import stats

from autotune.core.stats import quiet_time
from autotune.store.records import ProcessTimes

RegressionVerdict = Literal["ok", "faster", "slower", "wrong", "stale", "inconclusive"]
ALARMS = ("slower", "wrong")
ALPHA = 0.01  # of both tests
FINE = 0.002  # of all being well, though the schedule is slower by the factor asked for
LEAST_SESSIONS = 3
LOOKS = 2  # that say slower, before an alarm
# The standard deviation of levels before any is measured, and how many sessions that knowledge is worth.
USUAL_LUCK, PRIOR_SESSIONS = 0.01, 4
FAR = 2.0  # standard deviations from the median of sessions; what is further away counts as if it were so far


@dataclass(frozen=True)
class Judgement:
    """Verdict on a bundle, with the figures behind it.

    Attributes:
        verdict: ``ok``, ``faster``, ``slower`` or ``inconclusive``.
        slowdown: Recorded speed-up over that of now: above 1 where the schedule has lost.
        margin: Half of the 99.8 % interval of the slowdown, relative: 0.02 means 2 %.
        pvalue: Probability of such samples if nothing had changed: the larger of both tests'.
    """

    verdict: RegressionVerdict
    slowdown: float
    margin: float
    pvalue: float


def judge(recorded: Sequence[ProcessTimes], now: Sequence[ProcessTimes], factor: float) -> Judgement:
    """Compare sessions.

    Args:
        recorded: Times of the sessions that the bundle records.
        now: Times of the sessions measured now; at least one session.
        factor: A slowdown by this much is to be found; one by less than its root is none.
    """
    then, here = ([log(level(session)) for session in sessions] for sessions in (recorded, now))
    change = median(then) - median(here)
    margin, chance = moderated_test(then, here)
    pvalue = max(chance, rank_test(recorded, now))
    verdict: RegressionVerdict = "ok" if abs(change) + margin < log(factor) else "inconclusive"
    if abs(change) > log(factor) / 2:
        verdict = "inconclusive" if pvalue >= ALPHA else "slower" if change > 0 else "faster"
    return Judgement(verdict, exp(change), expm1(margin), pvalue)


def moderated_test(then: Sequence[float], here: Sequence[float]) -> tuple[float, float]:
    """Half of the 99.8 % interval of the difference of means, and the probability of such a difference by luck."""
    away = [np.subtract(levels, median(levels)) for levels in (then, here)]
    far = FAR * max(USUAL_LUCK, float(stats.median_abs_deviation(np.concatenate(away), scale="normal")))
    near_then, near_here = (
        median(levels) + each.clip(-far, far) for levels, each in zip((then, here), away, strict=True)
    )
    squares = sum(float(np.var(levels)) * len(levels) for levels in (near_then, near_here))
    freedom = len(then) + len(here) - 2 + PRIOR_SESSIONS
    variance = (PRIOR_SESSIONS * USUAL_LUCK**2 + squares) / freedom
    error = sqrt(variance * (1 / len(then) + 1 / len(here)))
    difference = abs(float(np.mean(near_then) - np.mean(near_here)))
    return float(stats.t.ppf(1 - FINE / 2, freedom)) * error, 2 * float(stats.t.sf(difference / error, freedom))


def is_settled(verdict: RegressionVerdict, sessions: int, most: int) -> bool:
    """Tell whether no further process is needed: all is well, or it has been asked as often as it may.

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


def level(session: ProcessTimes) -> float:
    """Speed-up of a session."""
    return quiet_time(session.baseline_seconds) / quiet_time(session.best_seconds)


def rank_test(recorded: Sequence[ProcessTimes], now: Sequence[ProcessTimes]) -> float:
    """Mann-Whitney's U over the speed-ups of all rounds: probability of such ranks if nothing changed."""
    found: Any = stats.mannwhitneyu(ratios(recorded), ratios(now), alternative="two-sided")
    return float(found.pvalue)


def ratios(sessions: Sequence[ProcessTimes]) -> list[float]:
    """Speed-up of every round."""
    return [
        baseline / best
        for session in sessions
        for baseline, best in zip(session.baseline_seconds, session.best_seconds, strict=True)
    ]


def against_reference(recorded: Sequence[ProcessTimes], now: Sequence[ProcessTimes]) -> float | None:
    """How much longer the schedule takes than it did, in units of the FMA kernel; `None` where that is not recorded."""
    then = [reference_level(session) for session in recorded if session.reference_seconds]
    here = [reference_level(session) for session in now if session.reference_seconds]
    return median(here) / median(then) if then and here else None


def reference_level(session: ProcessTimes) -> float:
    """Time of the schedule over that of the FMA kernel."""
    return quiet_time(session.best_seconds) / quiet_time(session.reference_seconds)
