"""Windows over long rows whose pads are not made: pieces at both ends read what lies beside a row from elsewhere."""

import numpy as np
import pytest
from tuning_support import loaded, run, run_tuned

from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.convolution.channels_first import MOST_COLUMNS
from autotune.compiler.normalise.convolution.channels_last import use_channels_last
from autotune.compiler.normalise.convolution.windows import WindowAxis
from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.host.machine import this_machine

LOWEST = "0xFF800000"


def pooled(rows, columns, window, pads, *, steps=(1, 1), gaps=(1, 1)):
    """Maxima of windows over padded planes."""
    (top, left), (bottom, right) = pads
    wide = rows + top + bottom, columns + left + right
    down, across = (
        (size - gap * (side - 1) - 1) // step + 1
        for size, side, step, gap in zip(wide, window, steps, gaps, strict=True)
    )
    x, padded = f"tensor<2x3x{rows}x{columns}xf32>", f"tensor<2x3x{wide[0]}x{wide[1]}xf32>"
    y, sides = f"tensor<2x3x{down}x{across}xf32>", f"tensor<{window[0]}x{window[1]}xf32>"
    return f"""func.func @f(%x: {x}) -> {y} {{
  %low = arith.constant {LOWEST} : f32
  %p = tensor.pad %x low[0, 0, {top}, {left}] high[0, 0, {bottom}, {right}] {{
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %low : f32
  }} : {x} to {padded}
  %e = tensor.empty() : {y}
  %z = linalg.fill ins(%low : f32) outs(%e : {y}) -> {y}
  %w = tensor.empty() : {sides}
  %r = linalg.pooling_nchw_max {{strides = dense<[{steps[0]}, {steps[1]}]> : tensor<2xi64>,
    dilations = dense<[{gaps[0]}, {gaps[1]}]> : tensor<2xi64>}} ins(%p, %w : {padded}, {sides}) outs(%z : {y}) -> {y}
  return %r : {y}
}}"""


CASES = {
    "both ends": pooled(1, MOST_COLUMNS + 9, (1, 8), ((0, 4), (0, 4)), gaps=(1, 3)),
    "in steps": pooled(2, 2 * MOST_COLUMNS + 30, (1, 3), ((0, 1), (0, 1)), steps=(1, 2)),
    "rows, too": pooled(4, MOST_COLUMNS + 40, (3, 3), ((1, 1), (1, 1))),
    "the first end alone": pooled(2, MOST_COLUMNS + 21, (1, 5), ((0, 4), (0, 0))),
    "the last end alone": pooled(2, MOST_COLUMNS + 21, (1, 5), ((0, 0), (0, 4))),
    "short": pooled(2, 40, (1, 5), ((0, 2), (0, 2))),
}


@pytest.mark.parametrize("name", CASES)
def test_pieces_give_what_padded_rows_do_and_nothing_is_padded(name, tmp_path):
    payload = loaded(tmp_path, CASES[name])
    with context():
        module = parse(payload.text, "mine")
        use_channels_last(module)
        assert "tensor.pad" not in str(module)
    inputs = payload.make_inputs(0)
    (x,) = inputs.values()
    x[0, 1, 0, [0, -1]] = np.nan, np.inf
    expected = run(payload, inputs, None, PLAIN)
    for seed in (None, 1):
        np.testing.assert_array_equal(run_tuned(payload, inputs, this_machine(), seed)[0], expected)


def test_windows_that_leave_too_much_are_padded(tmp_path):
    text = loaded(tmp_path, pooled(1, 300, (1, 3), ((0, 280), (0, 280)), gaps=(1, 280))).text
    with context():
        module = parse(text, "mine")
        use_channels_last(module)
        assert "tensor.pad" in str(module)


@pytest.mark.parametrize(
    ("axis", "strips"),
    [
        (WindowAxis(512, 499, 8, 1, 3, 4), [(0, 16), (16, 479), (495, 4)]),
        (WindowAxis(300, 300, 1, 1, 1, 0), [(0, 300)]),
        (WindowAxis(200, 200, 3, 1, 1, 1), [(0, 200)]),
        (WindowAxis(300, 300, 3, 1, 1, 2), [(0, 16), (16, 284)]),
    ],
)
def test_only_short_strips_leave_what_is_read(axis, strips):
    assert axis.strips(MOST_COLUMNS, 16) == strips
    parts = [axis.part(begin, count) for begin, count in strips]
    assert [part.inside(window) for part in parts for window in range(part.windows)] == [
        axis.inside(window) for window in range(axis.windows)
    ]
