"""The decision on noise that machines made: sessions recorded on a quiet and on a busy core play record and check.

`tests/noise` holds pairs of equal programs, and pairs of which one does 5 % more work, timed beside two to four other
processes; `results` the sessions of live checks. A check draws from them: three or five sessions are the record, and
up to three looks of five follow.
"""

import gzip
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.bundles import regress
from autotune.bundles.finding import RegressionFinding
from autotune.bundles.verdict import (
    BASELINE,
    FMA_KERNEL,
    LOOKS,
    against,
    conclude,
    is_settled,
    judge,
    quiet_speedup,
)
from autotune.store.records import ProcessTimes

ROOT = Path(__file__).parents[2]
FACTOR, SESSIONS, MOST_LOOKS, ROUNDS = 1.05, 5, 3, 60
CHECKS = 40


def joined(pairs):
    """Pairs as sessions of about `ROUNDS` rounds: the second program of a pair is the schedule."""
    count = max(1, round(ROUNDS / len(pairs[0][0])))
    for place in range(0, len(pairs) - count + 1, count):
        baseline, best = (
            tuple(1e-9 * t for pair in pairs[place : place + count] for t in pair[side]) for side in (0, 1)
        )
        yield ProcessTimes(best, baseline, ())


def of_noise(name):
    found = json.loads(gzip.decompress((ROOT / "tests/noise" / name).read_bytes()))
    same = [*joined(found["same"][0::2]), *joined(found["same"][1::2])]
    return same, list(joined(found["slower_5_percent"]))


def of_checks(machine, name):
    found = json.loads((ROOT / "results" / machine / "regressions.json").read_text())[name]
    same = [ProcessTimes(*(tuple(times) for times in each.values())) for each in found["sessions"]]
    return same, [scaled(each, FACTOR) for each in same]


def scaled(session, factor):
    return replace(session, best_seconds=tuple(factor * seconds for seconds in session.best_seconds))


NOISE = {
    "busy": of_noise("busy_core.json.gz"),
    "quiet": of_noise("icelake-3c3bf114.json.gz"),
    "live": of_checks("icelake-3c3bf114", "nano"),
}


def one_look(draw, recorded, pool):
    now, verdict = [], "inconclusive"
    while not is_settled(verdict, len(now), SESSIONS):
        now.append(draw.choice(pool))
        verdict = judge(recorded, now, FACTOR).verdict
    return now


def verdicts(same, pool, recorded):
    """What checks come to."""
    draw, found = random.Random(0), Counter()
    for _ in range(CHECKS):
        record, looks, verdict = draw.sample(same, recorded), [], "inconclusive"
        while verdict == "inconclusive" and len(looks) < MOST_LOOKS:
            looks.append(one_look(draw, record, pool))
            verdict = conclude(record, looks, FACTOR).verdict
        found[verdict] += 1
    return found


@pytest.mark.parametrize("recorded", [3, 5])
@pytest.mark.parametrize("noise", NOISE)
def test_nothing_alarms_where_nothing_changed(noise, recorded):
    same, _ = NOISE[noise]
    assert verdicts(same, same, recorded)["slower"] == 0


@pytest.mark.parametrize("recorded", [3, 5])
@pytest.mark.parametrize("noise", NOISE)
def test_five_per_cent_are_found_or_inconclusive_never_well(noise, recorded):
    same, slower = NOISE[noise]
    found = verdicts(same, slower, recorded)
    assert set(found) <= {"slower", "inconclusive"}
    assert noise == "busy" or found["slower"] == CHECKS


@pytest.mark.parametrize(("noise", "recorded", "share"), [("busy", 5, 0.9), ("quiet", 3, 0.95), ("live", 3, 0.95)])
def test_ten_per_cent_are_found(noise, recorded, share):
    same, slower = NOISE[noise]
    pool = [scaled(session, 1.10 / 1.05) for session in slower]
    assert verdicts(same, pool, recorded)["slower"] >= share * CHECKS


def test_what_the_latest_look_does_not_see_is_the_machine():
    same, _ = NOISE["live"]
    disturbed = [scaled(session, 1.448) for session in same]
    assert conclude(same[:3], [disturbed[3:8], same[8:11]], FACTOR).verdict == "ok"
    assert conclude(same[:3], [disturbed[3:8]], FACTOR).verdict == "inconclusive"
    assert conclude(same[:3], [disturbed[3:8], disturbed[8:13]], FACTOR).verdict == "slower"
    assert LOOKS == 2


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("factor", [1.0, 1.05, 3.0])
@pytest.mark.parametrize("pool", ["busy", "live"])
def test_all_figures_of_a_finding_are_of_the_same_rounds(pool, factor, count, monkeypatch):
    """Whatever looks it was judged by, and by which yardstick; restless machines tell estimators apart."""
    monkeypatch.setattr(regress, "why_stale", lambda _: "")
    draw = random.Random(count)
    recorded, *looks = ([draw.choice(NOISE[pool][0]) for _ in range(5)] for _ in range(1 + count))
    looks = [[scaled(each, factor) for each in look] for look in looks]
    manifest = SimpleNamespace(samples=recorded, baseline=SimpleNamespace(part_error=0.1), speedup=True)
    begun = RegressionFinding("bundle", "payload", "inconclusive", "", recorded=quiet_speedup(recorded, 0.1))
    found = regress.assess(begun, SimpleNamespace(manifest=manifest), looks, FACTOR, needed=count)
    lost = found.recorded.estimate / found.speedup.estimate
    assert lost == pytest.approx(against(BASELINE, recorded, found.samples))
    by = BASELINE if found.why.split(", ")[0].endswith(BASELINE) else FMA_KERNEL
    assert found.slowdown == pytest.approx(against(by, recorded, found.samples))
    assert found.why.startswith(f"{abs(found.slowdown - 1):.1%} ")
    assert quiet_speedup(found.samples, 0.1) == found.speedup
    assert found.speedup.low * 1.1 <= found.speedup.estimate <= found.speedup.high / 1.1
    other = FMA_KERNEL if by == BASELINE else BASELINE
    if (beside := against(other, recorded, found.samples)) is not None:
        assert f"{beside - 1:+.1%} in time against {other}" in found.why


def session_of(baseline, schedule, kernel):
    """A session whose yardsticks, and whose schedule, take so many seconds."""
    return ProcessTimes((schedule,) * ROUNDS, (baseline,) * ROUNDS, (kernel,) * ROUNDS)


RESTLESS = (1.0, 1.14, 1.02, 1.16, 1.0)  # of a baseline whose time depends on the process it runs in


@pytest.mark.parametrize(("slowdown", "verdict"), [(1.0, "ok"), (1.05, "slower"), (1.1, "slower")])
def test_the_steadier_yardstick_judges(slowdown, verdict):
    recorded = [session_of(luck, 0.1, 0.5) for luck in RESTLESS]
    now = [session_of(luck, 0.1 * slowdown, 0.5) for luck in reversed(RESTLESS)]
    found = judge(recorded, now, FACTOR)
    assert (found.verdict, found.by) == (verdict, FMA_KERNEL)
    assert found.slowdown == pytest.approx(slowdown)


@pytest.mark.parametrize(
    ("baseline", "schedule", "kernel", "verdict"),
    [
        (1.0, 1.2, 1.0, "slower"),
        (1.2, 1.2, 1.2, "ok"),  # the whole machine
        (1.2, 1.2, 1.0, "inconclusive"),  # memory, which the kernel does not need
        (1.2, 1.05, 1.0, "inconclusive"),  # the baseline has become slower, and hides what was lost
        (1.0, 1.0, 1.2, "ok"),
    ],
)
def test_an_alarm_and_that_all_is_well_need_both_yardsticks_where_they_contradict_each_other(
    baseline, schedule, kernel, verdict
):
    recorded, now = [session_of(1.0, 0.1, 0.5)] * 5, [session_of(baseline, 0.1 * schedule, 0.5 * kernel)] * 5
    assert judge(recorded, now, FACTOR).verdict == verdict
