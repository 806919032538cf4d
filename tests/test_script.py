"""Assembled scripts: valid transform dialect that matches by tag, insists on what it found, and stays readable."""

import doctest

import pytest

from autotune import script as module
from autotune.errors import CompileError
from autotune.ir.lower import apply_script
from autotune.ir.module import context, parse
from autotune.script import TAG, Step, assemble

GENERALIZE = "%done = transform.structured.generalize %op : (!transform.any_op) -> !transform.any_op"
PAYLOAD = f"""
func.func @f(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {{
  %a = linalg.add {{{TAG} = "sum"}} ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%y : tensor<4x4xf32>)
    -> tensor<4x4xf32>
  %b = linalg.add {{{TAG} = "sum"}} ins(%a, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%y : tensor<4x4xf32>)
    -> tensor<4x4xf32>
  return %b : tensor<4x4xf32>
}}"""


def apply(script):
    with context():
        payload = parse(PAYLOAD, "payload")
        apply_script(payload, script)
        return str(payload)


@pytest.mark.parametrize("steps", [[], [Step("sum", 2, GENERALIZE)], [Step("a", 1, GENERALIZE), Step("b", 3, "")]])
def test_script_parses_as_transform_dialect(steps):
    with context():
        assert parse(assemble(steps), "script").operation.verify()


def test_script_is_one_module_whose_entry_comes_last():
    with context():
        names = [
            op.attributes["sym_name"].value
            for op in parse(assemble([Step("a", 1, ""), Step("b", 1, "")]), "script").body.operations
        ]
    assert names == ["task_0", "task_1", "__transform_main"]


def test_body_is_applied_to_every_op_with_the_tag():
    text = apply(assemble([Step("sum", 2, GENERALIZE)]))
    assert (text.count("linalg.add"), text.count("linalg.generic")) == (0, 2)


@pytest.mark.parametrize("ops", [1, 3])
def test_other_number_of_ops_than_promised_is_an_error(ops):
    with pytest.raises(CompileError) as error:
        apply(assemble([Step("sum", ops, GENERALIZE)]))
    assert error.value.stage == "transform"


def test_tag_that_is_nowhere_is_an_error():
    with pytest.raises(CompileError):
        apply(assemble([Step("product", 1, GENERALIZE)]))


def test_every_line_of_a_note_becomes_a_comment():
    text = assemble([Step("sum", 2, GENERALIZE, "matmul by hand\ntile_m = 4")])
    assert "  // matmul by hand\n  // tile_m = 4\n  transform.named_sequence @task_0" in text


def test_same_steps_give_the_same_text():
    steps = [Step("sum", 2, GENERALIZE, "note")]
    assert assemble(steps) == assemble(list(steps))


def test_lines_are_indented_and_have_no_trailing_blanks():
    for line in assemble([Step("sum", 2, GENERALIZE, "note")]).splitlines():
        assert line == line.rstrip()
        assert line.startswith("  ") or line in ("}", "module attributes {transform.with_named_sequence} {")


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(module).failed == 0
