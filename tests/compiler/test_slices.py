"""Pads that take something away, and elements that are read of a slice: each gives what NumPy does."""

import numpy as np
import pytest
from tuning_support import agrees, loaded, run, run_tuned

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.normalise.shapes.slices import read_elements_of_wholes, read_in_steps
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate


def padded(low, high, shape):
    """A pad of 6 x 8 numbers by zeros."""
    return f"""func.func @f(%x: tensor<6x8xf32>) -> tensor<{shape}xf32> {{
  %zero = arith.constant 0.0 : f32
  %r = tensor.pad %x low{low} high{high} {{
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  }} : tensor<6x8xf32> to tensor<{shape}xf32>
  return %r : tensor<{shape}xf32>
}}"""


REVERSED = """func.func @f(%x: tensor<2x3x8x9xf32>) -> tensor<2x3x8x1xf32> {
  %zero = arith.constant 0 : index
  %last = arith.constant 7 : index
  %s = tensor.extract_slice %x[0, 0, 0, 5] [2, 3, 8, 1] [1, 1, 1, 1] : tensor<2x3x8x9xf32> to tensor<2x3x8x1xf32>
  %e = tensor.empty() : tensor<2x3x8x1xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<2x3x8x1xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %h = linalg.index 2 : index
    %back = arith.subi %last, %h : index
    %v = tensor.extract %s[%n, %c, HOW, %zero] : tensor<2x3x8x1xf32>
    linalg.yield %v : f32
  } -> tensor<2x3x8x1xf32>
  return %r : tensor<2x3x8x1xf32>
}"""


@pytest.mark.parametrize(
    ("low", "high", "shape", "expected"),
    [
        ([-1, 2], [0, -3], "5x7", lambda x: np.pad(x[1:, :5], ((0, 0), (2, 0)))),
        ([-2, -1], [-1, -1], "3x6", lambda x: x[2:5, 1:7]),
        ([1, 0], [-2, 0], "5x8", lambda x: np.pad(x[:4], ((1, 0), (0, 0)))),
    ],
)
def test_a_pad_by_less_than_nothing_takes_away(low, high, shape, expected, tmp_path):
    payload = loaded(tmp_path, padded(low, high, shape))
    inputs = payload.make_inputs(0)
    (given,) = inputs.values()
    agrees(payload, run(payload, inputs, None, PLAIN), [expected(given)])


@pytest.mark.parametrize("how", ["%h", "%back"])
def test_elements_of_a_slice_are_read_of_the_whole(how, tmp_path):
    payload = loaded(tmp_path, REVERSED.replace("HOW", how))
    with context():
        module = parse(payload.text, "mine")
        read_elements_of_wholes(module)
        assert "tensor.extract_slice" not in str(module)
        text = str(module)
    inputs = payload.make_inputs(0)
    expected = run(payload, inputs, None, PLAIN)
    agrees(payload, run(payload, inputs, None, PLAIN, text=text), expected)
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], expected)


def largest_in_steps(first, then, shape):
    """The larger of two slices of slices of 2 x 9 x 140 bytes, in steps."""
    middle, last = (f"tensor<{each}xi8>" for each in shape)
    (up, down), (left, right) = first, then
    return f"""func.func @f(%x: tensor<2x9x140xi8>) -> {last} {{
  %a = tensor.extract_slice %x[0, {up[0]}, 0] [2, 4, 140] [1, {up[1]}, 1] : tensor<2x9x140xi8> to {middle}
  %b = tensor.extract_slice %a[0, 0, {left[0]}] [2, 4, 46] [1, 1, {left[1]}] : {middle} to {last}
  %c = tensor.extract_slice %x[0, {down[0]}, 0] [2, 4, 140] [1, {down[1]}, 1] : tensor<2x9x140xi8> to {middle}
  %d = tensor.extract_slice %c[0, 0, {right[0]}] [2, 4, 46] [1, 1, {right[1]}] : {middle} to {last}
  %e = tensor.empty() : {last}
  %r = linalg.generic {{indexing_maps = [affine_map<(n, h, w) -> (n, h, w)>, affine_map<(n, h, w) -> (n, h, w)>,
    affine_map<(n, h, w) -> (n, h, w)>], iterator_types = ["parallel", "parallel", "parallel"]}}
    ins(%b, %d : {last}, {last}) outs(%e : {last}) {{
  ^bb0(%p: i8, %q: i8, %o: i8):
    %m = arith.maxsi %p, %q : i8
    linalg.yield %m : i8
  }} -> {last}
  return %r : {last}
}}"""


CUTS = [  # first place and step of both slices, down and across
    (((0, 2), (1, 2)), ((0, 3), (2, 3))),
    (((5, 1), (2, 2)), ((1, 3), (94, 1))),
    (((4, 1), (0, 1)), ((3, 2), (0, 1))),
    (((1, 2), (5, 1)), ((7, 1), (90, 1))),
]


@pytest.mark.parametrize(("down", "across"), CUTS)
def test_slices_in_steps_are_read_of_the_whole(down, across, tmp_path):
    payload = loaded(tmp_path, largest_in_steps(down, across, ("2x4x140", "2x4x46")))
    inputs = payload.make_inputs(0)
    (x,) = inputs.values()
    parts = [
        x[:, at : at + 3 * s + 1 : s, to : to + 45 * t + 1 : t] for (at, s), (to, t) in zip(down, across, strict=True)
    ]
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], [np.maximum(*parts)])
    with context():
        module = parse(payload.text, "mine")
        read_in_steps(module)
        assert ("* 3" in str(module) or "* 2" in str(module)) == any(step > 1 for _, step in across)


def test_a_pad_that_is_a_result_is_written_where_it_is_wanted(tmp_path):
    payload = loaded(tmp_path, padded([1, 0], [2, 0], "9x8"))
    candidate = default_candidate(partition(payload), this_machine())
    text = compile_to("bufferized", payload, candidate).text
    assert "memref.alloc" not in text
    assert text.count("linalg.copy") + text.count("memref.copy") == 1


def test_a_slice_of_one_element_may_have_any_step_there(tmp_path):
    whole, part = "tensor<1x1x3x8xf32>", "tensor<1x2x2xf32>"
    text = f"""func.func @f(%x: {whole}) -> {part} {{
      %part = tensor.extract_slice %x[0, 0, 1, 3] [1, 1, 2, 2] [2, 1, 1, 2] : {whole} to {part}
      return %part : {part}
    }}"""
    payload = loaded(tmp_path, text)
    assert "[1, 1, 1, 2]" in payload.text
    x = np.arange(24, dtype=np.float32).reshape(1, 1, 3, 8)
    np.testing.assert_array_equal(run(payload, {"arg0": x}, None, PLAIN)[0], x[0, :, 1:3, 3:6:2])
