"""Windows along lines: ops on planes of one row compute the same, chains stay on planes, and a family takes each."""

import pytest
from tuning_support import agrees, loaded, run

from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.convolution.conv_1d import make_convolutions_2d
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.registry import family_for

LINE, PADDED, COLUMN = "tensor<2x6x20xf32>", "tensor<2x6x23xf32>", "tensor<2x6x23x1xf32>"
PAD = f"""%zero = arith.constant 0.0 : f32
  %xp = tensor.pad %x low[0, 0, 2] high[0, 0, 1] {{
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  }} : {LINE} to {PADDED}"""


def start(kind):
    """Zeros, to add to."""
    return f"""%e = tensor.empty() : {kind}
  %start = linalg.fill ins(%zero : f32) outs(%e : {kind}) -> {kind}"""


def bias(kind, dimensions):
    """A number of each channel, everywhere."""
    return f"""%e = tensor.empty() : {kind}
  %start = linalg.broadcast ins(%b : tensor<8xf32>) outs(%e : {kind}) dimensions = {dimensions}"""


def windows(op, kernel, result, steps=(1, 1), x=PADDED):
    """An op with windows along lines, from %start, of %xp and %w."""
    said = f"strides = dense<{steps[0]}> : tensor<1xi64>, dilations = dense<{steps[1]}> : tensor<1xi64>"
    return f"%r = linalg.{op} {{{said}}} ins(%xp, %w : {x}, {kernel}) outs(%start : {result}) -> {result}"


def function(result, *body, kernel="", more=""):
    weight = f", %w: {kernel}" if kernel else ""
    lines = "\n  ".join(body)
    return f"func.func @f(%x: {LINE}{weight}{more}) -> {result} {{\n  {lines}\n  return %r : {result}\n}}"


BIAS = ", %b: tensor<8xf32>"
CONV, WIDE = "tensor<8x6x3xf32>", "tensor<2x8x10xf32>"
DEPTHWISE = "tensor<6x4x1xf32>"
AS_COLUMN = f"%c = tensor.expand_shape %xp [[0], [1], [2, 3]] output_shape [2, 6, 23, 1] : {PADDED} into {COLUMN}"
NWC = f"""%t = tensor.empty() : tensor<2x23x6xf32>
  %xt = linalg.transpose ins(%xp : {PADDED}) outs(%t : tensor<2x23x6xf32>) permutation = [0, 2, 1]"""
RELU = f"""%y = linalg.generic {{indexing_maps = [affine_map<(n, c, w) -> (n, c, w)>,
    affine_map<(n, c, w) -> (n, c, w)>],
    iterator_types = ["parallel", "parallel", "parallel"]}} ins(%r0 : {WIDE}) outs(%e : {WIDE}) {{
  ^bb0(%v: f32, %o: f32):
    %m = arith.maximumf %v, %zero : f32
    linalg.yield %m : f32
  }} -> {WIDE}
  %one = tensor.empty() : tensor<2xf32>
  %e1 = tensor.empty() : tensor<2x8x5xf32>
  %low = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2x8x5xf32>) -> tensor<2x8x5xf32>
  %r = linalg.pooling_ncw_max {{strides = dense<2> : tensor<1xi64>, dilations = dense<1> : tensor<1xi64>}}
    ins(%y, %one : {WIDE}, tensor<2xf32>) outs(%low : tensor<2x8x5xf32>) -> tensor<2x8x5xf32>"""
TEXTS = {
    "convolution": function(
        WIDE, PAD, bias(WIDE, [0, 2]), windows("conv_1d_ncw_fcw", CONV, WIDE, (2, 2)), kernel=CONV, more=BIAS
    ),
    "chain": function(
        "tensor<2x8x5xf32>",
        PAD,
        start(WIDE),
        windows("conv_1d_ncw_fcw", CONV, WIDE, (2, 2)).replace("%r", "%r0"),
        RELU,
        kernel=CONV,
    ),
    "channels last": function(
        "tensor<2x10x8xf32>",
        PAD,
        NWC,
        start("tensor<2x10x8xf32>"),
        windows("conv_1d_nwc_wcf", "tensor<3x6x8xf32>", "tensor<2x10x8xf32>", (2, 2), "tensor<2x23x6xf32>").replace(
            "%xp", "%xt"
        ),
        kernel="tensor<3x6x8xf32>",
    ),
    "depthwise": function(
        "tensor<2x6x20xf32>",
        PAD,
        start(LINE),
        windows("depthwise_conv_1d_ncw_cw", "tensor<6x4xf32>", LINE),
        kernel="tensor<6x4xf32>",
    ),
    "depthwise on a column": function(
        "tensor<2x6x20xf32>",
        PAD,
        AS_COLUMN,
        start("tensor<2x6x20x1xf32>"),
        f"""%r0 = linalg.depthwise_conv_2d_nchw_chw {{strides = dense<1> : tensor<2xi64>, dilations = dense<1>
    : tensor<2xi64>}} ins(%c, %w : {COLUMN}, {DEPTHWISE}) outs(%start : tensor<2x6x20x1xf32>) -> tensor<2x6x20x1xf32>
  %r = tensor.collapse_shape %r0 [[0], [1], [2, 3]] : tensor<2x6x20x1xf32> into tensor<2x6x20xf32>""",
        kernel=DEPTHWISE,
    ),
    "groups on a column": function(
        "tensor<2x8x21xf32>",
        PAD,
        AS_COLUMN,
        bias("tensor<2x8x21x1xf32>", [0, 2, 3]),
        f"""%xs = tensor.expand_shape %c [[0], [1, 2], [3], [4]] output_shape [2, 2, 3, 23, 1]
    : {COLUMN} into tensor<2x2x3x23x1xf32>
  %s = tensor.expand_shape %start [[0], [1, 2], [3], [4]] output_shape [2, 2, 4, 21, 1]
    : tensor<2x8x21x1xf32> into tensor<2x2x4x21x1xf32>
  %g = linalg.conv_2d_ngchw_gfchw {{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
    ins(%xs, %w : tensor<2x2x3x23x1xf32>, tensor<2x4x3x3x1xf32>) outs(%s : tensor<2x2x4x21x1xf32>)
    -> tensor<2x2x4x21x1xf32>
  %r = tensor.collapse_shape %g [[0], [1, 2], [3, 4]] : tensor<2x2x4x21x1xf32> into tensor<2x8x21xf32>""",
        kernel="tensor<2x4x3x3x1xf32>",
        more=BIAS,
    ),
}
for pool in ("max", "sum"):
    kind = "tensor<2x6x10xf32>"
    TEXTS[pool] = function(
        kind,
        PAD,
        start(kind),
        "%w = tensor.empty() : tensor<3xf32>",
        windows(f"pooling_ncw_{pool}", "tensor<3xf32>", kind, (2, 2)),
    )


@pytest.mark.parametrize("name", TEXTS)
def test_ops_on_planes_of_one_row_compute_what_those_along_lines_do(name, tmp_path):
    payload = loaded(tmp_path, TEXTS[name])
    with context():
        module = parse(payload.text, "mine")
        make_convolutions_2d(module)
        module.operation.verify()
        text = str(module)
    assert "_1d_" not in text
    assert "_ncw_" not in text
    assert "23x1xf32>" not in text, "no column is left"
    inputs = payload.make_inputs(0)
    expected = run(payload, inputs, None, PLAIN)
    agrees(payload, run(payload, inputs, None, PLAIN, text=text), expected)


@pytest.mark.parametrize("name", TEXTS)
def test_a_family_takes_every_op_along_lines(name, tmp_path):
    assert all(family_for(task) is not None for task in partition(loaded(tmp_path, TEXTS[name])).tasks)


def test_what_lies_between_two_ops_along_lines_stays_on_planes(tmp_path):
    with context():
        module = parse(loaded(tmp_path, TEXTS["chain"]).text, "mine")
        make_convolutions_2d(module)
        assert str(module).count("tensor.expand_shape") == 3, "of the input, the kernel and the window"
        assert str(module).count("tensor.collapse_shape") == 1
