"""Each rule is proved by testing: random sizes and values in float64, to the tolerance that the rule states."""

import numpy as np
import pytest
from rule_support import EXAMPLES, example
from tuning_support import run

from autotune.compiler.passes.pipelines import PLAIN
from autotune.contrib.rules.apply import rewrite_text
from autotune.contrib.rules.read import describe_rules, open_rules
from autotune.core.scripts.rules import Rules

OURS = Rules()
RULES = {rule.name: rule for rule in describe_rules(OURS)}
SEEDS = (0, 1)


def test_every_form_of_every_rule_has_a_proof():
    assert {pattern.name for pattern in open_rules(OURS).patterns} == set(EXAMPLES)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_every_rule_of_ours_says_what_it_does_and_how_it_rounds(rule):
    assert rule.before
    assert rule.after
    assert rule.tolerance is not None


@pytest.mark.parametrize("form", EXAMPLES)
def test_a_rule_changes_no_result_beyond_what_it_states(form):
    name = form.partition(".")[0]
    for seed in SEEDS:
        payload = example(form, seed)
        found = rewrite_text(payload.text, payload.name, OURS)
        assert found.counts == {name: 1}
        inputs = payload.make_inputs(seed)
        (before,) = run(payload, inputs, None, PLAIN)
        (after,) = run(payload, inputs, None, PLAIN, text=found.after)
        allowed = RULES[name].tolerance * np.abs(before).max()
        assert np.abs(before - after).max() <= allowed


@pytest.mark.parametrize("form", EXAMPLES)
def test_only_rules_that_round_nothing_otherwise_are_exact(form):
    payload, name = example(form, 0), form.partition(".")[0]
    assert bool(rewrite_text(payload.text, payload.name, Rules(exact=True)).firings) == RULES[name].is_exact


@pytest.mark.parametrize(
    ("form", "old", "new"),
    [
        ("add_zero", "constant 0.0", "constant 0.5"),
        ("times_one", "constant 1.0", "constant -1.0"),
        ("times_identity", "[1.0, 0.0", "[1.0, 0.5"),
        ("shifted_softmax", "arith.maximumf", "arith.minimumf"),
        ("shifted_softmax", "0xFFF0000000000000", "0.0"),
        ("one_matrix", "constant 0.0", "constant 1.0"),
        ("batch_norm", "arith.subf %e0, %e3", "arith.mulf %e0, %e0"),
    ],
)
def test_a_rule_does_not_fire_where_its_condition_does_not_hold(form, old, new):
    texts = (example(form, seed).text for seed in range(20))
    text = next(text for text in texts if old in text)
    assert not rewrite_text(text.replace(old, new), form, OURS).firings
