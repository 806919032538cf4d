"""The error budget of a whole: who rounds, who steps back, what is recorded."""

import json
import re
from dataclasses import dataclass, replace
from math import inf, sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from bundle_support import no_care
from hypothesis import given, settings
from hypothesis import strategies as st
from precision_support import FAMILIES

import autotune as at
from autotune.core.listener import SILENT
from autotune.core.payload import Argument, Payload
from autotune.core.precision import PRECISIONS, Precision
from autotune.core.trial import Samples
from autotune.registry import family_for, roof_of_family, rounding_families
from autotune.reports.show import show
from autotune.tuning.stages.agreement import Allowed
from autotune.tuning.stages.budget import (
    PrecisionChoices,
    choose_precisions,
    is_rounded,
    rounding_here,
    seconds_of,
    what_is_left,
)
from autotune.tuning.stages.choose import Choice
from autotune.tuning.stages.opening import Entrants
from autotune.tuning.stages.task_search import TOO_COARSE
from autotune.worker.bench.verify import allowed_error, verify
from autotune.worker.loading.reading import partition

HERE = pytest.mark.skipif(any(f.marks[0].args[0] for f in FAMILIES), reason="this CPU lacks the instructions")
EXACT = SimpleNamespace(name="exact", error=0.0)
WAYS = (EXACT, rounding_families()[0], rounding_families()[-1])


def test_a_family_that_is_named_is_the_only_one_that_rounds():
    (task,) = partition(at.payload("matmul,m=32,n=32,k=64,constant_b=1")).tasks
    plain, named, other = family_for(task), *rounding_families()[:2]
    assert {named.covers(task), other.covers(task)} == {True}

    def searched(wanted, error=0.1):
        found = Entrants(wanted, rounding=(named, other), error=error).of(task, [])
        return [(family.name, mine.payload.error) for mine, family in found]

    assert searched(None) == [(plain.name, 0.0), (named.name, 0.1), (other.name, 0.1)]
    assert searched(named) == [(plain.name, 0.0), (named.name, 0.1)]
    assert searched(plain) == [(plain.name, 0.0)]
    assert searched(named, error=0.0) == [(named.name, 0.0)]


# Laws of spending, on errors that are known.


@dataclass
class Known:
    """Errors of wholes by arithmetic: those of tasks add up by their squares, times what nobody expected."""

    errors: dict
    surprise: float = 1.0
    asked: int = 0

    def of(self, choices, seed):
        self.asked += 1
        single = [self.errors[c.search.task.tag, c.search.family.name] for c in choices if is_rounded(c)]
        return (self.surprise if len(single) > 1 else 1.0) * sqrt(sum(error**2 for error in single))

    def own(self, choice, seed):
        return self.of([choice], seed)


def choice(tag, family, seconds, count=1):
    search = SimpleNamespace(task=SimpleNamespace(tag=tag, count=count), family=family)
    return Choice(search, {}, Samples((seconds,), (1.0,)))


def whole(times, surprise=1.0):
    """Choices of tasks, given seconds and errors of each way; and their errors."""
    errors, choices = {}, []
    for number, (seconds, error) in enumerate(times):
        ways = [choice(str(number), family, each) for family, each in zip(WAYS, seconds, strict=True)]
        errors |= {(str(number), f.name): e for f, e in zip(WAYS, (0.0, *error), strict=True)}
        fastest = min(ways, key=seconds_of)
        fastest = Choice(fastest.search, {}, fastest.samples, others=tuple(way for way in ways if way is not fastest))
        choices.append(fastest)
    return choices, Known(errors, surprise)


POSITIVE = st.floats(0.01, 1.0)
TASK = st.tuples(st.tuples(POSITIVE, POSITIVE, POSITIVE), st.tuples(POSITIVE, POSITIVE))
TASKS = st.lists(TASK, min_size=1, max_size=6)


@settings(max_examples=60)
@given(tasks=TASKS, error=st.floats(1e-3, 3.0), surprise=st.sampled_from([0.5, 1.0, 4.0]))
def test_what_is_chosen_keeps_the_budget_and_is_never_slower_than_exact(tasks, error, surprise):
    choices, errors = whole(tasks, surprise)
    chosen, spent, notes = choose_precisions(choices, Allowed(error), errors, 0, SILENT)
    assert [c.search.task.tag for c in chosen] == [c.search.task.tag for c in choices]
    assert errors.of(chosen, 0) <= error
    assert sum(map(seconds_of, chosen)) <= sum(seconds[0] for seconds, _ in tasks)
    assert (spent is None) == (not any(map(is_rounded, chosen)))
    if spent is None:
        assert len(notes) == 1
    else:
        assert spent.spent == errors.of(chosen, 0)
        assert set(spent.tasks) == {c.search.task.tag for c in chosen if is_rounded(c)}
        assert spent.spent == pytest.approx(sqrt(sum(error**2 for error in spent.tasks.values())))


@given(tasks=TASKS)
def test_a_budget_with_room_for_all_takes_the_fastest_of_each(tasks):
    choices, errors = whole(tasks)
    chosen, _, _ = choose_precisions(choices, Allowed(inf), errors, 0, SILENT)
    assert [seconds_of(c) for c in chosen] == [min(seconds) for seconds, _ in tasks]


def test_the_task_that_saves_least_for_its_error_steps_back_first():
    cheap, dear = ((1.0, 0.9, 0.95), (0.1, 0.2)), ((10.0, 1.0, 1.5), (0.1, 0.2))
    choices, errors = whole([cheap, dear])
    chosen, spent, _ = choose_precisions(choices, Allowed(0.11), errors, 0, SILENT)
    assert [c.search.family.name for c in chosen] == ["exact", WAYS[1].name]
    assert spent.tasks == pytest.approx({"1": 0.1})
    assert {name for name, _ in chosen[1].rivals} == {"exact", WAYS[2].name}


def test_what_the_last_step_back_leaves_is_spent_on_tasks_that_had_stepped_back_before():
    small, large = ((1.0, 0.51, 0.5), (0.001, 0.01)), ((200.0, 110.0, 10.0), (0.02, 0.5))
    choices, errors = whole([small, large])
    chosen, spent, _ = choose_precisions(choices, Allowed(0.1), errors, 0, SILENT)
    assert [c.search.family.name for c in chosen] == [WAYS[2].name, WAYS[1].name]
    assert spent.spent == pytest.approx(sqrt(0.01**2 + 0.02**2))


def test_a_coarse_task_does_not_make_fine_ones_step_back():
    fine, coarse = ((1.0, 0.5, 0.9), (0.01, 0.02)), ((1.0, 0.5, 0.2), (0.01, 0.5))
    choices, errors = whole([fine, fine, fine, coarse])

    def of(rounded, seed):  # what the coarse one is off reaches the outputs, what fine ones are off hardly does
        known = {(c.search.task.tag, c.search.family.name): errors.own(c, seed) for c in rounded if is_rounded(c)}
        return max(error if error > 0.1 else error / 10 for error in known.values()) if known else 0.0

    chosen, spent, _ = choose_precisions(choices, Allowed(0.02), SimpleNamespace(of=of, own=errors.own), 0, SILENT)
    assert [c.search.family.name for c in chosen] == [WAYS[1].name] * 4
    assert spent.spent == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("seconds", "why"), [((1.0, 0.5, 0.2), "none that is faster keeps"), ((0.1, 0.5, 0.2), "none that may keep")]
)
def test_what_is_too_coarse_and_what_is_too_slow_are_told_apart(seconds, why):
    choices, errors = whole([(seconds, (0.1, 0.2))])
    chosen, spent, (note,) = choose_precisions(choices, Allowed(0.01), errors, 0, SILENT)
    assert (is_rounded(chosen[0]), spent) == (False, None)
    assert note.startswith(f"no task rounds its operands: {why} errors below 0.01")


def test_without_a_budget_nothing_is_asked():
    choices, errors = whole([((1.0, 0.5, 0.2), (0.1, 0.2))])
    assert choose_precisions(choices, Allowed(), errors, 0, SILENT) == (choices, None, ())
    assert errors.asked == 0


def test_ways_that_are_slower_than_a_more_exact_one_are_no_rungs():
    choices, _ = whole([((1.0, 2.0, 0.5), (0.1, 0.2))])
    assert [choice.search.family.name for choice in PrecisionChoices.of(choices[0]).choices] == ["exact", WAYS[2].name]


def test_times_of_which_most_were_disturbed_count_by_their_lower_quartile():
    """As in the race that chose between them: a neighbour that came and went made the faster one a loser."""
    exact, rounds, _ = (choice("0", family, 1.0) for family in WAYS)
    disturbed = replace(rounds, samples=Samples((0.5,) * 3 + (3.0,) * 5, (1.0,)))
    found = PrecisionChoices.of(replace(disturbed, others=(exact,))).choices
    assert [each.search.family.name for each in found] == [exact.search.family.name, rounds.search.family.name]


# Verification.


def test_a_budget_is_room_beside_rounding_and_none_for_whole_numbers():
    payload = Payload("p", "", "p", (Argument("x", "output", (2,)), Argument("i", "output", (2,), "i32")), error=0.01)
    assert allowed_error(payload, "f32", 100.0) == pytest.approx(1.0, rel=1e-3)
    assert allowed_error(payload, "i32", 100.0) == 0.0
    expected = [np.array([100.0, 1.0]), np.array([3, 4])]
    near = [np.array([100.0, 1.9], "f4"), np.array([3, 4], "i4")]
    assert verify(payload, near, expected).outcome == "ok"
    assert verify(payload, [near[0], near[1] + 1], expected).outcome == "wrong-result"
    assert verify(payload, [near[0] + 0.2, near[1]], expected).outcome == "wrong-result"


# The whole way.

SPEC = "matmul,m=64,n=128,k=256,constant_b=1"


def tuned(folder, error):
    """Tuned with little care: the ways are two times apart."""
    with no_care():
        return at.tune(SPEC, trials=3, cold=True, error=error, store=folder / "s", bundle=folder / "b")


@HERE
def test_a_tuned_bundle_says_what_it_spent_and_is_verified_against_it(tmp_path):
    result = tuned(tmp_path, 0.05)
    assert 1e-4 < result.spent.spent <= 0.05
    bundle = at.Bundle.read(tmp_path / "b")
    ((tag, task),) = bundle.tasks.items()
    assert task.schedule in {family.name for family in rounding_families()}
    assert bundle.payload.error == bundle.manifest.budget.error == 0.05
    assert set(bundle.manifest.budget.tasks) == {tag}
    assert [weight.precision for weight in bundle.manifest.weights] == [task.schedule]
    assert "matmul" in task.rivals
    assert bundle.replay().is_right
    shown = show(str(tmp_path / "b"), "asm", tag).text
    assert re.search(r"vpdp|vdpbf16|tdp|vfmadd", shown)
    assert "wrong-result" not in shown
    place = tmp_path / "b" / "manifest.json"
    manifest = json.loads(place.read_text())
    other = "bf16" if task.schedule != "bf16" else "int16"
    weights = [{**weight, "precision": other} for weight in manifest["weights"]]
    place.write_text(json.dumps({**manifest, "weights": weights}))
    with pytest.raises(at.AutotuneError, match=rf"is in {other}, the schedule says {task.schedule}; restore it"):
        at.Bundle.read(tmp_path / "b").replay()
    manifest["budget"]["spent"] = 0.4
    place.write_text(json.dumps(manifest))
    with pytest.raises(at.AutotuneError, match=r"budget.spent must be within 0.05, got 0.4"):
        at.Bundle.read(tmp_path / "b")


@HERE
def test_a_budget_that_nothing_faster_meets_leaves_f32_and_says_so(tmp_path, monkeypatch):
    coarse = tuple(family for family in rounding_families() if family.error > 1e-5)  # split products may meet it
    monkeypatch.setattr("autotune.tuning.tune.rounding_families", lambda: coarse)
    result = tuned(tmp_path, 1e-6)
    assert result.spent is None
    assert any(re.match("no task rounds its operands: .* errors below 1e-06", note) for note in result.notes)
    assert at.Bundle.read(tmp_path / "b").manifest.budget is None


@HERE
def test_a_precision_that_is_too_coarse_gets_a_few_trials_and_is_named(tmp_path):
    with no_care():
        result = at.tune(SPEC, trials=24, cold=True, error=5e-4, store=tmp_path / "s", bundle=tmp_path / "b")
    frame = at.trials(tmp_path / "s")
    coarse = {"bf16", "int8", "tile_bf16", "tile_int8"} & {*frame.family}
    assert "int8" in coarse
    for family in coarse:
        mine = frame[frame.family == family]
        assert len(mine) <= TOO_COARSE
        assert set(mine.outcome) <= {"wrong-result", "duplicate"}
    assert (frame.family == "int16").sum() > 0
    ((_, task),) = at.Bundle.read(tmp_path / "b").tasks.items()
    assert task.schedule not in coarse
    assert not any("plain lowering instead" in note for note in result.notes)


@pytest.mark.parametrize("error", ["2", "-0.1"])
def test_a_budget_that_is_none_is_refused_in_a_line(refused, error):
    refused("tune", "nano", f"--error={error}", words="error must be from 0 to 1")


def test_a_budget_that_nothing_meets_is_refused_in_a_line(refused):
    refused("tune", "nano", "--error=1e-12", words="error must be 0 or at least 6e-08, what f32 itself rounds by")


def test_a_budget_beside_another_machine_is_refused(refused):
    refused("tune", "nano", "--error", "0.01", "--for", "x86-64-v3", words="drop --error")


@pytest.mark.parametrize(
    ("rates", "left_out"),
    [
        ({"flops": 2.0, "bf16": 1.0, "int8": 8.0, "int16": 4.0}, ["bf16"]),
        ({"flops": 2.0, "bf16": 4.0, "int8": 2.0}, ["int8"]),
        ({"flops": 2.0}, []),
        ({}, []),
    ],
)
def test_precisions_whose_instructions_are_no_faster_than_f32_are_left_out(rates, left_out, monkeypatch):
    monkeypatch.setattr(Precision, "lacking", "")
    families, notes = rounding_here(rounding_families(), 1e-2, rates)
    roofs = [roof_of_family(family.name, rates) or 0.0 for family in families]
    assert roofs == sorted(roofs, reverse=True)  # the fastest get their trials first
    asked = [family.name for family in rounding_families() if family.asked]
    ours = {family.name for family in families if family.name in PRECISIONS}  # features bring others
    rounding = {name for name, precision in PRECISIONS.items() if not precision.exact}
    assert ours == rounding - {*asked, *left_out}
    of_ours = [note for note in notes if note.partition(" ")[0] in PRECISIONS]
    assert [note.partition(" ")[0] for note in of_ours] == left_out
    assert all("x the rate of f32 on this machine" in note for note in of_ours)


def test_what_rounds_no_coarser_than_the_whole_may_be_off_gets_its_trials_first(monkeypatch):
    monkeypatch.setattr(Precision, "lacking", "")
    rates = {"flops": 1.0, "bf16": 2.0, "int16": 2.0, "int8": 4.0, "tile_bf16": 16.0, "tile_int8": 32.0}
    families, _ = rounding_here(rounding_families(), 1e-4, rates)
    fits = [family.error <= 1e-4 for family in families]
    assert fits == sorted(fits, reverse=True)
    assert families[0].name.endswith("tile_bf16x2")
    for part in (True, False):
        roofs = [roof_of_family(family.name, rates) for family in families if (family.error <= 1e-4) == part]
        assert roofs == sorted(roofs, reverse=True)
    coarse, _ = rounding_here(rounding_families(), 1e-2, rates)
    assert coarse[0].name.endswith("tile_int8")


def test_a_model_in_half_precision_says_what_an_allowed_error_would_give(monkeypatch):
    monkeypatch.setattr(Precision, "lacking", "")
    rates = {"flops": 2.0, "tile_bf16": 16.0, "bf16": 4.0, "int16": 6.0}

    def said(payload, rates, families=None):
        able = rounding_families() if families is None else families
        return what_is_left(partition(at.payload(payload)).tasks, able, rates)

    assert re.fullmatch(r"weights of \d+ tasks .*--error 1e-2.*\(tile_bf16: 8.0 x .*", said("nano,weights=bf16", rates))
    assert said("nano", rates) == ""
    assert said("nano,weights=bf16", {"flops": 2.0, "bf16": 1.0}) == ""
    assert said("nano,weights=bf16", {}) == ""
    assert said("nano,weights=bf16", rates, families=()) == ""
