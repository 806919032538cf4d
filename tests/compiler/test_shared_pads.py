"""Pads of one tensor that convolutions along rows read are parts of the widest, and compute what they did."""

import pytest
from tuning_support import agrees, loaded, run, run_tuned

from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.convolution.shared_pads import share_pads
from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.host.machine import this_machine

PHASES = [((1, 1), (2, 2)), ((1, 0), (2, 1)), ((0, 1), (1, 2))]  # rows and columns before what is read; taps


def phases(channels, filters, sides, *, values=("0.0",) * 3):
    """Convolutions of one tensor, each padded for itself, whose results have its sides."""
    height, width = sides
    x, y = (f"tensor<1x{c}x{height}x{width}xf32>" for c in (channels, filters))
    lines, kernels = [], []
    for n, ((row, column), (down, across)) in enumerate(PHASES):
        wide, kernel = (
            f"tensor<1x{channels}x{height + row}x{width + column}xf32>",
            f"tensor<{filters}x{channels}x{down}x{across}xf32>",
        )
        kernels.append(f"%k{n}: {kernel}")
        lines.append(f"""%v{n} = arith.constant {values[n]} : f32
  %p{n} = tensor.pad %x low[0, 0, {row}, {column}] high[0, 0, 0, 0] {{
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %v{n} : f32
  }} : {x} to {wide}
  %e{n} = tensor.empty() : {y}
  %z{n} = linalg.fill ins(%zero : f32) outs(%e{n} : {y}) -> {y}
  %r{n} = linalg.conv_2d_nchw_fchw ins(%p{n}, %k{n} : {wide}, {kernel}) outs(%z{n} : {y}) -> {y}""")
    body = "\n  ".join(lines)
    return f"""func.func @f(%x: {x}, {", ".join(kernels)}) -> ({y}, {y}, {y}) {{
  %zero = arith.constant 0.0 : f32
  {body}
  return %r0, %r1, %r2 : {y}, {y}, {y}
}}"""


def pads_left(text):
    with context():
        module = parse(text, "mine")
        share_pads(module)
        assert module.operation.verify()
        return str(module).count("tensor.pad")


@pytest.mark.parametrize(("channels", "filters", "sides"), [(96, 10, (7, 8)), (20, 4, (9, 40)), (33, 3, (3, 5))])
def test_phases_read_parts_of_one_pad(channels, filters, sides, tmp_path):
    payload = loaded(tmp_path, phases(channels, filters, sides))
    assert pads_left(payload.text) == 1
    inputs = payload.make_inputs(0)
    got, parts = run_tuned(payload, inputs, this_machine())
    agrees(payload, got, run(payload, inputs, None, PLAIN))
    assert parts.payload.text.count("bufferization.alloc_tensor") <= 1, "one copy of what is read"


def test_pads_by_another_number_stay(tmp_path):
    payload = loaded(tmp_path, phases(20, 4, (9, 40), values=("0.0", "1.0", "0.0")))
    assert pads_left(payload.text) == 2


def test_pads_of_convolutions_that_are_turned_stay(tmp_path):
    payload = loaded(tmp_path, phases(256, 256, (9, 16)))
    assert pads_left(payload.text) == 3
