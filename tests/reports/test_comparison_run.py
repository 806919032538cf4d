"""A comparison run: libraries in processes of their own, the ways they have, and who falls while the others stay."""

import json
import os
from dataclasses import replace

import pytest
from compare_support import TINY, installed
from listener_support import Recorder
from payload_support import ENDLESS
from strange_support import Strange, StrangeVariants
from tuning_support import contraction_payload

from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.candidate import Candidate
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Effort
from autotune.core.host.machine import this_machine
from autotune.core.listener import SILENT
from autotune.core.plugs.comparator import LibraryVariant
from autotune.core.trial import OUTCOMES
from autotune.registry import load_comparator, load_payload
from autotune.reports.comparison_run import ComparisonRun, split_rounds, ways_of
from autotune.reports.entries import Contender
from autotune.worker import race
from autotune.worker.bench import entry as entries
from autotune.worker.bench.entry import Entry, Verification
from autotune.worker.isolation.limits import MODEL_SECONDS, whole_seconds
from autotune.worker.worker import Worker

pytestmark = pytest.mark.usefixtures("no_care")
EFFORT = Effort(samples=5, seconds=0.2, sample_seconds=1e-4)
MACHINE = this_machine()


@pytest.fixture(scope="module")
def ours():
    with Worker(60.0) as worker:
        yield worker


def hold(ours, *libraries, payload=None):
    """What becomes of our plain program and of libraries: verifications and times, by row."""
    payload = payload or load_payload(TINY)
    plain = Contender("default", Entry("default", payload, Candidate(None, PLAIN)))
    others = [Contender(library.name, Entry(library.name, payload, library)) for library in libraries]
    with ComparisonRun(MACHINE, ours, SILENT) as run:
        run.enter([plain, *others])
        times = run.race_all(("default",), EFFORT)
        assert list(run.verifications) == [contender.name for contender in run.contenders]
    return run.verifications, times


@pytest.mark.parametrize(
    ("behaviour", "status", "words"),
    [
        ("off_by_a_little", "wrong-result", "should be"),
        ("not_finite", "non-finite", "inf"),
        ("of_another_shape", "wrong-result", "must have shape (9, 7)"),
        ("one_too_many", "failed", "an array each of"),
        ("raises", "failed", "RuntimeError: no luck | today"),
        ("refuses", "unsupported", "something else"),
        ("aborts", "crashed", "SIGABRT | two of one symbol"),
    ],
)
def test_library_that_misbehaves_has_a_standing_that_says_how(ours, behaviour, status, words):
    verifications, times = hold(ours, Strange(behaviour))
    found = verifications[behaviour]
    assert found.status == status
    assert words in found.diagnostic
    assert found.version.startswith(f"{behaviour} 1.0") or status == "crashed"
    assert list(times) == ["default"]


def test_a_payload_that_does_not_end_is_refused_once_and_not_waited_for_by_every_row():
    payload = read_payload("endless.mlir", ENDLESS)
    with Worker(0.5) as worker, pytest.raises(PayloadError, match=r"endless.mlir must end in time, .* 0.5 s; change"):
        race.check_oracle(payload, 0, worker)


def test_a_payload_that_ends_is_waited_for_as_long_as_all_its_ops_may_take(ours):
    payload = load_payload(TINY)
    race.check_oracle(payload, 0, ours)
    assert whole_seconds(partition(payload).tasks) == 240
    assert whole_seconds(partition(payload).tasks, 1000) == MODEL_SECONDS


def test_statuses_are_outcomes_and_three_more():
    assert set(OUTCOMES) | {"missing", "unsupported", "failed"} == {
        status for part in entries.EntryStatus.__args__ for status in part.__args__
    }


def test_library_finds_neither_mlir_nor_a_limit_in_its_process(ours):
    verifications, times = hold(ours, Strange("looks_around"))
    assert verifications["looks_around"].status == "ok", verifications["looks_around"].diagnostic
    assert len(times["looks_around"].samples.seconds) == len(times["default"].samples.seconds)


def test_what_the_compiler_says_is_right_reaches_a_library_in_parts(ours, monkeypatch):
    monkeypatch.setattr(race, "PART_ELEMENTS", 5)
    payload = replace(contraction_payload(3, 4, 5), reference=None)
    assert payload.reference is None
    verifications, times = hold(ours, Strange("looks_around"), Strange("off_by_a_little"), payload=payload)
    assert verifications["looks_around"].status == "ok", verifications["looks_around"].diagnostic
    assert verifications["off_by_a_little"].status == "wrong-result"
    assert set(times) == {"default", "looks_around"}


def test_way_that_fails_has_a_row_of_its_own_and_the_others_stay(autotune, strange):
    arguments = ("--against", "aborts+right+refuses+looks_around+dies_when_timed", "--baseline", "none", "--json")
    code, out, _ = autotune("compare", TINY, *arguments)
    assert code == 1  # two crashed
    rows = {row["name"]: row for row in json.loads(out)["rows"]}
    name = arguments[1]
    assert {key: row["outcome"] for key, row in rows.items()} == {
        "default": "ok",
        name: "ok",
        f"{name} (aborts)": "crashed",
        f"{name} (refuses)": "unsupported",
        f"{name} (dies_when_timed)": "crashed",
    }
    assert "(fastest of right, looks_around)" in rows[name]["version"]
    assert "two of one symbol" in rows[f"{name} (aborts)"]["diagnostic"]


def test_every_way_of_the_installed_torch_is_right_in_a_process_of_its_own(ours):
    verifications, _ = hold(ours, torch := installed("torch"))
    assert {name: verification.status for name, verification in verifications.items()} == {
        "default": "ok",
        "torch": "ok",
    }
    assert all(variant.name in verifications["torch"].version for variant in torch.variants())


def test_library_of_which_every_way_fails_has_a_row_for_each_but_one_where_all_say_the_same(ours):
    verifications, _ = hold(ours, StrangeVariants("refuses+refuses_too"), StrangeVariants("refuses+refuses"))
    assert list(verifications) == [
        "default",
        "refuses+refuses_too (refuses)",
        "refuses+refuses_too (refuses_too)",
        "refuses+refuses",
    ]


def test_who_falls_in_the_race_leaves_the_others_in_it(ours):
    verifications, times = hold(ours, Strange("dies_when_timed"), Strange("right"))
    assert {name: verification.status for name, verification in verifications.items()} == {
        "default": "ok",
        "dies_when_timed": "crashed",
        "right": "ok",
    }
    assert set(times) == {"default", "right"}
    assert len(times["right"].samples.seconds) == len(times["right"].anchor.seconds)


def test_entry_enters_again_where_another_ended_the_process(ours):
    entry = race.program(Entry("default", load_payload(TINY), Candidate(None, PLAIN)), ours)
    assert entry.enter().status == "ok"
    batch = entry.calibrate(1e-4)
    ours.renew()
    assert entry.sample(batch) > 0


def test_process_that_dies_over_a_turn_is_the_standing(ours, monkeypatch):
    entry = race.program(Entry("default", load_payload(TINY), Candidate(None, PLAIN)), ours)
    monkeypatch.setattr(race, "calibrate_entry", end_process)
    finish = race.race([entry], ours, MACHINE, EFFORT)
    assert {name: verification.status for name, verification in finish.fallen.items()} == {"default": "crashed"}
    assert finish.samples == {}


def end_process(turn):
    os._exit(9)


def test_slow_contestants_run_after_the_others_beside_the_row_that_ratios_are_to():
    seconds = {"baseline": 60.0, "default": 0.1, "best": 0.1, "numpy": 0.2}
    right = list(seconds)
    verifications = {name: Verification("ok", seconds=each) for name, each in seconds.items()}
    assert split_rounds(right, "best", verifications) == [["default", "best", "numpy"], ["best", "baseline"]]
    assert split_rounds(right, None, verifications) == [["default", "best", "numpy"], ["baseline"]]
    verifications["best"] = Verification("ok", seconds=50.0)
    assert split_rounds(right, "best", verifications) == [right]
    assert split_rounds([], None, {}) == []


def test_ways_that_take_minutes_to_prepare_are_run_only_where_they_are_asked_for():
    class Slow(Strange):
        def variants(self):
            return LibraryVariant("quick", self), LibraryVariant("tuned", self, is_slow=True)

    slow = Slow("looks_around")
    assert [way.name for way in ways_of(slow, thorough=False)] == ["quick"]
    assert [way.name for way in ways_of(slow, thorough=True)] == ["quick", "tuned"]
    assert [way.name for way in load_comparator("torch").variants() if way.is_slow] in (
        [],
        ["compiled with max-autotune"],
    )


def test_who_enters_is_told_with_how_many_and_how_each_did(ours):
    class Told(Recorder):
        def interim(self, sentence):
            self.stages.append(sentence)

    listener, payload = Told(), load_payload(TINY)
    names = ("raises", "looks_around")
    libraries = [Contender(name, Entry(name, payload, Strange(name))) for name in names]
    with ComparisonRun(MACHINE, ours, listener) as held:
        held.enter([Contender("default", Entry("default", payload, Candidate(None, PLAIN))), *libraries])
    told = [said for said in listener.stages if said.startswith(("preparing", "default", "raises"))]
    assert told[0] == "preparing and verifying default, 1 of 3"
    assert told[1] == "default: verified"
    assert told[2:] == [
        "preparing and verifying raises, 2 of 3",
        "raises: failed",
        "preparing and verifying looks_around, 3 of 3",
    ]
