"""Has a bundle become slower? The decision alone, from samples: recorded sessions against those of now.

A session is one process. Its level is the ratio of the lower quartiles of baseline and schedule: noise only adds, and
what slows both cancels. Rounds of one session are many but share its luck (where memory lies), so that a rank test
over rounds sees any two processes differ; sessions are few. Hence both: the levels must differ by more than halfway to
the factor asked for, and the rounds must differ in rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import median
from typing import Any, Literal

import numpy as np
from scipy import stats

from autotune.records import Session

Verdict = Literal["ok", "faster", "slower", "wrong", "stale", "inconclusive"]
ALARMS = ("slower", "wrong")
ALPHA = 0.01  # of the rank test
LEAST_SESSIONS = 2
QUARTILE = 0.25
# A session in which even the lower half of the samples spreads by more than this is of a machine that did other work.
NOISY = 0.05


@dataclass(frozen=True)
class Judgement:
    """What samples say.

    Attributes:
        verdict: ``ok``, ``faster``, ``slower`` or ``inconclusive``.
        slowdown: Recorded speed-up over that of now: above 1 where the schedule has lost.
        pvalue: Of the rank test, that the rounds are alike.
        spread: How much the levels of the sessions of now differ: 0.02 means 2 %.
        noise: Spread inside the noisiest session.
    """

    verdict: Verdict
    slowdown: float
    pvalue: float
    spread: float
    noise: float


def judge(recorded: Sequence[Session], now: Sequence[Session], factor: float) -> Judgement:
    """Compare sessions.

    Args:
        recorded: Of the bundle.
        now: At least one.
        factor: A slowdown by this much is to be found; one by less than its root is none.
    """
    levels = [level(session) for session in now]
    slowdown = exp(median(log(level(s)) for s in recorded) - median(map(log, levels)))
    pvalue = rank_test(recorded, now)
    threshold = sqrt(factor)
    spread, noise = max(levels) / min(levels) - 1, max(map(noise_of, now))
    verdict: Verdict = "ok"
    if not 1 / threshold <= slowdown <= threshold:
        verdict = "slower" if slowdown > 1 else "faster"
        doubtful = spread > factor - 1 or noise > NOISY
        small = abs(log(slowdown)) < log(factor) + log(1 + spread) + log(1 + noise)
        if pvalue >= ALPHA or (doubtful and small):
            verdict = "inconclusive"
    return Judgement(verdict, slowdown, pvalue, spread, noise)


def is_settled(verdict: Verdict, sessions: int, most: int) -> bool:
    """Tell whether no further process is needed: all is well, or it has been asked as often as it may.

    An alarm needs as many sessions as there may be.
    """
    enough = {"stale": 1, "ok": LEAST_SESSIONS, "faster": LEAST_SESSIONS}.get(verdict, most)
    return sessions >= min(enough, most)


def level(session: Session) -> float:
    """Speed-up of a session."""
    return float(np.quantile(session.baseline_seconds, QUARTILE) / np.quantile(session.best_seconds, QUARTILE))


def noise_of(session: Session) -> float:
    """How much the faster half of the samples spreads: median over lower quartile, of the noisier program."""
    spreads = (
        float(np.median(times) / np.quantile(times, QUARTILE)) - 1
        for times in (session.best_seconds, session.baseline_seconds)
    )
    return max(spreads)


def rank_test(recorded: Sequence[Session], now: Sequence[Session]) -> float:
    """Mann-Whitney's U over the speed-ups of all rounds: probability of such ranks if nothing changed."""
    found: Any = stats.mannwhitneyu(ratios(recorded), ratios(now), alternative="two-sided")
    return float(found.pvalue)


def ratios(sessions: Sequence[Session]) -> list[float]:
    """Speed-up of every round."""
    return [
        baseline / best
        for session in sessions
        for baseline, best in zip(session.baseline_seconds, session.best_seconds, strict=True)
    ]


def against_reference(recorded: Sequence[Session], now: Sequence[Session]) -> float | None:
    """How much longer the schedule takes than it did, in units of the FMA kernel; `None` where that is not recorded."""
    then = [reference_level(session) for session in recorded if session.reference_seconds]
    here = [reference_level(session) for session in now if session.reference_seconds]
    return median(here) / median(then) if then and here else None


def reference_level(session: Session) -> float:
    """Time of the schedule over that of the FMA kernel."""
    return float(np.quantile(session.best_seconds, QUARTILE) / np.quantile(session.reference_seconds, QUARTILE))
