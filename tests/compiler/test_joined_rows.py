"""Norms over several dimensions go over rows: what is reduced, and what is around it, as one dimension."""

import numpy as np
import pytest
from tuning_support import loaded, run_tuned

from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine

RNG = np.random.default_rng(3)


def kind(shape):
    return f"tensor<{'x'.join(map(str, [*shape, 'f32']))}>"


def axes(loops, read):
    names = [f"d{n}" for n in range(loops)]
    return f"affine_map<({', '.join(names)}) -> ({', '.join(names[d] for d in read)})>"


def op(name, inputs, made, reads, body, *, reduced=0, into=None):
    """Lines of a generic op; `inputs` are names and shapes."""
    loops = len(reads[0]) if reduced else len(made)
    iterators = ['"parallel"'] * (loops - reduced) + ['"reduction"'] * reduced
    maps = ", ".join(axes(loops, read) for read in (*reads, range(loops - reduced)))
    elements = ", ".join([*(f"%e{n}: f32" for n in range(len(inputs))), "%o: f32"])
    kinds = ", ".join(kind(shape) for _, shape in inputs)
    return f"""
  %{name}_into = tensor.empty() : {kind(made)}
  {f"%{name}_start = linalg.fill ins(%zero : f32) outs(%{name}_into : {kind(made)}) -> {kind(made)}" if reduced else ""}
  %{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{", ".join(iterators)}]}}
    ins({", ".join(each for each, _ in inputs)} : {kinds})
    outs({into or f"%{name}_{'start' if reduced else 'into'}"} : {kind(made)}) {{
  ^bb0({elements}):
    {body}
    linalg.yield %r : f32
  }} -> {kind(made)}"""


def norm(shape, lead, gain=(), before=""):
    """``(x - mean) / sqrt(mean of squares)`` over all dimensions but some leading ones, times a gain."""
    rank, kept, count = len(shape), shape[:lead], np.prod(shape[lead:])
    whole, rows, over = range(rank), range(lead), rank - lead
    x, m, c, v = ("%x", shape), ("%mean", kept), ("%centred", shape), ("%square", kept)
    add = "%r = arith.addf %e0, %o : f32"
    lines = [
        op("mean", [x], kept, [whole], add, reduced=over),
        op("centred", [x, m], shape, [whole, rows], "%q = arith.divf %e1, %n : f32\n    %r = arith.subf %e0, %q : f32"),
        op(
            "square",
            [c],
            kept,
            [whole],
            f"%s = arith.mulf %e0, %e0 : f32\n    {add.replace('%e0', '%s')}",
            reduced=over,
        ),
    ]
    scale = "%q = arith.divf %e1, %n : f32\n    %w = math.rsqrt %q : f32\n    %t = arith.mulf %e0, %w : f32\n    "
    gains = [("%gain", [shape[d] for d in gain])] if gain else []
    scale += f"%r = arith.mulf %t, %{'e2' if gain else 'one'} : f32"
    lines.append(op("y", [c, v, *gains], shape, [whole, rows, *([gain] if gain else [])], scale))
    given = f"%x: {kind(shape)}" + (f", %gain: {kind(gains[0][1])}" if gain else "")
    return f"""func.func @norm({given}) -> {kind(shape)} {{
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %n = arith.constant {float(count)} : f32{before}{"".join(lines)}
  return %y : {kind(shape)}
}}"""


@pytest.mark.parametrize(
    ("shape", "lead", "gain", "sizes"),
    [
        ((3, 5, 7, 9), 2, (), {(3, 5, 63)}),
        ((6, 4, 5, 7), 1, (1, 2, 3), {(6, 140)}),
        ((6, 4, 5, 7), 1, (2, 3), None),
        ((6, 4, 16, 16), 1, (1,), None),
        ((5, 40), 1, (), {(5, 40)}),
    ],
    ids=str,
)
def test_norms_over_planes_are_those_over_rows(shape, lead, gain, sizes, tmp_path):
    payload = loaded(tmp_path, norm(shape, lead, gain))
    x = RNG.standard_normal(shape).astype("f4")
    factor = RNG.standard_normal([shape[d] for d in gain]).astype("f4")
    inputs = {a.name: each for a, each in zip(payload.arguments, (x, factor) if gain else (x,), strict=False)}
    (found,), parts = run_tuned(payload, inputs, this_machine())
    over = tuple(range(lead, len(shape)))
    centred = x - x.mean(axis=over, keepdims=True, dtype="f8")
    wanted = centred / np.sqrt((centred**2).mean(axis=over, keepdims=True))
    if gain:
        wanted = wanted * factor.reshape([shape[d] if d in gain else 1 for d in range(len(shape))])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    groups = {task.nest.sizes for task in parts.tasks if task.is_group}
    assert sizes is None or groups == sizes
    reduced = {task.nest.sizes for task in parts.tasks if "reduction" in task.nest.iterators}
    assert all(len(each) <= lead + 1 for each in reduced)


def test_what_follows_a_product_stays_beside_it(tmp_path):
    product = """
  %a = tensor.empty() : tensor<6x20x8xf32>
  %b = linalg.fill ins(%zero : f32) outs(%a : tensor<6x20x8xf32>) -> tensor<6x20x8xf32>
  %p = linalg.batch_matmul ins(%x0, %x1 : tensor<6x20x4xf32>, tensor<6x4x8xf32>) outs(%b : tensor<6x20x8xf32>)
    -> tensor<6x20x8xf32>"""
    act = op("x", [("%p", (6, 20, 8))], (6, 20, 8), [range(3)], "%r = arith.maximumf %e0, %zero : f32")
    text = norm((6, 20, 8), 1, before=product + act)
    text = text.replace("@norm(%x: tensor<6x20x8xf32>)", "@norm(%x0: tensor<6x20x4xf32>, %x1: tensor<6x4x8xf32>)")
    parts = partition(loaded(tmp_path, text))
    (beside,) = (task for task in parts.tasks if task.contractions)
    assert beside.is_group
    assert any(task.nest.sizes == (6, 160) for task in parts.tasks)
