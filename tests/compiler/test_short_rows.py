"""Element-wise ops over short rows, outer products and reductions of reductions go over few, long dimensions."""

from dataclasses import replace

import numpy as np
import pytest
from tuning_support import agrees, contraction_payload, loaded, product_of, run, run_tuned

from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine


def elementwise(shape, *operands):
    """``x + o + ..`` of a tensor of a shape, each operand read along some of its dimensions, in some order."""
    rank = len(shape)
    kinds = [f"tensor<{'x'.join([*(str(shape[d]) for d in read), 'f32'])}>" for read in (range(rank), *operands)]
    loops = ", ".join(f"d{d}" for d in range(rank))
    maps = [f"affine_map<({loops}) -> ({', '.join(f'd{d}' for d in read)})>" for read in (range(rank), *operands)]
    names = [f"%x{n}" for n in range(len(kinds))]
    given = ", ".join(f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True))
    steps = [f"%s{n} = arith.addf {'%s' + str(n - 1) if n > 1 else '%e0'}, %e{n} : f32" for n in range(1, len(kinds))]
    elements = ", ".join(f"%e{n}: f32" for n in range(len(kinds)))
    lines = "\n    ".join([*steps, f"linalg.yield %{'s' if steps else 'e'}{len(steps)} : f32"])
    return f"""func.func @f({given}) -> {kinds[0]} {{
  %into = tensor.empty() : {kinds[0]}
  %r = linalg.generic {{indexing_maps = [{", ".join([*maps, maps[0]])}],
    iterator_types = [{", ".join(['"parallel"'] * rank)}]}}
    ins({", ".join(names)} : {", ".join(kinds)}) outs(%into : {kinds[0]}) {{
  ^bb0({elements}, %o: f32):
    {lines}
  }} -> {kinds[0]}
  return %r : {kinds[0]}
}}"""


@pytest.mark.parametrize(
    ("shape", "operands", "sizes"),
    [
        ((8, 4, 6, 3), [(0, 1, 2, 3)], (576,)),
        ((5, 3, 7), [(0, 1, 2)], (105,)),
        ((5, 3, 32), [(0, 1, 2)], (5, 3, 32)),
        ((4, 6, 3), [(1, 2)], (4, 18)),
        ((4, 6, 3), [(0,)], (4, 18)),
        ((4, 6, 3), [(0, 1, 2), ()], (72,)),
        ((4, 6, 3), [(2, 1, 0)], (4, 6, 3)),
        ((4, 6, 3), [(0, 2)], (4, 6, 3)),
        ((1, 4, 1, 6, 3, 1), [(0, 1, 2, 3, 4, 5), (1, 2)], (4, 18)),
        ((3, 300), [(0, 1)], (3, 300)),
    ],
)
def test_short_rows_are_joined_as_far_as_operands_allow(shape, operands, sizes, tmp_path):
    payload = loaded(tmp_path, elementwise(shape, *operands))
    (task,) = partition(payload).tasks
    assert task.nest.sizes == sizes
    inputs = payload.make_inputs(0)
    got, _ = run_tuned(payload, inputs, this_machine())
    agrees(payload, got, run(payload, inputs, None, PLAIN))


def test_rows_of_bytes_are_joined_until_they_are_whole_vectors_of_those(tmp_path):
    text = elementwise((4, 16, 48), (0, 1, 2)).replace("arith.addf", "arith.addi").replace("f32", "i8")
    (task,) = partition(loaded(tmp_path, text)).tasks
    assert task.nest.sizes == (4, 768)


@pytest.mark.parametrize("batch", [0, 3])
@pytest.mark.parametrize("a", ["mk", "km"])
@pytest.mark.parametrize("b", ["kn", "nk"])
def test_a_product_that_sums_nothing_is_element_wise(batch, a, b):
    payload = replace(contraction_payload(17, 29, 1, batch=batch, a=a, b=b), foreign=True)
    (task,) = partition(payload).tasks
    assert "reduction" not in task.nest.iterators
    inputs = payload.make_inputs(0)
    got, _ = run_tuned(payload, inputs, this_machine())
    agrees(payload, got, [product_of(payload, inputs, a=a, b=b)])


@pytest.mark.parametrize("steps", [(3, 2, 1, 0), (0, 0, 0, 0), (1, 1), (0, 2), (2, 0)])
def test_reductions_of_reductions_are_one(steps, tmp_path):
    shape, lines, x = [4, 3, 5, 6], [], "%x"
    for number, axis in enumerate(steps):
        kind = f"tensor<{'x'.join([*map(str, shape), 'f32'])}>"
        loops = [f"d{d}" for d in range(len(shape))]
        kept = [d for d in range(len(shape)) if d != axis]
        made = f"tensor<{'x'.join([*(str(shape[d]) for d in kept), 'f32'])}>"
        maps = [
            f"affine_map<({', '.join(loops)}) -> ({', '.join(loops[d] for d in read)})>"
            for read in (range(len(shape)), kept)
        ]
        kinds = ", ".join('"reduction"' if d == axis else '"parallel"' for d in range(len(shape)))
        lines.append(f"""%e{number} = tensor.empty() : {made}
  %z{number} = linalg.fill ins(%low : f32) outs(%e{number} : {made}) -> {made}
  %r{number} = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{kinds}]}}
    ins({x} : {kind}) outs(%z{number} : {made}) {{
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %b, %a : f32
    linalg.yield %c : f32
  }} -> {made}""")
        x, shape = f"%r{number}", [shape[d] for d in kept]
    body = "\n  ".join(lines)
    text = f"""func.func @f(%x: tensor<4x3x5x6xf32>) -> {made} {{
  %low = arith.constant 0xFF800000 : f32
  {body}
  return {x} : {made}
}}"""
    payload = loaded(tmp_path, text)
    parts = partition(payload)
    assert len(parts.tasks) == 1
    inputs = payload.make_inputs(0)
    got, _ = run_tuned(payload, inputs, this_machine())
    expected = inputs[payload.arguments[0].name]
    for axis in steps:
        expected = expected.max(axis)
    np.testing.assert_array_equal(got[0], expected)
