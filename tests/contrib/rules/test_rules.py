"""Rewrite rules: read from text, guarded, applied one by one, ended, and named where they go wrong."""

from dataclasses import replace

import pytest
from rule_support import example

from autotune.compiler.tasks.partition import partition
from autotune.contrib.rules.apply import rewrite_text
from autotune.contrib.rules.read import describe_rules
from autotune.core.errors import RuleError
from autotune.core.scripts.rules import NO_RULES, Rules
from autotune.registry import load_payload

GELU = "gelu,rows=4,cols=8"


def pattern(name, body, attributes=""):
    """A pattern over arith.mulf of two operands."""
    return f"""pdl.pattern @{name} : benefit(1) {attributes} {{
  %t = type
  %a = operand : %t
  %b = operand : %t
  %root = operation "arith.mulf"(%a, %b : !pdl.value, !pdl.value) -> (%t : !pdl.type)
  rewrite %root {{
    {body}
  }}
}}
"""


def writes(op, operands="%a, %b"):
    """A body that writes another op in its place."""
    return f"""%new = operation "{op}"({operands} : !pdl.value, !pdl.value) -> (%t : !pdl.type)
    replace %root with %new"""


ADD = pattern("wrong", writes("arith.addf"))
SAYS = """attributes {autotune.before = "a b", autotune.after = "b a", autotune.when = "always",
  autotune.tolerance = 0.0 : f64}"""


def theirs(text, **more):
    """Rules of a user's file."""
    return Rules("mine.mlir", text, **more)


def applied(text, spec=GELU, **more):
    """What a user's rules make of a payload."""
    payload = load_payload(spec)
    return rewrite_text(payload.text, payload.name, theirs(text, **more))


def test_what_a_rule_says_of_itself_is_read():
    rule = next(r for r in describe_rules(theirs(pattern("mine", writes("arith.addf"), SAYS))) if r.source)
    assert (rule.name, rule.before, rule.after, rule.when) == ("mine", "a b", "b a", "always")
    assert rule.is_exact


def test_a_rule_of_a_file_fires_and_says_where():
    found = applied(ADD)
    assert found.counts == {"wrong": 6}
    assert "arith.mulf" not in found.after
    text = load_payload(GELU).text.splitlines()
    assert all("arith.mulf" in text[firing.line - 1] for firing in found.firings)
    assert found.notes == ("rules fired: wrong 6 times",)


def test_rules_that_do_not_fire_are_told_and_leave_the_text_as_it_is():
    payload = load_payload("softmax,rows=4,cols=8")
    found = applied(ADD.replace("arith.mulf", "arith.remf"), payload.name)
    assert found.notes == ("rules that never fired: wrong",)
    assert not found.after
    plain, with_rules = partition(replace(payload, rules=NO_RULES)), partition(payload)
    assert plain.payload.text == with_rules.payload.text


def test_a_rule_may_be_left_out():
    assert not applied(ADD, without=("wrong",)).firings


def test_tasks_are_those_of_what_rules_leave():
    payload = replace(load_payload(GELU), rules=theirs(ADD))
    parts = partition(payload)
    assert parts.rewriting.counts == {"wrong": 6}
    assert "arith.mulf" not in parts.payload.text
    assert parts.payload.rules == payload.rules


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must hold a pdl.pattern, mine.mlir holds none"),
        ("module {}", "must hold a pdl.pattern"),
        ("nonsense", "rules must be MLIR's PDL: mine.mlir:1:1"),
        ("func.func private @f()", "mine.mlir:1:1: rules must be pdl.pattern ops, got func.func"),
        (ADD.replace("@wrong ", ""), "mine.mlir:1:1: a pattern must have a name"),
        (pattern("bad", writes("llvm.fmul")), "mine.mlir:7:12: rules must write ops that compute alone, got llvm.fmul"),
        (pattern("bad", writes("nosuch.op")), "must write ops that compute alone, got nosuch.op"),
        (pattern("add_zero", writes("arith.addf")), "add_zero of mine.mlir is ours; rename it"),
        (ADD + ADD.replace("@wrong", "@wrong2").replace("(1)", "(2)").replace("wrong2", "wrong"), "redefinition"),
        (pattern("bad", '%c = apply_native_rewrite "nosuch"(%a : !pdl.value) : !pdl.value'), "must name one of"),
        (
            pattern("bad", '%c = apply_native_rewrite "combined"(%a : !pdl.value) : !pdl.value'),
            "combined must be called as (attribute, value, value) -> (value)",
        ),
        (
            pattern("bad", writes("arith.addf"), "attributes {autotune.before = 7}"),
            "autotune.before must be a short text",
        ),
        (
            pattern("bad", writes("arith.addf"), "attributes {autotune.tolerance = -1.0 : f64}"),
            "autotune.tolerance must be a number from 0.0 to 1.0",
        ),
        ("[" * 300, "must not nest deeper"),
    ],
)
def test_what_is_no_rule_is_one_line_with_its_place(text, words):
    with pytest.raises(RuleError) as refused:
        applied(text)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_rules_of_a_file_that_may_round_are_refused_where_all_must_be_exact():
    with pytest.raises(RuleError, match=r"wrong of mine.mlir states none"):
        applied(ADD, exact=True)
    assert applied(pattern("mine", writes("arith.addf"), SAYS), exact=True).firings


def test_a_pair_that_goes_round_is_found_and_shown():
    back = (
        ADD.replace("@wrong", "@back")
        .replace("arith.addf", "X")
        .replace("arith.mulf", "arith.addf")
        .replace("X", "arith.mulf")
    )
    with pytest.raises(RuleError) as refused:
        applied(ADD + back)
    said = str(refused.value)
    assert "rules must come to an end" in said
    assert "wrong at line" in said
    assert "back at" in said
    assert "leads back to where it began" in said


def test_a_rule_that_grows_for_ever_is_stopped_and_named(monkeypatch):
    monkeypatch.setattr("autotune.contrib.rules.apply.FIRINGS", 100)
    body = """%first = operation "arith.mulf"(%a, %b : !pdl.value, !pdl.value) -> (%t : !pdl.type)
    %v = result 0 of %first
    %new = operation "arith.mulf"(%v, %b : !pdl.value, !pdl.value) -> (%t : !pdl.type)
    replace %root with %new"""
    with pytest.raises(RuleError, match=r"must end after 1\d\d firings, the last were grow, grow"):
        applied(pattern("grow", body), "gelu,rows=2,cols=2")


def test_a_rule_that_leaves_invalid_ir_is_named():
    body = """%k = type : i1
    %new = operation "arith.cmpf"(%a, %b : !pdl.value, !pdl.value) -> (%k : !pdl.type)
    replace %root with %new"""
    with pytest.raises(RuleError, match=r"a rule must leave valid IR, broken at line \d+ \(arith.mulf\) does not"):
        applied(pattern("broken", body))


def test_a_condition_or_writer_that_cannot_take_what_it_is_given_is_named():
    asks = pattern("asks", writes("arith.addf")).replace(
        "  rewrite",
        """  %n = attribute = 3 : i64
  apply_native_constraint "by_element"(%root, %n : !pdl.operation, !pdl.attribute)
  rewrite""",
    )
    with pytest.raises(RuleError, match="rule asks must be applicable, Cannot cast"):
        applied(asks)
    body = """%n = attribute = "arith.addf"
    %c = apply_native_rewrite "combined"(%n, %a, %b : !pdl.attribute, !pdl.value, !pdl.value) : !pdl.value
    replace %root with (%c : !pdl.value)"""
    with pytest.raises(RuleError, match=r"rule combines must be applicable, .* no attribute 'shape'; mend it"):
        applied(pattern("combines", body))


def test_a_rule_that_takes_a_function_away_is_named():
    text = pattern("gone", "erase %root").replace(
        '"arith.mulf"(%a, %b : !pdl.value, !pdl.value) -> (%t : !pdl.type)', '"func.func"'
    )
    with pytest.raises(
        RuleError, match=r"a rule must leave functions as they are, gone at line 2 \(func.func\) does not"
    ):
        applied(text.replace("  %t = type\n  %a = operand : %t\n  %b = operand : %t\n", ""))


def test_forms_of_a_rule_are_one_rule():
    found = describe_rules(Rules())
    assert len({rule.name for rule in found}) == len(found)
    assert not any("." in rule.name for rule in found)


def test_what_is_left_of_a_dead_op_is_gone():
    payload = example("double_negation", 0)
    assert "negf" not in rewrite_text(payload.text, payload.name, Rules()).after
