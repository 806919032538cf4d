"""Assembled scripts: valid transform dialect that matches by tag, insists on what it found, and stays readable."""

import doctest
import re

import pytest
from compile_support import apply_script

from autotune.compiler.ir.module import context, parse
from autotune.core.errors import CompileError
from autotune.core.plugs.program import WrittenScript
from autotune.core.scripts import assembly as module
from autotune.core.scripts.assembly import Step, assemble
from autotune.core.scripts.marks import OPTIONAL, TAG

GENERALIZE = "%done = transform.structured.generalize %op : (!transform.any_op) -> !transform.any_op"
PAYLOAD = f"""
func.func @f(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {{
  %a = linalg.add {{{TAG} = "sum"}} ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%y : tensor<4x4xf32>)
    -> tensor<4x4xf32>
  %b = linalg.add {{{TAG} = "sum"}} ins(%a, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%y : tensor<4x4xf32>)
    -> tensor<4x4xf32>
  return %b : tensor<4x4xf32>
}}"""
SIMPLE, NONE = WrittenScript(GENERALIZE), WrittenScript("")


def apply(script):
    with context():
        payload = parse(PAYLOAD, "payload")
        apply_script(payload, script)
        return str(payload)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [Step("sum", 2, SIMPLE)],
        [Step("a", 1, SIMPLE), Step("b", 3, NONE)],
    ],
)
def test_script_parses_as_transform_dialect(steps):
    with context():
        assert parse(assemble(steps), "script").operation.verify()


def test_script_is_one_module_whose_entry_comes_last():
    with context():
        names = [
            op.attributes["sym_name"].value
            for op in parse(assemble([Step("a", 1, NONE), Step("b", 1, NONE)]), "script").body.operations
        ]
    assert names == ["task_0", "task_1", "__transform_main"]


def test_body_is_applied_to_every_op_with_the_tag():
    text = apply(assemble([Step("sum", 2, SIMPLE)]))
    assert (text.count("linalg.add"), text.count("linalg.generic")) == (0, 2)


@pytest.mark.parametrize("ops", [1, 3])
def test_other_number_of_ops_than_promised_is_an_error(ops):
    with pytest.raises(CompileError) as error:
        apply(assemble([Step("sum", ops, SIMPLE)]))
    assert error.value.stage == "transform"


def test_tag_that_is_nowhere_is_an_error():
    with pytest.raises(CompileError):
        apply(assemble([Step("product", 1, SIMPLE)]))


ANY = "!transform.any_op"
PADS = f'transform.structured.match ops{{["tensor.pad"]}} in %op : ({ANY}) -> {ANY}'
# Ways to find nothing, most of which MLIR accepts in silence, and the op that finds it.
NOTHING = {
    "a match": (f"%x = {PADS}\ntransform.structured.vectorize %x : {ANY}", "structured.match"),
    "a match that is only marked": (f'%x = {PADS}\ntransform.annotate %x "mark" : {ANY}', "structured.match"),
    "a match that is gone over": (
        f"%x = {PADS}\ntransform.foreach %x : {ANY} {{ ^bb0(%y: {ANY}): }}",
        "structured.match",
    ),
    "a match inside a loop over ops": (
        f"transform.foreach %op : {ANY} {{\n^bb0(%o: {ANY}):\n"
        f"%x = {PADS.replace('%op', '%o')}\ntransform.structured.vectorize %x : {ANY}\n}}",
        "structured.match",
    ),
    "a match inside consumers": (
        f"%p = transform.get_parent_op %op : ({ANY}) -> {ANY}\n"
        f'%all = transform.structured.match ops{{["linalg.add"]}} in %p : ({ANY}) -> {ANY}\n'
        f"%a, %b = transform.split_handle %all : ({ANY}) -> ({ANY}, {ANY})\n"
        f"%r = transform.get_consumers_of_result %b[0] : ({ANY}) -> {ANY}\n"
        f'%x = transform.structured.match ops{{["linalg.add"]}} in %r : ({ANY}) -> {ANY}\n'
        f"transform.structured.vectorize %x : {ANY}",
        "structured.match",
    ),
    "a split of what may be nothing": (
        f"%x = {PADS.replace(' :', f' {{{OPTIONAL}}} :')}\n"
        f"%a, %b = transform.split_handle %x : ({ANY}) -> ({ANY}, {ANY})\ntransform.structured.vectorize %b : {ANY}",
        "split_handle",
    ),
    "operands of what may be nothing": (
        f"%x = {PADS.replace(' :', f' {{{OPTIONAL}}} :')}\n"
        f"%v = transform.get_operand %x[0] : ({ANY}) -> !transform.any_value\n"
        f"%y = transform.get_defining_op %v : (!transform.any_value) -> {ANY}\n"
        f"transform.structured.vectorize %y : {ANY}",
        "get_operand",
    ),
    "a producer": (f"%x = transform.get_producer_of_operand %op[1] : ({ANY}) -> {ANY}", "get_producer_of_operand"),
}


@pytest.mark.parametrize("way", NOTHING)
def test_transform_that_finds_nothing_is_an_error_that_names_op_and_place(way):
    body, op = NOTHING[way]
    script = assemble([Step("sum", 2, WrittenScript(body))])
    with pytest.raises(CompileError) as error:
        apply(script)
    said = re.match(r"schedule:(\d+):(\d+): transform\.([\w.]+): ", str(error.value))
    assert said, str(error.value)
    line, column = int(said[1]), int(said[2])
    assert (error.value.stage, said[3]) == ("transform", op)
    assert script.splitlines()[line - 1][column - 1 :].find(f"transform.{op}") >= 0


@pytest.mark.parametrize(
    "body",
    [f"%x = {PADS}", f"%x = {PADS.replace(' :', f' {{{OPTIONAL}}} :')}\ntransform.structured.vectorize %x : {ANY}"],
)
def test_handle_may_be_empty_where_it_is_unused_or_optional(body):
    assert apply(assemble([Step("sum", 2, WrittenScript(body))]))


def test_every_line_of_a_note_becomes_a_comment():
    text = assemble([Step("sum", 2, SIMPLE, "matmul by hand\ntile_m = 4")])
    assert "  // matmul by hand\n  // tile_m = 4\n  transform.named_sequence @task_0" in text


def test_same_steps_give_the_same_text():
    steps = [Step("sum", 2, SIMPLE, "note")]
    assert assemble(steps) == assemble(list(steps))


def test_lines_are_indented_and_have_no_trailing_blanks():
    for line in assemble([Step("sum", 2, SIMPLE, "note")]).splitlines():
        assert line == line.rstrip()
        assert line.startswith("  ") or line in ("}", "module attributes {transform.with_named_sequence} {")


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(module).failed == 0
