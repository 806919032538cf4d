"""Destinations: text as importers write it, where several ops fill one tensor or write to one empty one."""

import numpy as np
from compile_support import schedule
from tuning_support import MACHINES, agrees, default_steps, family_for, run, tensor, tensor_payload, write_step

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument
from autotune.core.scripts.assembly import assemble, panels_of
from autotune.tuning.candidates import candidate_alone

SIZE = 32
WHOLE, ROW = tensor((SIZE, SIZE)), tensor((SIZE,))
BOTH = "affine_map<(i, j) -> (i, j)>"
OF_ROW, OF_COLUMN = "affine_map<(i, j) -> (i)>", "affine_map<(i, j) -> (j)>"


def op(name, maps, operands, out, body, *, reduced):
    """A structured op over rows and columns."""
    kinds = ["f32"] * (len(operands) + 1)
    names = [*("%x", "%y", "%z")[: len(operands)], "%o"]
    arguments = ", ".join(f"{n}: {k}" for n, k in zip(names, kinds, strict=True))
    iterators = f'["parallel", "{"reduction" if reduced else "parallel"}"]'
    types = [WHOLE if m == BOTH else ROW for m in maps]
    given = f"ins({', '.join(operands)} : {', '.join(types[:-1])}) outs({out} : {types[-1]})"
    return f"""%{name} = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = {iterators}}} {given} {{
    ^bb0({arguments}):
      {body}
      linalg.yield %r : f32
    }} -> {types[-1]}
    """


# the fill %zeros and the empty %whole serve several ops, as in the text of torch-mlir
LAYER_NORM = f"""%zero = arith.constant 0.0 : f32
    %count = arith.constant {SIZE}.0 : f32
    %eps = arith.constant 1.0e-5 : f32
    %whole = tensor.empty() : {WHOLE}
    %row = tensor.empty() : {ROW}
    %zeros = linalg.fill ins(%zero : f32) outs(%row : {ROW}) -> {ROW}
    """ + "".join(
    [
        op("sum", [BOTH, OF_ROW], ["%a"], "%zeros", "%r = arith.addf %x, %o : f32", reduced=True),
        op(
            "centred",
            [BOTH, OF_ROW, BOTH],
            ["%a", "%sum"],
            "%whole",
            "%m = arith.divf %y, %count : f32\n %r = arith.subf %x, %m : f32",
            reduced=False,
        ),
        op(
            "squares",
            [BOTH, OF_ROW],
            ["%centred"],
            "%zeros",
            "%q = arith.mulf %x, %x : f32\n %r = arith.addf %q, %o : f32",
            reduced=True,
        ),
        op(
            "result",
            [BOTH, OF_ROW, BOTH],
            ["%centred", "%squares"],
            "%whole",
            "%v = arith.divf %y, %count : f32\n %w = arith.addf %v, %eps : f32\n"
            "%s = math.rsqrt %w : f32\n %r = arith.mulf %x, %s : f32",
            reduced=False,
        ),
    ]
)


def layer_norm(a):
    centred = a - a.mean(-1, keepdims=True)
    return (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5),)


ARGUMENTS = [Argument("a", "input", (SIZE, SIZE)), Argument("y", "output", (SIZE, SIZE))]
PAYLOAD = tensor_payload("normed", ARGUMENTS, LAYER_NORM, reduction=SIZE)


def test_a_fill_that_two_members_of_a_group_share_is_made_for_each():
    parts = partition(PAYLOAD)
    steps = default_steps(parts, this_machine())
    inputs = PAYLOAD.make_inputs(0)
    got = run(PAYLOAD, inputs, assemble(steps), TAIL, text=parts.payload.text, panels=panels_of(steps))
    agrees(PAYLOAD, got, layer_norm(inputs["a"].astype("f8")))


def test_a_fill_that_ops_behind_a_group_read_too_does_not_abort_the_process():
    columns = op("columns", [BOTH, OF_COLUMN], ["%normed"], "%zeros", "%r = arith.addf %x, %o : f32", reduced=True)
    columns = columns.replace('["parallel", "reduction"]', '["reduction", "parallel"]')
    shares = op("normed", [BOTH, OF_ROW, BOTH], ["%a", "%sum"], "%whole", "%r = arith.divf %x, %y : f32", reduced=False)
    operands = ["%normed", "%columns"]
    both = op("result", [BOTH, OF_COLUMN, BOTH], operands, "%whole", "%r = arith.addf %x, %y : f32", reduced=False)
    body = LAYER_NORM[: LAYER_NORM.index("%centred")] + shares + columns + both
    payload = tensor_payload("shares", ARGUMENTS, body, reduction=SIZE)
    parts = partition(payload)
    assert [len(task.ops) for task in parts.tasks] == [2, 1, 1]
    with context():
        schedule(parse(parts.payload.text, "the whole"), assemble(default_steps(parts, MACHINES["avx2"])))


OFFSET = """#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%a: tensor<8x12xf32>, %b: tensor<12x600xf32>, %c: tensor<8xf32>) -> tensor<8x600xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x600xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x600xf32>) -> tensor<8x600xf32>
  %p = linalg.matmul ins(%a, %b : tensor<8x12xf32>, tensor<12x600xf32>) outs(%z : tensor<8x600xf32>)
    -> tensor<8x600xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%p, %c : tensor<8x600xf32>, tensor<8xf32>) outs(%e : tensor<8x600xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %s = arith.addf %v, %u : f32
    linalg.yield %s : f32
  } -> tensor<8x600xf32>
  return %r : tensor<8x600xf32>
}"""


def test_a_task_alone_writes_rows_with_peeled_ends_where_they_are_wanted():
    """Its text has an empty tensor for the result; the pieces of a row were written there, and copied."""
    machine = MACHINES["avx512"]
    (task,) = partition(read_payload("offset.mlir", OFFSET)).tasks
    family = family_for(task)
    config = {**family.default(task, machine), "fuse": False, "columns": 0, "rows": 8, "vectors": 2}
    step = write_step(task, family, config, machine)
    text = compile_to("bufferized", task.payload, candidate_alone(step)).text
    assert "copy" not in text
