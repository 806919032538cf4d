"""Windows over planes, and other element-wise ops that read neighbours: any step, gap and border, as in NumPy."""

from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tuning_support import MACHINES, agrees, loaded, run_tuned, tensor, tensor_payload

from autotune.compiler.ir.module import context, parse
from autotune.compiler.passes.stencil import write_stencils
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument
from autotune.registry import family_for

QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
BORDERS = {"max": "0xFF800000", "sum": "0.0"}


def windows(size, side, stride, gap, pads):
    """Number of windows along a dimension."""
    return (size + sum(pads) - gap * (side - 1) - 1) // stride + 1


def pool_text(kind, shape, about, border):
    """A pool as importers write it; `pads` are before and after, down and across."""
    (*lead, h, w), (sides, strides, gaps, pads) = shape, about
    low, high = ([pads[d][side] for d in range(2)] for side in range(2))
    padded = tensor((*lead, h + sum(pads[0]), w + sum(pads[1])))
    out = tensor((*lead, *(windows(*about) for about in zip((h, w), sides, strides, gaps, pads, strict=True))))
    steps = f"strides = dense<{list(strides)}> : tensor<2xi64>, dilations = dense<{list(gaps)}> : tensor<2xi64>"
    return f"""func.func @f(%x: {tensor(shape)}) -> {out} {{
  %start = arith.constant {BORDERS[kind]} : f32
  %border = arith.constant {border} : f32
  %p = tensor.pad %x low[0, 0, {low[0]}, {low[1]}] high[0, 0, {high[0]}, {high[1]}] {{
  ^bb0(%a0: index, %a1: index, %a2: index, %a3: index):
    tensor.yield %border : f32
  }} : {tensor(shape)} to {padded}
  %e = tensor.empty() : {out}
  %z = linalg.fill ins(%start : f32) outs(%e : {out}) -> {out}
  %k = tensor.empty() : {tensor(sides)}
  %r = linalg.pooling_nchw_{kind} {{{steps}}} ins(%p, %k : {padded}, {tensor(sides)}) outs(%z : {out}) -> {out}
  return %r : {out}
}}"""


def pooled(kind, x, about, border):
    """A pool, place by place, in float64."""
    sides, strides, gaps, pads = about
    x = np.pad(x.astype("f8"), ((0, 0), (0, 0), *pads), constant_values=border)
    out = [windows(*about, (0, 0)) for about in zip(x.shape[2:], sides, strides, gaps, strict=True)]
    parts = []
    for i in range(sides[0]):
        for j in range(sides[1]):
            part = x[:, :, i * gaps[0] :: strides[0], j * gaps[1] :: strides[1]]
            parts.append(part[:, :, : out[0], : out[1]])
    return np.max(parts, axis=0) if kind == "max" else np.sum(parts, axis=0)


@settings(max_examples=20, **QUIET)
@given(data=st.data())
def test_a_pool_over_planes_is_what_numpy_computes(data, tmp_path):
    draw = data.draw
    kind, border = draw(st.sampled_from([("max", "0xFF800000"), ("max", "0.5"), ("sum", "0.0"), ("sum", "2.0")]))
    sides = draw(st.sampled_from([(1, 1), (2, 2), (3, 3), (3, 2), (1, 3), (5, 1), (4, 4), (5, 5)]))
    strides, gaps = ((draw(st.integers(1, 3)), draw(st.integers(1, 3))) for _ in range(2))
    pads = [(draw(st.integers(0, (side + 1) // 2)), draw(st.integers(0, side))) for side in sides]
    least = [gap * (side - 1) + 1 for gap, side in zip(gaps, sides, strict=True)]
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 3)), least[0] + draw(st.integers(0, 9)), 0)
    shape = (*shape[:3], least[1] + 7 * strides[1] + draw(st.integers(0, 50)))
    about = (sides, strides, gaps, pads)
    payload = loaded(tmp_path, pool_text(kind, shape, about, border))
    inputs = payload.make_inputs(0)
    seed = draw(st.none() | st.integers(0, 99))
    number = float("-inf") if border.startswith("0x") else float(border)
    expected = pooled(kind, inputs[payload.arguments[0].name], about, number)
    assume(np.isfinite(expected).all())  # a window of a border alone is no finite number
    agrees(payload, run_tuned(payload, inputs, this_machine(), seed)[0], [expected])


@pytest.mark.parametrize("side", [2, 3, 5])
def test_a_maximum_is_nan_where_a_window_has_one(tmp_path, side):
    about = ((side, side), (2, 2), (1, 1), [(1, 1), (1, 1)])
    payload = loaded(tmp_path, pool_text("max", (1, 2, 9, 21), about, BORDERS["max"]))
    inputs = payload.make_inputs(0)
    x = inputs[payload.arguments[0].name]
    x[0, 0, 3, 4] = x[0, 1, 8, 20] = x[0, 0, 0, 0] = np.nan
    x[0, 1, 2, 2], x[0, 1, 4, 4] = np.inf, -np.inf
    got, _ = run_tuned(payload, inputs, this_machine())
    np.testing.assert_array_equal(got[0], pooled("max", x, about, -np.inf))


def test_a_pool_over_planes_turns_nothing_and_copies_nothing(tmp_path):
    about = ((3, 3), (2, 2), (1, 1), [(1, 1), (1, 1)])
    parts = partition(loaded(tmp_path, pool_text("max", (2, 3, 32, 40), about, BORDERS["max"])))
    assert all(task.root.periods and family_for(task).name == "stencil" for task in parts.tasks)
    assert sum(prod(task.nest.sizes) * task.count for task in parts.tasks) == 2 * 3 * 16 * 20
    assert "tensor.pad" not in parts.payload.text


READS = {  # maps of an operand, and what an op of one operand then is
    "repeated": ("(d0 floordiv 2, d1 floordiv 3)", lambda y: (y[0] // 2, y[1] // 3)),
    "every fourth": ("(d0, d1 * 4 + 1)", lambda y: (y[0], 4 * y[1] + 1)),
    "every ninth": ("(d0, d1 * 9)", lambda y: (y[0], 9 * y[1])),
    "turned": ("(d1 * 2, d0)", lambda y: (2 * y[1], y[0])),
    "wrapped around": ("((d0 + 3) mod 8, (d1 * 2 + 5) mod 59)", lambda y: ((y[0] + 3) % 8, (2 * y[1] + 5) % 59)),
}


@pytest.mark.parametrize("name", READS)
def test_elements_may_be_read_in_steps_and_at_places_that_repeat(name):
    amap, place = READS[name]
    places = place(np.indices((8, 59)))
    shape = tuple(int(p.max()) + 1 for p in places)
    x, y = tensor(shape), tensor((8, 59))
    body = f"""%e = tensor.empty() : {y}
    %result = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> {amap}>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x : {x}) outs(%e : {y}) {{
    ^bb0(%v: f32, %o: f32):
      %u = arith.negf %v : f32
      linalg.yield %u : f32
    }} -> {y}"""
    payload = tensor_payload("reads", [Argument("x", "input", shape), Argument("y", "output", (8, 59))], body)
    inputs = payload.make_inputs(0)
    for seed in (None, 1):
        got, parts = run_tuned(payload, inputs, this_machine(), seed)
        assert all(task.root.periods for task in parts.tasks)
        agrees(payload, got, [-inputs["x"][places].astype("f8")])


def test_a_number_that_is_computed_outside_of_an_op_is_in_every_lane():
    """Such as the epsilon of a norm, which loops of other ops have narrowed already when a script comes to this one."""
    text = """func.func @f(%x: memref<2x9xf32>, %y: memref<2x8xf32>) {
  %wide = arith.constant 0.1 : f64
  %tenth = arith.truncf %wide : f64 to f32
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j + 1)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]} ins(%x : memref<2x9xf32>) outs(%y : memref<2x8xf32>)
    attrs = {autotune.stencil = 8 : i64} {
  ^bb0(%a: f32, %o: f32):
    %b = arith.addf %a, %tenth : f32
    linalg.yield %b : f32
  }
  return
}"""
    with context():
        module = parse(text, "mine")
        write_stencils(module)
        assert module.operation.verify()
        assert "linalg" not in str(module)
        assert str(module).count("vector.broadcast") == 2


COMPARES = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def chosen_text(predicate, loop, rows, columns):
    """An op that takes the element to the right where the place along a loop, less seven, stands so to five."""
    x, y = tensor((rows, columns + 1)), tensor((rows, columns))
    return f"""func.func @f(%x: {x}) -> {y} {{
  %e = tensor.empty() : {y}
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j + 1)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]}} ins(%x : {x}) outs(%e : {y}) {{
  ^bb0(%a: f32, %o: f32):
    %zero = arith.constant 0.0 : f32
    %back = arith.constant -7 : index
    %limit = arith.constant 5 : index
    %j = linalg.index {loop} : index
    %place = arith.addi %j, %back : index
    %holds = arith.cmpi {predicate}, %place, %limit : index
    %y = arith.select %holds, %a, %zero : f32
    linalg.yield %y : f32
  }} -> {y}
  return %r : {y}
}}"""


@pytest.mark.parametrize("predicate", PREDICATES)
def test_what_places_choose_is_compared_with_and_without_a_sign(predicate, tmp_path):
    payload = loaded(tmp_path, chosen_text(predicate, 1, 8, 32))
    inputs, places = payload.make_inputs(0), np.arange(32) - 7
    numbers = places.astype("u8") if predicate[0] == "u" else places
    limit = numbers.dtype.type(5)
    holds = COMPARES[predicate[-2:]](numbers, limit)
    x = inputs[payload.arguments[0].name].astype("f8")
    for seed in (None, 1):
        got, parts = run_tuned(payload, inputs, this_machine(), seed)
        assert all(task.root.periods for task in parts.tasks)
        agrees(payload, got, [np.where(holds, x[:, 1:], 0.0)])


@pytest.mark.parametrize(("loop", "rows", "columns"), [(0, 12, 40), (0, 300, 40), (1, 3, 5000)])
def test_a_tile_has_every_place_that_is_asked_for_unless_it_were_too_large(loop, rows, columns, tmp_path):
    payload = loaded(tmp_path, chosen_text("sge", loop, rows, columns))
    inputs = payload.make_inputs(0)
    holds = np.indices((rows, columns))[loop] - 7 >= 5
    x = inputs[payload.arguments[0].name].astype("f8")
    got, parts = run_tuned(payload, inputs, this_machine())
    (task,) = parts.tasks
    assert task.root.periods == {12: (12, 1)}.get(rows, ())
    agrees(payload, got, [np.where(holds, x[:, 1:], 0.0)])


def test_tiles_begin_where_reads_repeat(tmp_path):
    for machine in MACHINES.values():
        for size in (1, 5, 16, 97):
            about = ((1, 1), (1, 2), (1, 1), [(0, 0), (0, 0)])
            shape = (1, 1, 4, 2 * size + 16)
            for task in partition(loaded(tmp_path, pool_text("max", shape, about, BORDERS["max"]))).tasks:
                family = family_for(task)
                family.space(task, machine).check(family.default(task, machine))


RESIZES = {  # how places are computed, and the same in NumPy
    "nearest": (
        """%p = arith.divf %f, %scale : f32
      %q = math.floor %p : f32""",
        lambda w, scale: np.floor(w / scale),
    ),
    "rounded": (
        """%g = arith.addf %f, %half : f32
      %p = arith.divf %g, %scale : f32
      %s = arith.subf %p, %half : f32
      %q = math.roundeven %s : f32""",
        lambda w, scale: np.rint((w + np.float32(0.5)) / scale - np.float32(0.5)),
    ),
}


def resize_text(kind, shape, out, scale):
    """A resize of rows as importers write it: places from floating-point numbers, and a share that follows."""
    last = shape[1] - 1
    return f"""func.func @f(%x: {tensor(shape)}) -> {tensor(out)} {{
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %scale = arith.constant {scale} : f32
  %last = arith.constant {last}.0 : f32
  %e = tensor.empty() : {tensor(out)}
  %r = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}}
    outs(%e : {tensor(out)}) {{
    ^bb0(%o: f32):
      %h = linalg.index 0 : index
      %w = linalg.index 1 : index
      %i = arith.index_cast %w : index to i64
      %f = arith.sitofp %i : i64 to f32
      {RESIZES[kind][0]}
      %a = arith.maximumf %q, %zero : f32
      %b = arith.minimumf %a, %last : f32
      %c = arith.fptosi %b : f32 to i64
      %place = arith.index_cast %c : i64 to index
      %v = tensor.extract %x[%h, %place] : {tensor(shape)}
      %share = arith.mulf %f, %half : f32
      %u = arith.mulf %v, %share : f32
      linalg.yield %u : f32
  }} -> {tensor(out)}
  return %r : {tensor(out)}
}}"""


@settings(max_examples=12, **QUIET)
@given(
    kind=st.sampled_from(sorted(RESIZES)),
    columns=st.integers(1, 40),
    scale=st.sampled_from([0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 3.7]),
    seed=st.none() | st.integers(0, 9),
)
def test_a_resize_reads_by_maps_what_it_read_by_arithmetic(kind, columns, scale, seed, tmp_path):
    shape, out = (3, columns), (3, max(1, int(columns * scale)))
    payload = loaded(tmp_path, resize_text(kind, shape, out, scale))
    inputs = payload.make_inputs(0)
    w = np.arange(out[1], dtype=np.float32)
    places = np.clip(RESIZES[kind][1](w, np.float32(scale)), 0, columns - 1).astype(int)
    expected = inputs[payload.arguments[0].name][:, places].astype("f8") * (w * 0.5)
    agrees(payload, run_tuned(payload, inputs, this_machine(), seed)[0], [expected])
    if scale in (0.5, 1.0, 2.0, 3.0) and out[1] > 2:  # two places follow from many maps
        assert "tensor.extract" not in partition(payload).payload.text.replace("tensor.extract_slice", "")


def test_a_row_and_a_column_of_one_tensor_are_two_views(tmp_path):
    """Both begin at the same element, and have one dimension: only their strides differ."""
    payload = loaded(
        tmp_path,
        """#here = affine_map<(i, j) -> (i, j)>
#there = affine_map<(i, j) -> (i + 1, j + 1)>
#second = affine_map<(i, j) -> (1)>
func.func @f(%x: tensor<11x9xf32>, %k: tensor<2x2xf32>) -> tensor<10x8xf32> {
  %row = tensor.extract_slice %k[0, 0] [1, 2] [1, 1] : tensor<2x2xf32> to tensor<2xf32>
  %column = tensor.extract_slice %k[0, 0] [2, 1] [1, 1] : tensor<2x2xf32> to tensor<2xf32>
  %part = tensor.extract_slice %x[0, 0] [10, 8] [1, 1] : tensor<11x9xf32> to tensor<10x8xf32>
  %e = tensor.empty() : tensor<10x8xf32>
  %r = linalg.generic {indexing_maps = [#here, #there, #second, #second, #here],
      iterator_types = ["parallel", "parallel"]}
      ins(%part, %x, %row, %column : tensor<10x8xf32>, tensor<11x9xf32>, tensor<2xf32>, tensor<2xf32>)
      outs(%e : tensor<10x8xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32, %t: f32, %o: f32):
    %p = arith.mulf %a, %s : f32
    %q = arith.mulf %b, %t : f32
    %c = arith.addf %p, %q : f32
    linalg.yield %c : f32
  } -> tensor<10x8xf32>
  return %r : tensor<10x8xf32>
}""",
    )
    (task,) = partition(payload).tasks
    assert family_for(task).name == "stencil"
    inputs = payload.make_inputs(0)
    x, k = (inputs[argument.name].astype("f8") for argument in payload.arguments[:2])
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], [x[:-1, :-1] * k[0, 1] + x[1:, 1:] * k[1, 0]])
