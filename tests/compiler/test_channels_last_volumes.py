"""Convolutions over volumes: with channels last from the first to the last of a net, and none of its layers between."""

import pytest
from tuning_support import agrees, loaded, run, run_tuned

from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.convolution.channels_last import use_channels_last
from autotune.compiler.normalise.convolution.phases import mark_phases
from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.host.machine import this_machine

GIVEN = (2, 5, 6, 7, 9)  # of what a net reads: batch, channels, depth, rows, columns


def kind(*sizes):
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


def start(name, number, *sizes):
    """A tensor of one number."""
    return f"""%{name}_n = arith.constant {number} : f32
  %{name}_e = tensor.empty() : {kind(*sizes)}
  %{name} = linalg.fill ins(%{name}_n : f32) outs(%{name}_e : {kind(*sizes)}) -> {kind(*sizes)}"""


def pool(combine, neutral, x, sizes):
    """A pool of 2 x 2 x 2 with steps of 2, as importers write one; text and sizes of the result."""
    n, c, *sides = sizes
    made = (n, c, *(side // 2 for side in sides))
    return (
        f"""{start("ends", neutral, *made)}
  %window = tensor.empty() : tensor<2x2x2xf32>
  %pooled = linalg.generic {{indexing_maps = [
    affine_map<(n, c, d, h, w, e, i, j) -> (n, c, d * 2 + e, h * 2 + i, w * 2 + j)>,
    affine_map<(n, c, d, h, w, e, i, j) -> (e, i, j)>, affine_map<(n, c, d, h, w, e, i, j) -> (n, c, d, h, w)>],
    iterator_types = [{", ".join(['"parallel"'] * 5 + ['"reduction"'] * 3)}]}}
    ins({x}, %window : {kind(*sizes)}, tensor<2x2x2xf32>) outs(%ends : {kind(*made)}) {{
  ^bb0(%v: f32, %u: f32, %o: f32):
    %m = {combine} %v, %o : f32
    linalg.yield %m : f32
  }} -> {kind(*made)}""",
        made,
    )


def net(filters, combine="arith.maximumf", neutral="0xFF800000"):
    """A padded convolution, an offset of each channel and a bound, a pool, and a convolution with steps."""
    n, channels, *sides = GIVEN
    padded, hidden = (n, channels, *(side + 2 for side in sides)), (n, filters, *sides)
    pooling, reduced = pool(combine, neutral, "%bounded", hidden)
    made = (n, filters, *(side - 1 for side in reduced[2:-1]), (reduced[-1] - 2) // 2 + 1)
    first, second = kind(filters, channels, 3, 3, 3), kind(filters, filters, 2, 2, 2)
    return f"""#id = affine_map<(n, c, d, h, w) -> (n, c, d, h, w)>
#channel = affine_map<(n, c, d, h, w) -> (c)>
func.func @f(%x: {kind(*GIVEN)}, %k: {first}, %b: {kind(filters)}, %l: {second}) -> {kind(*made)} {{
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1, 1] high[0, 0, 1, 1, 1] {{
  ^bb0(%a0: index, %a1: index, %a2: index, %a3: index, %a4: index):
    tensor.yield %zero : f32
  }} : {kind(*GIVEN)} to {kind(*padded)}
  {start("y", "0.0", *hidden)}
  %h = linalg.conv_3d_ncdhw_fcdhw ins(%p, %k : {kind(*padded)}, {first}) outs(%y : {kind(*hidden)}) -> {kind(*hidden)}
  %e = tensor.empty() : {kind(*hidden)}
  %bounded = linalg.generic {{indexing_maps = [#id, #channel, #id],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}}
    ins(%h, %b : {kind(*hidden)}, {kind(filters)}) outs(%e : {kind(*hidden)}) {{
  ^bb0(%v: f32, %c: f32, %o: f32):
    %s = arith.addf %v, %c : f32
    %m = arith.maximumf %s, %zero : f32
    linalg.yield %m : f32
  }} -> {kind(*hidden)}
  {pooling}
  {start("z", "0.0", *made)}
  %r = linalg.conv_3d_ncdhw_fcdhw
    {{strides = dense<[1, 1, 2]> : tensor<3xi64>, dilations = dense<1> : tensor<3xi64>}}
    ins(%pooled, %l : {kind(*reduced)}, {second}) outs(%z : {kind(*made)}) -> {kind(*made)}
  return %r : {kind(*made)}
}}"""


def padded_convolution(channels, filters):
    """A convolution of wide padding, as of a transposed one."""
    x, p = kind(1, channels, 8, 8, 12), kind(1, channels, 12, 12, 20)
    k, y = kind(filters, channels, 3, 3, 5), kind(1, filters, 10, 10, 16)
    return f"""func.func @f(%x: {x}, %k: {k}) -> {y} {{
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 2, 2, 4] high[0, 0, 2, 2, 4] {{
  ^bb0(%a0: index, %a1: index, %a2: index, %a3: index, %a4: index):
    tensor.yield %zero : f32
  }} : {x} to {p}
  {start("z", "0.0", 1, filters, 10, 10, 16)}
  %r = linalg.conv_3d_ncdhw_fcdhw ins(%p, %k : {p}, {k}) outs(%z : {y}) -> {y}
  return %r : {y}
}}"""


def phases(channels, filters):
    """Four phases of a transposed convolution with steps of 2, 1 and 2, concatenated and spread."""
    sides, strides = (4, 5, 6), (2, 1, 2)
    x, y = kind(2, channels, *sides), kind(2, filters, *sides)
    whole, split = kind(2, 4 * filters, *sides), kind(2, *strides, filters, *sides)
    spread = kind(2, filters, *(size for pair in zip(sides, strides, strict=True) for size in pair))
    result = kind(2, filters, *(side * stride for side, stride in zip(sides, strides, strict=True)))
    kernel = kind(filters, channels, 2, 2, 2)
    lines = []
    for number in range(4):
        low = [0, 0, number // 2, 0, number % 2]
        high = [0, 0, *(1 - before for before in low[2:])]
        padded = kind(2, channels, *(side + 1 for side in sides))
        lines.append(f"""%p{number} = tensor.pad %x low{low} high{high} {{
  ^bb0(%a0: index, %a1: index, %a2: index, %a3: index, %a4: index):
    tensor.yield %zero : f32
  }} : {x} to {padded}
  %r{number} = linalg.conv_3d_ncdhw_fcdhw ins(%p{number}, %k{number} : {padded}, {kernel}) outs(%start : {y}) -> {y}""")
    kernels = ", ".join(f"%k{number}: {kernel}" for number in range(4))
    body = "\n  ".join(lines)
    return f"""func.func @f(%x: {x}, {kernels}) -> {result} {{
  %zero = arith.constant 0.0 : f32
  {start("start", "0.0", 2, filters, *sides)}
  {body}
  %all = tensor.concat dim(1) %r0, %r1, %r2, %r3 : ({y}, {y}, {y}, {y}) -> {whole}
  %apart = tensor.expand_shape %all [[0], [1, 2, 3, 4], [5], [6], [7]]
    output_shape [2, 2, 1, 2, {filters}, 4, 5, 6] : {whole} into {split}
  %room = tensor.empty() : {spread}
  %spread = linalg.transpose ins(%apart : {split}) outs(%room : {spread}) permutation = [0, 4, 5, 1, 6, 2, 7, 3]
  %plane = tensor.collapse_shape %spread [[0], [1], [2, 3], [4, 5], [6, 7]] : {spread} into {result}
  return %plane : {result}
}}"""


def grouped(groups, channels, filters, *, strides=(1, 2, 1), dilation=1, combine="arith.addf"):
    """A convolution in groups, each of so many channels and filters, as importers write one."""
    sides, taps = (5, 9, 8), (2, 3, 3)
    made = [(side - dilation * (tap - 1) - 1) // step + 1 for side, tap, step in zip(sides, taps, strides, strict=True)]
    x, y = kind(2, groups * channels, *sides), kind(2, groups * filters, *made)
    xs, ys = kind(2, groups, channels, *sides), kind(2, groups, filters, *made)
    k, ks = kind(groups * filters, channels, *taps), kind(groups, filters, channels, *taps)
    reads = ", ".join(f"{a} * {step} + {b} * {dilation}" for a, b, step in zip("dhw", "eij", strides, strict=True))
    loops = "n, g, f, d, h, w, c, e, i, j"
    sizes = [[2, groups, channels, *sides], [groups, filters, channels, *taps], [2, groups, filters, *made]]
    return f"""func.func @f(%x: {x}, %k: {k}, %b: {kind(groups * filters)}) -> {y} {{
  %e = tensor.empty() : {y}
  %start = linalg.broadcast ins(%b : {kind(groups * filters)}) outs(%e : {y}) dimensions = [0, 2, 3, 4]
  %xs = tensor.expand_shape %x [[0], [1, 2], [3], [4], [5]] output_shape {sizes[0]} : {x} into {xs}
  %ks = tensor.expand_shape %k [[0, 1], [2], [3], [4], [5]] output_shape {sizes[1]} : {k} into {ks}
  %ys = tensor.expand_shape %start [[0], [1, 2], [3], [4], [5]] output_shape {sizes[2]} : {y} into {ys}
  %r = linalg.generic {{indexing_maps = [affine_map<({loops}) -> (n, g, c, {reads})>,
    affine_map<({loops}) -> (g, f, c, e, i, j)>, affine_map<({loops}) -> (n, g, f, d, h, w)>],
    iterator_types = [{", ".join(['"parallel"'] * 6 + ['"reduction"'] * 4)}]}}
    ins(%xs, %ks : {xs}, {ks}) outs(%ys : {ys}) {{
  ^bb0(%v: f32, %u: f32, %o: f32):
    %m = arith.mulf %v, %u : f32
    %s = {combine} %m, %o : f32
    linalg.yield %s : f32
  }} -> {ys}
  %z = tensor.collapse_shape %r [[0], [1, 2], [3], [4], [5]] : {ys} into {y}
  return %z : {y}
}}"""


def converted(text):
    """A module as it is once its convolutions have channels last."""
    with context():
        module = parse(text, "mine")
        mark_phases(module)
        use_channels_last(module)
        assert module.operation.verify()
        return str(module)


MAXIMA, SUMS = ("arith.maximumf", "0xFF800000"), ("arith.addf", "0.0")


@pytest.mark.parametrize("reduced", [MAXIMA, SUMS])
@pytest.mark.parametrize("filters", [16, 3])
def test_a_net_gives_what_it_did(filters, reduced, tmp_path):
    payload = loaded(tmp_path, net(filters, *reduced))
    inputs = payload.make_inputs(0)
    expected = run(payload, inputs, None, PLAIN)
    for seed in (None, 1):
        agrees(payload, run_tuned(payload, inputs, this_machine(), seed)[0], expected)


def test_between_convolutions_nothing_is_transposed(tmp_path):
    text = converted(loaded(tmp_path, net(16)).text)
    assert text.count("conv_3d_ndhwc_dhwcf") == 2
    assert "conv_3d_ncdhw" not in text
    assert text.count("linalg.generic") == 6  # four transposes, the bound and the pool


@pytest.mark.parametrize(("filters", "is_converted"), [(16, True), (2, False)])
def test_volumes_are_converted_where_fewer_vectors_are_multiplied(filters, is_converted, tmp_path):
    payload = loaded(tmp_path, padded_convolution(16, filters))
    assert ("conv_3d_ndhwc" in converted(payload.text)) == is_converted


def test_few_filters_at_the_end_stay_along_rows(tmp_path):
    text = converted(loaded(tmp_path, phases(16, 1)).text)
    assert "conv_3d_ndhwc" not in text
    assert "autotune.together" not in text


@pytest.mark.parametrize(("channels", "filters"), [(24, 16), (5, 19)])
def test_phases_are_written_to_every_other_position_at_once(channels, filters, tmp_path):
    payload = loaded(tmp_path, phases(channels, filters))
    text = converted(payload.text)
    assert text.count("[1, 2, 1, 2, 1] : " + kind(2, 4, 5, 6, filters)) == 4
    assert text.count("tensor.pad") == 1 + 3  # the fourth is wider than each other along no dimension
    inputs = payload.make_inputs(0)
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], run(payload, inputs, None, PLAIN))


@pytest.mark.parametrize("more", [{}, {"strides": (2, 1, 2)}, {"strides": (1, 1, 1), "dilation": 2}])
@pytest.mark.parametrize(("groups", "channels", "filters"), [(3, 4, 16), (4, 2, 1), (2, 1, 5)])
def test_groups_have_channels_last(groups, channels, filters, more, tmp_path):
    payload = loaded(tmp_path, grouped(groups, channels, filters, **more))
    assert kind(2, 5, 9, 8, groups, channels) in converted(payload.text)
    inputs = payload.make_inputs(0)
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], run(payload, inputs, None, PLAIN))


def test_what_is_no_sum_of_products_stays(tmp_path):
    payload = loaded(tmp_path, grouped(3, 4, 5, combine="arith.maximumf"))
    assert kind(2, 5, 9, 8, 3, 4) not in converted(payload.text)
