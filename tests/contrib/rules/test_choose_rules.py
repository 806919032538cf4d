"""Rules of choice: every set of them is raced, the fastest goes on, ties go to more rules."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.contrib.rules.choose import choose_rules
from autotune.contrib.rules.read import describe_rules
from autotune.core.care import VARIABLE
from autotune.core.errors import RuleError
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import this_machine
from autotune.core.scripts.rules import Rules
from autotune.core.trial import Samples
from autotune.registry import load_payload
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker

SPEC = "gelu,rows=8,cols=16"


def pattern(name, op, body, attributes="autotune.choice"):
    """A rule for an op of one operand or of two, with what it writes for ``%a`` and ``%b``."""
    operands = "%a : !pdl.value" if op.startswith("math") else "%a, %b : !pdl.value, !pdl.value"
    second = "" if op.startswith("math") else "  %b = operand : %t\n"
    return f"""pdl.pattern @{name} : benefit(1) attributes {{{attributes}}} {{
  %t = type
  %a = operand : %t
{second}  %root = operation "{op}"({operands}) -> (%t : !pdl.type)
  rewrite %root {{
    {body}
  }}
}}
"""


def divided(numerator, denominator):
    """A body that writes a quotient of two functions."""
    return f"""%n = operation "math.{numerator}"(%a : !pdl.value) -> (%t : !pdl.type)
    %nv = result 0 of %n
    %d = operation "math.{denominator}"(%a : !pdl.value) -> (%t : !pdl.type)
    %dv = result 0 of %d
    %q = operation "arith.divf"(%nv, %dv : !pdl.value, !pdl.value) -> (%t : !pdl.type)
    replace %root with %q"""


QUOTIENT = pattern("quotient", "math.tanh", divided("sinh", "cosh"))
NEGATED = """%n = operation "arith.negf"(%a : !pdl.value) -> (%t : !pdl.type)
    %nv = result 0 of %n
    %d = operation "arith.subf"(%b, %nv : !pdl.value, !pdl.value) -> (%t : !pdl.type)
    replace %root with %d"""
DIFFERENCE = pattern("difference", "arith.addf", NEGATED)


class StandIn:
    """A bench that times programs by the ops in them."""

    def __init__(self, seconds):
        self.seconds, self.jobs, self.renewed = seconds, [], 0

    def evaluate(self, job, seconds=None):
        self.jobs.append(job)
        noise = np.random.default_rng(len(self.jobs)).uniform(0, 1e-3, 40)
        found = []
        for candidate in job.candidates:
            took = self.seconds("math.sinh" in candidate.text, "arith.negf" in candidate.text)
            found.append(
                Evaluation("crashed") if took is None else Evaluation("ok", Samples(tuple(took * (1 + noise))))
            )
        return found

    def renew(self):
        self.renewed += 1


def chosen(seconds, text=QUOTIENT + DIFFERENCE):
    """Names of rules that are left out, the ops that are left, and the notes."""
    payload = replace(load_payload(SPEC), rules=Rules("mine.mlir", text))
    bench = StandIn(seconds)
    found, parts, notes = choose_rules(payload, partition(payload), this_machine(), floor=0.02, seed=3, worker=bench)
    assert partition(found).payload.text == parts.payload.text
    assert all(job.seed == 4 for job in bench.jobs)
    return found.rules.without, notes, bench


@pytest.mark.parametrize(
    ("seconds", "without", "words"),
    [
        (lambda quotient, difference: 1 + quotient, ("quotient",), "quotient not applied, 2 x ["),
        (lambda quotient, difference: 1 + difference, ("difference",), "difference not applied, 2 x ["),
        (lambda q, d: 1 + q + d, ("quotient", "difference"), "quotient and difference not applied, 3 x ["),
        (lambda quotient, difference: 1.0, (), "quotient, difference applied, nothing was faster"),
        (lambda quotient, difference: 2 - quotient, (), "quotient, difference applied"),
        (lambda q, d: 2 - (q and not d), ("difference",), "difference not applied"),
        (lambda quotient, difference: 1 + 0.001 * quotient, (), "quotient, difference applied"),
        (lambda q, d: None if not q else 1.0, (), "quotient, difference applied"),
        (lambda q, d: None if q and d else 1.0, (), "all apply, what they leave could not be timed"),
    ],
)
def test_the_fastest_set_of_rules_goes_on_and_ties_go_to_more_rules(seconds, without, words, monkeypatch):
    monkeypatch.setenv(VARIABLE, "full")
    left_out, (note,), bench = chosen(seconds)
    assert left_out == without
    assert note.startswith(f"rules of choice: {words}")
    assert [len(job.candidates) for job in bench.jobs] == [4, 4]
    assert bench.renewed == 1


def test_rules_that_are_no_choice_apply_without_a_race():
    plain = (QUOTIENT + DIFFERENCE).replace("autotune.choice", "")
    left_out, notes, bench = chosen(lambda *_: 1.0, plain)
    assert (left_out, notes, bench.jobs) == ((), (), [])
    left_out, _, bench = chosen(
        lambda quotient, difference: 1 + quotient + difference, QUOTIENT + DIFFERENCE.replace("autotune.choice", "")
    )
    assert left_out == ("quotient",)
    assert len(bench.jobs[0].candidates) == 2


def test_more_rules_of_choice_than_can_be_tried_are_refused():
    more = "".join(
        pattern(name, op, divided("sinh", "cosh").replace("sinh", wrote))
        for name, op, wrote in [("one", "math.tanh", "sin"), ("two", "math.sin", "cos"), ("three", "math.cos", "tan")]
    )
    with pytest.raises(RuleError, match=r"rules of choice must be at most 3 that fire, 4 of mine.mlir do: "):
        chosen(lambda *_: 1.0, more + DIFFERENCE)


def test_a_choice_is_said_by_a_unit_attribute():
    says = {rule.name: rule.is_choice for rule in describe_rules(Rules("mine.mlir", QUOTIENT, ours=False))}
    assert says == {"quotient": True}
    with pytest.raises(RuleError, match=r"mine.mlir:1:.*autotune.choice must be a unit attribute, is true"):
        describe_rules(Rules("mine.mlir", QUOTIENT.replace("autotune.choice", "autotune.choice = true")))


def test_what_is_chosen_of_is_raced_in_two_processes():
    payload = replace(load_payload(SPEC), rules=Rules("mine.mlir", QUOTIENT))
    with Worker() as worker:
        found, parts, (note,) = choose_rules(
            payload, partition(payload), this_machine(), floor=0.02, seed=0, worker=worker
        )
    assert note.startswith("rules of choice: quotient ")
    assert ("math.sinh" in parts.payload.text) == (not found.rules.without)
