"""Phases of a transposed convolution: with channels last, each written to every other place of a whole."""

import pytest
from tuning_support import agrees, loaded, run, run_tuned

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.normalise.convolution.channels_last import use_channels_last
from autotune.compiler.normalise.convolution.phases import mark_phases
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate

ROWS, COLUMNS = 5, 7  # of what is read; a kernel of 3 x 3 with steps of 2 reads one more
TAPS = [(2, 2), (2, 1), (1, 2), (1, 1)]


def padded(number, given, more, value):
    """A pad by zeros before and one behind, as the phase of so many taps reads; text and type."""
    n, channels, rows, columns = given
    down, across = more
    kind = f"tensor<{n}x{channels}x{rows + down}x{columns + across}xf32>"
    x = f"tensor<{n}x{channels}x{rows}x{columns}xf32>"
    text = f"""%c{number} = arith.constant {value} : f32
  %p{number} = tensor.pad %x low[0, 0, {down - 1}, {across - 1}] high[0, 0, 1, 1] {{
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %c{number} : f32
  }} : {x} to {kind}"""
    return text, kind


def joined(channels, filters, values=("0.0",) * 4):
    """Four phases of their own, one for all that start from one bias, concatenated, spread, and then doubled."""
    y = f"tensor<2x{filters}x{ROWS + 1}x{COLUMNS + 1}xf32>"
    lines, kernels = [], []
    for number, (down, across) in enumerate(TAPS):
        text, wide = padded(number, (2, channels, ROWS, COLUMNS), (down, across), values[number])
        kernel = f"tensor<{filters}x{channels}x{down}x{across}xf32>"
        kernels.append(f"%k{number}: {kernel}")
        lines.append(f"""{text}
  %r{number} = linalg.conv_2d_nchw_fchw ins(%p{number}, %k{number} : {wide}, {kernel}) outs(%start : {y}) -> {y}""")
    whole = f"tensor<2x{4 * filters}x{ROWS + 1}x{COLUMNS + 1}xf32>"
    concat = f"%all = tensor.concat dim(1) %r0, %r1, %r2, %r3 : ({y}, {y}, {y}, {y}) -> {whole}"
    order = f"2x2x2x{filters}", "[0, 3, 4, 1, 5, 2]", filters
    return written(channels, kernels, [broadcast(filters, y), *lines, concat], whole, order)


def dense(channels, filters):
    """One convolution that gives four phases, spread, and then doubled."""
    text, wide = padded(0, (2, channels, ROWS, COLUMNS), (2, 2), "0.0")
    kernel, y = (
        f"tensor<{4 * filters}x{channels}x2x2xf32>",
        f"tensor<2x{4 * filters}x{ROWS + 1}x{COLUMNS + 1}xf32>",
    )
    convolution = f"%all = linalg.conv_2d_nchw_fchw ins(%p0, %k0 : {wide}, {kernel}) outs(%start : {y}) -> {y}"
    lines = [broadcast(4 * filters, y), text, convolution]
    order = f"2x{filters}x2x2", "[0, 1, 4, 2, 5, 3]", filters
    return written(channels, [f"%k0: {kernel}"], lines, y, order)


def broadcast(filters, y):
    return f"""%none = tensor.empty() : {y}
  %start = linalg.broadcast ins(%bias : tensor<{filters}xf32>) outs(%none : {y}) dimensions = [0, 2, 3]"""


def written(channels, kernels, lines, whole, order):
    """The function of some lines, whose `%all` is split and spread."""
    split, permutation, made = order
    rows, columns, sizes = ROWS + 1, COLUMNS + 1, split.replace("x", ", ")
    bias = whole.split("x")[1] if "2x2x2x" not in split else made
    given = ", ".join([f"%x: tensor<2x{channels}x{ROWS}x{COLUMNS}xf32>", f"%bias: tensor<{bias}xf32>", *kernels])
    split = f"tensor<{split}x{rows}x{columns}xf32>"
    spread, y = (
        f"tensor<2x{made}x{rows}x2x{columns}x2xf32>",
        f"tensor<2x{made}x{2 * rows}x{2 * columns}xf32>",
    )
    body = "\n  ".join(lines)
    return f"""#id = affine_map<(a, b, c, d) -> (a, b, c, d)>
func.func @f({given}) -> {y} {{
  {body}
  %apart = tensor.expand_shape %all [[0], [1, 2, 3], [4], [5]] output_shape [{sizes}, {rows}, {columns}]
    : {whole} into {split}
  %room = tensor.empty() : {spread}
  %spread = linalg.transpose ins(%apart : {split}) outs(%room : {spread}) permutation = {permutation}
  %plane = tensor.collapse_shape %spread [[0], [1], [2, 3], [4, 5]] : {spread} into {y}
  %empty = tensor.empty() : {y}
  %twice = linalg.generic {{indexing_maps = [#id, #id],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins(%plane : {y}) outs(%empty : {y}) {{
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %a : f32
    linalg.yield %c : f32
  }} -> {y}
  return %twice : {y}
}}"""


def shuffled(channels, filters):
    """Two convolutions, concatenated, their channels taken in turn, as those of groups are."""
    x, y = f"tensor<2x{channels}x{ROWS + 2}x{COLUMNS + 2}xf32>", f"tensor<2x{filters}x{ROWS}x{COLUMNS}xf32>"
    kernel, whole = f"tensor<{filters}x{channels}x3x3xf32>", f"tensor<2x{2 * filters}x{ROWS}x{COLUMNS}xf32>"
    apart, turned = (f"tensor<2x{sizes}x{ROWS}x{COLUMNS}xf32>" for sizes in (f"2x{filters}", f"{filters}x2"))
    convolutions = "\n  ".join(
        f"%r{n} = linalg.conv_2d_nchw_fchw ins(%x, %k{n} : {x}, {kernel}) outs(%zeros : {y}) -> {y}" for n in range(2)
    )
    return f"""func.func @f(%x: {x}, %k0: {kernel}, %k1: {kernel}) -> {whole} {{
  %zero = arith.constant 0.0 : f32
  %none = tensor.empty() : {y}
  %zeros = linalg.fill ins(%zero : f32) outs(%none : {y}) -> {y}
  {convolutions}
  %all = tensor.concat dim(1) %r0, %r1 : ({y}, {y}) -> {whole}
  %apart = tensor.expand_shape %all [[0], [1, 2], [3], [4]] output_shape [2, 2, {filters}, {ROWS}, {COLUMNS}]
    : {whole} into {apart}
  %room = tensor.empty() : {turned}
  %turned = linalg.transpose ins(%apart : {apart}) outs(%room : {turned}) permutation = [0, 2, 1, 3, 4]
  %shuffled = tensor.collapse_shape %turned [[0], [1, 2], [3], [4]] : {turned} into {whole}
  return %shuffled : {whole}
}}"""


def turned(text):
    """A module as it is once its convolutions have channels last."""
    with context():
        module = parse(text, "mine")
        mark_phases(module)
        use_channels_last(module)
        assert module.operation.verify()
        return str(module)


@pytest.mark.parametrize("make", [joined, dense, shuffled])
@pytest.mark.parametrize(("channels", "filters"), [(24, 16), (17, 19)])
def test_phases_are_spread_with_channels_last_and_give_what_they_did(make, channels, filters, tmp_path):
    payload = loaded(tmp_path, make(channels, filters))
    inputs = payload.make_inputs(0)
    expected = run(payload, inputs, None, PLAIN)
    for seed in (None, 1):
        agrees(payload, run_tuned(payload, inputs, this_machine(), seed)[0], expected)


def test_each_phase_is_written_to_every_other_place_at_once(tmp_path):
    payload = loaded(tmp_path, joined(24, 16))
    assert turned(payload.text).count("[1, 2, 2, 1] : tensor<2x6x8x16xf32> into tensor<2x12x16x16xf32>") == 4
    assert turned(payload.text).count("tensor.pad") == 1
    text = compile_to("bufferized", payload, default_candidate(partition(payload), this_machine())).text
    assert "memref<2x12x16x16xf32>" in text
    assert "linalg.copy" not in text
    assert "memref.copy" not in text


def test_phases_of_one_convolution_are_turned_once(tmp_path):
    text = turned(loaded(tmp_path, dense(24, 16)).text)
    assert "permutation = [0, 3, 1, 4, 2, 5]" in text
    assert "tensor<2x64x6x8xf32>" not in text.partition("conv_2d_nhwc")[2]


def test_phases_padded_by_different_numbers_stay(tmp_path):
    text = turned(loaded(tmp_path, joined(24, 16, values=("0.0", "0.0", "1.0", "0.0"))).text)
    assert text.count("tensor.pad") == 4


def test_phases_of_few_filters_stay(tmp_path):
    assert "autotune.together" not in turned(loaded(tmp_path, joined(4, 2)).text)
