"""A schedule step by step: what is shown is what mlir-opt prints."""

from pathlib import Path

import pytest
from debug_support import check_every_step, look, match, payload_file, script, tile

from autotune.contrib.debug.debugged import debug, open_source
from autotune.contrib.debug.page import write_page
from autotune.contrib.debug.record import DebugRequest, record_here
from autotune.contrib.debug.recording import (
    CONSUMED,
    EMPTY,
    FAILED,
    IDLE,
    INVALID,
    KNOB,
    REMAINDER,
)
from autotune.contrib.debug.stepper import DebugLimits

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "schedules" / "examples"

# Scripts as the chapters of upstream's tutorial build them up: tile, fuse, outline into sequences, match, lower,
# and at last what Halide does.
TUTORIAL = {
    "tile": script(f"""
    {match("mm", "linalg.matmul")}
    {tile("%tiled, %i, %j", "%mm", "[8, 16]")}
    {tile("%inner, %k", "%tiled", "[0, 0, 4]")}
    """),
    "fuse": script(f"""
    {match("twice", "linalg.elementwise")}
    {match("mm", "linalg.matmul")}
    %tile, %loop = transform.structured.tile_using_forall %twice tile_sizes [8, 8]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %fused, %loop2 = transform.structured.fuse_into_containing_op %mm into %loop
      : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    """),
    "sequences": script(
        f"""
    {match("all", "linalg.matmul")}
    transform.foreach %all : !transform.any_op {{
    ^bb0(%one: !transform.any_op):
      transform.include @tile_and_vectorize failures(propagate) (%one) : (!transform.any_op) -> ()
    }}
    {match("functions", "func.func")}
    transform.apply_patterns to %functions {{
      transform.apply_patterns.canonicalization
    }} : !transform.any_op
    """,
        more=f"""
  transform.named_sequence @tile_and_vectorize(%op: !transform.any_op {{transform.consumed}}) {{
    {tile("%tiled, %i, %j, %k", "%op", "[4, 8, 1]")}
    transform.structured.vectorize %tiled : !transform.any_op
    transform.loop.unroll %k {{factor = 2}} : !transform.any_op
    transform.yield
  }}""",
    ),
    "matchers": script(
        f"""
    {match("functions", "func.func")}
    %all = transform.foreach_match in %functions @is_matmul -> @tile : (!transform.any_op) -> !transform.any_op
    """,
        more=f"""
  transform.named_sequence @is_matmul(%op: !transform.any_op {{transform.readonly}}) -> !transform.any_op {{
    transform.match.operation_name %op ["linalg.matmul"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }}
  transform.named_sequence @tile(%op: !transform.any_op {{transform.consumed}}) {{
    {tile("%tiled, %i", "%op", "[8]")}
    transform.yield
  }}""",
    ),
    "outline": script(f"""
    {match("mm", "linalg.matmul")}
    {tile("%tiled, %i", "%mm", "[8]")}
    {tile("%inner, %j", "%tiled", "[0, 16]")}
    %function, %call = transform.loop.outline %j {{func_name = "kernel"}}
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %function "kernel" : !transform.any_op
    """),
    "collecting": script(
        f"""
    %found = transform.collect_matching @is_fill in %module : (!transform.any_op) -> !transform.any_op
    {tile("%tiled, %i", "%found", "[8]")}
    %users = transform.get_consumers_of_result %tiled[0] : (!transform.any_op) -> !transform.any_op
    transform.annotate %users "found" : !transform.any_op
    """,
        more="""
  transform.named_sequence @is_fill(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["linalg.fill"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }""",
    ),
    "halide": script(f"""
    {match("twice", "linalg.elementwise")}
    {tile("%rows, %loop", "%twice", "[8]")}
    {match("mm", "linalg.matmul")}
    %fused, %around = transform.structured.fuse_into_containing_op %mm into %loop
      : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    {tile("%register, %j, %k", "%fused", "[0, 16, 2]")}
    {match("function", "func.func")}
    transform.structured.vectorize %register : !transform.any_op
    transform.apply_patterns to %function {{
      transform.apply_patterns.vector.reduction_to_contract
      transform.apply_patterns.canonicalization
    }} : !transform.any_op
    transform.apply_patterns to %function {{
      transform.apply_patterns.vector.lower_contraction lowering_strategy = "outerproduct"
      transform.apply_patterns.vector.lower_outerproduct
    }} : !transform.any_op
    transform.apply_licm to %k : !transform.any_op
    """),
    "navigation": script(f"""
    {match("twice", "linalg.elementwise")}
    %mm = transform.get_producer_of_operand %twice[0] : (!transform.any_op) -> !transform.any_op
    %value = transform.get_operand %mm[2] : (!transform.any_op) -> !transform.any_value
    %fill = transform.get_defining_op %value : (!transform.any_value) -> !transform.any_op
    %both = transform.merge_handles %fill, %mm : !transform.any_op
    %first, %second = transform.split_handle %both : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    {tile("%tiled, %i", "%first", "[8]")}
    {tile("%other, %j", "%second", "[8]")}
    transform.apply_cse to %module : !transform.any_op
    """),
}


@pytest.mark.parametrize("name", TUTORIAL)
def test_steps_of_tutorial_scripts_are_what_mlir_opt_prints(name, tmp_path):
    check_every_step(*look(payload_file(tmp_path), TUTORIAL[name]))


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        ("matmul,m=256,n=256,k=256", "matmul"),
        ("matmul,m=64,n=64,k=64", "two_vectorizations"),
        ("attention,seq=32,d=16", "attention"),
        (str(EXAMPLES / "convolution.mlir"), "convolution"),
        (str(EXAMPLES / "fuse_a_consumer.mlir"), "fuse_a_consumer"),
    ],
)
def test_steps_of_the_examples_are_what_mlir_opt_prints(payload, name):
    check_every_step(*look(payload, EXAMPLES / f"{name}.mlir"))


NANO, GPT2 = (next(ROOT.glob(f"results/*/bundles/{name}")) for name in ("nano", "gpt2"))


def test_steps_of_nanos_bundle_are_what_mlir_opt_prints():
    assert check_every_step(*look(str(NANO))) > 100


def test_the_page_of_a_large_model_is_one_that_browsers_open():
    """Its script has the steps of nano's, which mlir-opt has printed, of larger tiles."""
    request = DebugRequest(
        *open_source(str(GPT2), None, None, ""), False, DebugLimits(float("inf"), cost_seconds=float("inf"))
    )
    found = record_here(request)
    assert len(found.steps) > 100
    assert len(write_page(found)) < 10_000_000


def test_steps_of_a_family_and_the_lowering_are_what_mlir_opt_prints():
    check_every_step(*look("matmul,m=16,n=32,k=8", lowering=True))


def test_handles_point_at_ops_in_order(tmp_path):
    found = debug(payload_file(tmp_path), TUTORIAL["navigation"])
    last = {handle.name: handle for handle in found.handles_after(5)}
    assert last["%both"].ops == ("fill", "matmul")
    ends = {handle.name: handle for handle in found.handles_after(len(found.steps) - 1)}
    assert ends["%first"].state == INVALID
    assert ends["%tiled"].ops == ("fill",)
    assert found.maker("for") == 6
    assert found.maker("fill") == 0


def test_params_have_values_and_paths_say_where(tmp_path):
    text = script(f"""
    {match("mm", "linalg.matmul")}
    %size = transform.param.constant 8 : i64 -> !transform.param<i64>
    transform.foreach %mm : !transform.any_op {{
    ^bb0(%one: !transform.any_op):
      %tiled, %i = transform.structured.tile_using_for %one tile_sizes [%size]
        : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
    }}
    """)
    found = debug(payload_file(tmp_path), text)
    (size,) = (handle for handle in found.handles_after(2) if handle.name == "%size")
    assert (size.ops, size.is_param) == (("8 : i64",), True)
    assert found.steps[-1].path[-1] == "foreach 1 of 1"
    assert found.script.splitlines()[found.steps[-1].line - 1].lstrip().startswith("%tiled")


MM = match("mm", "linalg.matmul")
NOTHING = match("none", "linalg.conv_2d")
WIDTH = """%width = transform.tune.knob<"width"> = 128 from options = [64, 128] -> !transform.param<i64>
%a, %i = transform.structured.tile_using_for %mm tile_sizes [0, %width]
  : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)"""
# For each: the script, kind and sentence of a mark, and what stands in the line of the script that is the cause.
FAULTY = {
    "a handle is used after it was consumed": (
        f"{MM}\n{tile('%a, %i', '%mm', '[8]')}\n{tile('%b, %j', '%mm', '[4]')}",
        CONSUMED,
        "%mm may not be used any more: step 2 (structured.tile_using_for, line 5) consumed it",
        "%a, %i",
    ),
    "an op inside a consumed one is used": (
        f'{MM}\n{match("f", "func.func")}\n%g = transform.apply_registered_pass "canonicalize" to %f'
        f" : (!transform.any_op) -> !transform.any_op\n{tile('%b, %j', '%mm', '[4]')}",
        CONSUMED,
        "consumed %f, which is or holds its ops",
        "apply_registered_pass",
    ),
    "a match of nothing": (
        f"{NOTHING}\n{tile('%a, %i', '%none', '[8]')}",
        EMPTY,
        "%none points at no op, and structured.tile_using_for uses it",
        "linalg.conv_2d",
    ),
    "a transform of nothing": (
        f"{NOTHING}\ntransform.structured.vectorize %none : !transform.any_op",
        IDLE,
        "%none points at no op",
        "linalg.conv_2d",
    ),
    "a tile that does not divide": (
        f"{MM}\n{tile('%a, %i', '%mm', '[7]')}",
        REMAINDER,
        "a tile size does not divide its loop",
        "[7]",
    ),
    "a vectorization of an open size": (
        f"{MM}\n{tile('%a, %i', '%mm', '[7]')}\ntransform.structured.vectorize %a : !transform.any_op",
        FAILED,
        "vectorize",
        "[7]",
    ),
    "an op without tiles": (
        f"{match('c', 'arith.constant')}\n{tile('%a, %i', '%c', '[8]')}",
        FAILED,
        "only ops implementing TilingInterface are supported",
        "arith.constant",
    ),
    "an order that prevents fusion": (
        f"{MM}\n{match('twice', 'linalg.elementwise')}\n{tile('%a, %i', '%mm', '[8]')}\n"
        f"{tile('%b, %j', '%twice', '[8]')}\n"
        "%f, %l = transform.structured.fuse_into_containing_op %a into %j"
        " : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)",
        FAILED,
        "could not find next producer to fuse",
        "%a, %i",
    ),
    "too many tile sizes": (
        f"{MM}\n{tile('%a, %i, %j, %k, %l', '%mm', '[8, 8, 8, 8]')}",
        FAILED,
        "too many tiles",
        "[8, 8, 8, 8]",
    ),
    "cleaning that cleans nothing": (
        f"{match('f', 'func.func')}\ntransform.apply_cse to %f : !transform.any_op\n"
        "transform.apply_cse to %f : !transform.any_op  // again",
        IDLE,
        "the payload is as it was",
        "// again",
    ),
    "a handle that is split into too many": (
        f"{MM}\n%a, %b = transform.split_handle %mm : (!transform.any_op) -> (!transform.any_op, !transform.any_op)",
        FAILED,
        "what structured.match gives expected to contain 2 payloads but it contains 1",
        "linalg.matmul",
    ),
    "a loop over nothing": (
        f"{NOTHING}\ntransform.foreach %none : !transform.any_op {{\n^bb0(%x: !transform.any_op):\n"
        f"{tile('%a, %i', '%x', '[8]')}\n}}",
        EMPTY,
        "it runs over nothing",
        "linalg.conv_2d",
    ),
    "a knob without effect": (
        f"{MM}\n{WIDTH}",
        KNOB,
        "width: the payload is the same in the end with each of 2 values",
        'knob<"width">',
    ),
}


def walk(found, keys):
    """Number of the step that keys lead to: `m` to the next mark, `c` to the step that a mark refers to."""
    number = 0
    for key in keys:
        if key == "m":
            number = next((n for n, step in enumerate(found.steps, 1) if n > number and step.marks), number)
        else:
            number = next((mark.cause for mark in found.steps[number - 1].marks if mark.cause), number)
    return number


@pytest.mark.parametrize("fault", FAULTY)
def test_what_is_marked_in_a_faulty_script_leads_to_the_cause(fault, tmp_path):
    body, kind, sentence, cause = FAULTY[fault]
    found = debug(payload_file(tmp_path), script(body), variants=True)
    marks = [mark for step in found.steps for mark in step.marks]
    assert any(mark.kind == kind and sentence in mark.sentence for mark in marks), marks
    assert not found.notes
    assert bool(found.message) == (kind in (FAILED, CONSUMED))
    lines = [found.script.splitlines()[found.steps[walk(found, keys) - 1].line - 1] for keys in ("m", "mc", "mmc")]
    assert any(cause in line for line in lines), lines


def test_a_knob_with_an_effect_is_not_marked(tmp_path):
    body = f"{MM}\n{WIDTH.replace('64, 128', '8, 128')}"
    found = debug(payload_file(tmp_path), script(body), variants=True)
    assert [(each.knob, each.same) for each in found.variants if each.knob] == [("width", False)]
    assert not any(mark.kind == KNOB for step in found.steps for mark in step.marks)


def test_variants_say_what_follows_from_one_change(tmp_path):
    body = f"{MM}\n{tile('%a, %i', '%mm', '[8]')}\ntransform.structured.vectorize %a : !transform.any_op"
    found = debug(payload_file(tmp_path), script(body), variants=True)
    known = {each.label: each for each in found.variants}
    without = known["without step 2, structured.tile_using_for"]
    assert without.first == 2
    assert "scf.for" not in added_in(without.steps)
    wider = known["line 5: [8] becomes [16]"]
    assert (wider.first, wider.message, wider.same) == (2, "", False)
    assert "%c16" in added_in(wider.steps)


def added_in(steps):
    """Lines that steps add, as one text."""
    return "\n".join(line for step in steps for change in step.changes for line in change.added)


def test_a_failure_names_the_op_that_did_not_match(tmp_path):
    found = debug(payload_file(tmp_path), script(f"{match('c', 'arith.constant')}\n{tile('%a, %i', '%c', '[8]')}"))
    (mark,) = found.steps[-1].marks
    assert mark.ops == ("cst",)


def test_a_step_can_be_left_out(tmp_path):
    whole = debug(payload_file(tmp_path), TUTORIAL["tile"])
    without = debug(payload_file(tmp_path), TUTORIAL["tile"], skip=[2])
    assert "scf.for" in str(whole.payload_after(2))
    assert "scf.for" not in str(without.payload_after(2))
    assert "scf.for" in str(without.payload_after(3))


def test_steps_are_joined_where_there_are_too_many(tmp_path):
    payload, candidate = open_source(payload_file(tmp_path), TUTORIAL["sequences"], None, "")
    found = record_here(DebugRequest(payload, candidate, limits=DebugLimits(seconds=0.0)))
    assert "from step 1 on" in found.notes[-1]
    assert str(found.payload_after(len(found.steps))) != str(found.payload_after(0))
    assert len(found.notes) == 1  # and the result is that of one run
