"""Rows whose largest element must keep its place, where tasks round what they multiply."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from bundle_support import no_care
from precision_support import FAMILIES

import autotune as at
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Claim
from autotune.core.host.machine import this_machine
from autotune.core.listener import SILENT
from autotune.core.payload import Argument, Payload
from autotune.core.trial import Samples
from autotune.registry import load_payload, rounding_families
from autotune.tuning.candidates import default_candidate
from autotune.tuning.result import Spent
from autotune.tuning.stages.agreement import LEAST_ROWS, Allowed
from autotune.tuning.stages.budget import choose_precisions, fewest_steps, is_rounded
from autotune.tuning.stages.choose import Choice
from autotune.worker.bench.proof import DrawsWanted, agreeing, count_rows, has_rows

HERE = pytest.mark.skipif(any(f.marks[0].args[0] for f in FAMILIES), reason="this CPU lacks the instructions")
SPEC = "matmul,m=64,n=128,k=256,constant_b=1"


def choice(family, seconds):
    search = SimpleNamespace(task=SimpleNamespace(tag="t", count=1), family=family)
    return Choice(search, {}, Samples((seconds,), (1.0,)))


class Known:
    """A task that may be rounded coarsely, finely, or not; errors and agreement are known of each."""

    def __init__(self):
        fine, coarse = rounding_families()[0], rounding_families()[-1]
        exact = SimpleNamespace(name="exact", error=0.0)
        self.found = {"exact": (0.0, 1.0), fine.name: (0.001, 0.995), coarse.name: (0.02, 0.9)}
        ways = [choice(family, seconds) for family, seconds in ((exact, 1.0), (fine, 0.6), (coarse, 0.4))]
        self.choices = [Choice(ways[2].search, {}, ways[2].samples, others=tuple(ways[:2]))]

    def of(self, choices, seed):
        return self.found[choices[0].search.family.name][0]

    def own(self, choice, seed):
        return self.of([choice], seed)

    def agreement(self, choices, seed):
        return self.found[choices[0].search.family.name][1], 1024


@pytest.mark.parametrize(
    ("allowed", "place", "error"),
    [
        (Allowed(agreement=0.9), 2, 0.06),
        (Allowed(agreement=0.99), 1, 0.003),
        (Allowed(error=0.1, agreement=0.99), 1, 0.1),
        (Allowed(error=0.1), 2, 0.1),
        (Allowed(error=0.01, agreement=0.5), 1, 0.01),
        (Allowed(agreement=0.999), None, None),
    ],
)
def test_tasks_step_back_until_enough_rows_agree(allowed, place, error):
    known = Known()
    chosen, spent, notes = choose_precisions(known.choices, allowed, known, 0, SILENT)
    assert is_rounded(chosen[0]) == (place is not None)
    if place is None:
        assert notes == ("no task rounds its operands: none that is faster keeps 99.9 % of rows in agreement",)
        return
    assert chosen[0].search.family.name == list(known.found)[place]
    assert spent.error == pytest.approx(error)
    assert (spent.agreement, spent.rows) == (allowed.agreement, 1024 if allowed.agreement else 0)


class Steps:
    """A plan of so many steps, the last of which rounds nothing; what is expected of each is as wrong as is said."""

    def __init__(self, steps, enough, surprise):
        self.positions, self.steps, self.enough, self.surprise = [0], steps, enough, surprise
        self.measured, self.scale = [], 1.0

    def path(self):
        return [[step] for step in range(self.steps + 1)]

    def error(self, step):
        return 0.1 * 2.0 ** (self.enough - step)

    def expected_of(self, positions):
        return self.scale * self.error(positions[0]) * self.surprise ** positions[0]

    def learn(self, error):
        self.scale *= error / self.expected_of(self.positions)

    def measure(self):
        (step,) = self.positions
        self.measured.append(step)
        return self.error(step), Spent(0.1, self.error(step)) if step >= self.enough else None


@pytest.mark.parametrize("steps", [1, 2, 7, 18, 200])
@pytest.mark.parametrize("surprise", [1.0, 1.5, 0.2])
def test_no_more_steps_are_taken_than_must_be_and_few_are_measured(steps, surprise):
    for enough in range(steps + 1):
        plan = Steps(steps, enough, surprise)
        spent = fewest_steps(plan, 0.1, plan.measure)
        assert plan.positions == [enough]
        assert spent == (Spent(0.1, 0.1) if enough < steps else None)
        most = 3 if surprise == 1.0 else 3 * (steps + 1).bit_length()
        assert len(set(plan.measured)) == len(plan.measured) <= most


@pytest.mark.parametrize(("least", "seeds"), [(1, 1), (24, 3), (20, 3), (10**6, 4)])
def test_rows_are_counted_on_inputs_until_there_are_enough(least, seeds):
    payload = load_payload("softmax,rows=8,cols=16")
    claim = Claim(payload, default_candidate(partition(payload), this_machine()), 5)
    assert count_rows(DrawsWanted(claim, least, 4)) == (8 * seeds, 8 * seeds)


def test_a_row_agrees_where_its_largest_element_has_the_place():
    expected = np.array([[1.0, 3.0, 2.0], [5.0, 1.0, 1.0], [0.0, 0.0, 9.0]])
    got = np.array([[1.0, 2.4, 2.5], [4.0, 1.0, 1.0], [0.0, 0.0, 8.0]], "f4")
    assert agreeing(got, expected) == (3, 2)


@pytest.mark.parametrize(
    ("argument", "has"),
    [
        (Argument("y", "output", (4, 7)), True),
        (Argument("y", "output", (7,), "bf16"), True),
        (Argument("y", "output", (4, 1)), False),
        (Argument("y", "output", ()), False),
        (Argument("y", "output", (4, 7), "i32"), False),
        (Argument("y", "input", (4, 7)), False),
    ],
)
def test_agreement_is_of_outputs_that_have_rows(argument, has):
    assert has_rows(argument) is has
    payload = Payload("p", "", "p", (argument,))
    Allowed(error=0.1).check(payload)
    if has:
        Allowed(agreement=0.9).check(payload)
        return
    with pytest.raises(at.AutotuneError, match="agreement must be of rows of floating-point numbers, p writes none"):
        Allowed(agreement=0.9).check(payload)


@HERE
def test_a_tuned_bundle_says_how_many_rows_agree(tmp_path, autotune):
    with no_care():
        result = at.tune(SPEC, trials=3, cold=True, agreement=0.5, store=tmp_path / "s", bundle=tmp_path / "b")
    assert 0.5 <= result.spent.agrees <= 1
    assert result.spent.rows >= LEAST_ROWS
    bundle = at.Bundle.read(tmp_path / "b")
    assert bundle.manifest.budget.agreement == 0.5
    assert bundle.replay().is_right
    code, out, _ = autotune("inspect", tmp_path / "b")
    assert code == 0
    assert "of 1024 rows, 50.0% wanted" in " ".join(out.split())
    place = tmp_path / "b" / "manifest.json"
    manifest = json.loads(place.read_text())
    manifest["budget"]["agrees"] = 0.4
    place.write_text(json.dumps(manifest))
    with pytest.raises(at.AutotuneError, match=r"budget.agrees must be at least 0.5, got 0.4"):
        at.Bundle.read(tmp_path / "b")


@pytest.mark.parametrize("share", ["2", "-0.1"])
def test_an_agreement_that_is_none_is_refused_in_a_line(refused, share):
    refused("tune", "nano", f"--agreement={share}", words="agreement must be from 0 to 1")


def test_an_agreement_beside_another_machine_is_refused(refused):
    refused("tune", "nano", "--agreement", "0.99", "--for", "x86-64-v3", words="drop --agreement")
