"""Ops that read windows: any kernel, step, gap and padding, alone and with what follows, is what NumPy computes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tuning_support import MACHINES, agrees, loaded, run, run_tuned, tensor, tensor_payload

from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import family_for, load_payload
from schedules.sliding_window import SLIDING_WINDOW

SIDES = st.integers(1, 3)


def conv_text(shape, kernel, *, stride, gap, pad, groups=1):
    """A convolution as importers write it: a pad, a bias it starts from, and channels in groups if there are some."""
    (n, c, h, w), (f, _, i, j) = shape, kernel
    high, wide = h + 2 * pad, w + 2 * pad
    out = (n, f, (high - gap * (i - 1) - 1) // stride + 1, (wide - gap * (j - 1) - 1) // stride + 1)
    kinds = tensor(shape), tensor(kernel), tensor((f,)), tensor(out), tensor((n, c, high, wide))
    x, k, b, y, padded = kinds
    return f"""func.func @f(%x: {x}, %k: {k} {{autotune.role = "weight"}}, %b: {b}) -> {y} {{
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, {pad}, {pad}] high[0, 0, {pad}, {pad}] {{
  ^bb0(%a0: index, %a1: index, %a2: index, %a3: index):
    tensor.yield %zero : f32
  }} : {x} to {padded}
  %e = tensor.empty() : {y}
  %start = linalg.broadcast ins(%b : {b}) outs(%e : {y}) dimensions = [0, 2, 3]
{sums(groups, (n, c, high, wide), kernel, out, f"strides = dense<{stride}> : tensor<2xi64>, dilations = dense<{gap}>")}
  return %r : {y}
}}"""


def sums(groups, x, kernel, out, steps):
    """The named op of a convolution, between those that split channels into groups and join them."""
    kinds = [tensor(shape) for shape in (x, kernel, out)]
    if groups == 1:
        op = f"linalg.conv_2d_nchw_fchw {{{steps} : tensor<2xi64>}}"
        return f"  %r = {op} ins(%p, %k : {kinds[0]}, {kinds[1]}) outs(%start : {kinds[2]}) -> {kinds[2]}"
    split = [(s[0], groups, s[1] // groups, *s[2:]) for s in (x, out)]
    split.insert(1, (groups, kernel[0] // groups, *kernel[1:]))
    wide = [tensor(shape) for shape in split]
    lines = []
    for name, kind, shape, into in zip("pks", kinds, split, wide, strict=True):
        dims = "[[0, 1], [2], [3], [4]]" if name == "k" else "[[0], [1, 2], [3], [4]]"
        source = "start" if name == "s" else name
        lines.append(
            f"  %{name}g = tensor.expand_shape %{source} {dims} output_shape {list(shape)} : {kind} into {into}"
        )
    op = f"linalg.conv_2d_ngchw_gfchw {{{steps} : tensor<2xi64>}}"
    lines.append(f"  %w = {op} ins(%pg, %kg : {wide[0]}, {wide[1]}) outs(%sg : {wide[2]}) -> {wide[2]}")
    lines.append(f"  %r = tensor.collapse_shape %w [[0], [1, 2], [3], [4]] : {wide[2]} into {kinds[2]}")
    return "\n".join(lines)


def convolution(x, kernel, bias, *, stride=1, gap=1, pad=0, groups=1):
    """A convolution (n, c, h, w) with (f, c, i, j), place by place, in float64."""
    if groups > 1:
        parts = zip(*(np.split(*about) for about in ((x, groups, 1), (kernel, groups), (bias, groups))), strict=True)
        return np.concatenate([convolution(*part, stride=stride, gap=gap, pad=pad) for part in parts], axis=1)
    x = np.pad(x.astype("f8"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    down, across = kernel.shape[2:]
    rows = (x.shape[2] - gap * (down - 1) - 1) // stride + 1
    columns = (x.shape[3] - gap * (across - 1) - 1) // stride + 1
    out = np.zeros((x.shape[0], kernel.shape[0], rows, columns)) + bias[:, None, None]
    for i in range(down):
        for j in range(across):
            part = x[:, :, i * gap :: stride, j * gap :: stride][:, :, :rows, :columns]
            out += np.einsum("nchw,fc->nfhw", part, kernel[:, :, i, j])
    return out


def run_windows(payload, inputs, machine, seed=None, groups=1):
    """What a tuned payload writes; where a task has no family, there must be a reason."""
    got, parts = run_tuned(payload, inputs, machine, seed)
    if any(family_for(task) is None for task in parts.tasks):
        few = (*payload.arguments[1].shape, *payload.arguments[-1].shape[2:], payload.arguments[1].shape[0] // groups)
        assert 1 in few, "where there is one filter a group, one channel or one row, nothing lies side by side"
    return got


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_convolution_is_what_numpy_computes(data, tmp_path):
    draw = data.draw
    groups, batch = draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([1, 1, 2]))
    channels, filters = groups * draw(st.integers(1, 5)), groups * draw(st.integers(1, 37))
    kernel = (draw(SIDES), draw(SIDES))
    steps = {"stride": draw(SIDES), "gap": draw(SIDES), "pad": draw(st.integers(0, 2)), "groups": groups}
    least = [steps["gap"] * (side - 1) + 1 for side in kernel]
    sides = [draw(st.integers(max(1, low - 2 * steps["pad"]), low + 19)) for low in least]
    shape, weights = (batch, channels, *sides), (filters, channels // groups, *kernel)
    text = conv_text(shape, weights, **steps)
    payload = loaded(tmp_path, text)
    inputs = payload.make_inputs(0)
    seed = draw(st.one_of(st.none(), st.integers(0, 99)))
    got = run_windows(payload, inputs, this_machine(), seed, groups)
    x, k, b = (inputs[argument.name] for argument in payload.arguments[:3])
    agrees(payload, got, [convolution(x, k, b, **steps)])


@pytest.mark.parametrize(("width", "side", "stride"), [(2, 2, 1), (3, 1, 2)], ids=["a single place", "every second"])
def test_a_grouped_convolution_of_hardly_any_place_is_right(tmp_path, width, side, stride):
    steps = {"stride": stride, "gap": 1, "pad": 0, "groups": 2}
    payload = loaded(tmp_path, conv_text((1, 2, 1, width), (4, 1, 1, side), **steps))
    inputs = payload.make_inputs(0)
    x, k, b = (inputs[argument.name] for argument in payload.arguments[:3])
    agrees(payload, run_windows(payload, inputs, this_machine()), [convolution(x, k, b, **steps)])


FOLLOWS = {
    "relu": ("arith.maximumf %v, %zero : f32", lambda y, x: np.maximum(y, 0)),
    "what goes past it": ("arith.addf %v, %past : f32", lambda y, x: y + x),
}


@pytest.mark.parametrize("name", FOLLOWS)
@pytest.mark.parametrize(("filters", "columns"), [(4, 9), (37, 9), (64, 13)])
def test_what_follows_a_convolution_is_computed_with_it(name, filters, columns):
    scalar, expected = FOLLOWS[name]
    shapes = (1, 6, columns, filters), (3, 3, filters, filters), (1, 4, columns - 2, filters)
    x, kernel, y = map(tensor, shapes)
    body = f"""%zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : {y}
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : {y}) -> {y}
    %r = linalg.conv_2d_nhwc_hwcf ins(%x, %k : {x}, {kernel}) outs(%zeros : {y}) -> {y}
    %inside = tensor.extract_slice %x[0, 1, 1, 0] [1, 4, {columns - 2}, {filters}] [1, 1, 1, 1] : {x} to {y}
    %result = linalg.map ins(%r, %inside : {y}, {y}) outs(%empty : {y}) (%v: f32, %past: f32, %o: f32) {{
      %u = {scalar}
      linalg.yield %u : f32
    }}"""
    roles = zip("xky", ("input", "weight", "output"), shapes, strict=True)
    payload = tensor_payload("tail", [Argument(*about) for about in roles], body, reduction=9 * filters)
    (group,) = partition(payload).tasks
    assert [member.lanes is not None for member in group.ops] == [False, True]
    inputs = payload.make_inputs(0)
    whole = convolution(inputs["x"].transpose(0, 3, 1, 2), inputs["k"].transpose(3, 2, 0, 1), np.zeros(filters))
    inside = inputs["x"][:, 1:-1, 1:-1].astype("f8")
    for seed in (None, 1):
        got = run_windows(payload, inputs, this_machine(), seed)
        agrees(payload, got, [expected(whole.transpose(0, 2, 3, 1), inside)])


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.tuples(st.just(1), st.integers(1, 40), st.just(11), st.sampled_from([9, 21])),
    window=st.tuples(SIDES, SIDES, st.integers(0, 1)),
    seed=st.none() | st.integers(0, 9),
)
def test_a_depthwise_convolution_is_what_numpy_computes(shape, window, seed, tmp_path):
    (side, stride, pad), (_, channels, _, wide) = window, shape
    x, k, out = shape, (channels, side, side), (11 + 2 * pad - side) // stride + 1
    y = tensor((1, channels, out, (wide + 2 * pad - side) // stride + 1))
    padded = tensor((1, channels, 11 + 2 * pad, wide + 2 * pad))
    payload = loaded(
        tmp_path,
        f"""func.func @f(%x: {tensor(x)}, %k: {tensor(k)}) -> {y} {{
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, {pad}, {pad}] high[0, 0, {pad}, {pad}] {{
  ^bb0(%a0: index, %a1: index, %a2: index, %a3: index):
    tensor.yield %zero : f32
  }} : {tensor(x)} to {padded}
  %e = tensor.empty() : {y}
  %z = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
  %r = linalg.depthwise_conv_2d_nchw_chw {{strides = dense<{stride}> : tensor<2xi64>,
    dilations = dense<1> : tensor<2xi64>}} ins(%p, %k : {padded}, {tensor(k)}) outs(%z : {y}) -> {y}
  return %r : {y}
}}""",
    )
    inputs = payload.make_inputs(0)
    given_x, given_k = (inputs[argument.name] for argument in payload.arguments[:2])
    whole = np.zeros((channels, channels, side, side))
    whole[np.arange(channels), np.arange(channels)] = given_k
    expected = convolution(given_x, whole, np.zeros(channels), stride=stride, gap=1, pad=pad)
    agrees(payload, run_windows(payload, inputs, this_machine(), seed), [expected])


def test_kernels_that_are_weights_are_stored_as_tiles_read_them(tmp_path):
    text = conv_text((1, 5, 9, 9), (37, 5, 3, 3), stride=1, gap=1, pad=0)
    payload = loaded(tmp_path, text)
    task = next(task for task in partition(payload).tasks if task.root.lanes is not None)
    family = family_for(task)
    for machine in MACHINES.values():
        config = family.default(task, machine)
        space = family.space(task, machine)
        assert space.broken_constraint(config) is None
        assert config["width"] % machine.lanes == 0
        vectors = config["width"] // machine.lanes
        assert (config["rows"] + 1) * vectors < machine.vector_registers


def test_the_factor_of_a_channel_is_computed_once_not_at_every_place():
    kinds = tensor((5, 6, 32)), tensor((32,))
    places, channels = "affine_map<(h, w, c) -> (h, w, c)>", "affine_map<(h, w, c) -> (c)>"
    body = f"""%few = tensor.empty() : {kinds[1]}
    %factor = linalg.rsqrt ins(%v : {kinds[1]}) outs(%few : {kinds[1]}) -> {kinds[1]}
    %empty = tensor.empty() : {kinds[0]}
    %result = linalg.generic {{indexing_maps = [{places}, {channels}, {places}],
      iterator_types = ["parallel", "parallel", "parallel"]}} ins(%x, %factor : {kinds[0]}, {kinds[1]})
      outs(%empty : {kinds[0]}) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.mulf %a, %b : f32
      linalg.yield %c : f32
    }} -> {kinds[0]}"""
    arguments = [Argument("x", "input", (5, 6, 32)), Argument("v", "input", (32,), low=0.5)]
    payload = tensor_payload("scaled", [*arguments, Argument("y", "output", (5, 6, 32))], body)
    assert [task.nest.sizes for task in partition(payload).tasks] == [(32,), (5, 6, 32)]
    inputs = payload.make_inputs(0)
    expected = inputs["x"].astype("f8") / np.sqrt(inputs["v"].astype("f8"))
    agrees(payload, run_windows(payload, inputs, this_machine()), [expected])


def test_what_a_product_reads_besides_is_computed_before_it(tmp_path):
    """A block of MobileOne: a branch adds what products of all channels read, so that no block of channels has it."""
    image, kernel, square, wide = (tensor(s) for s in ((1, 8, 8, 48), (3, 3, 48), (1, 1, 48, 48), (1, 10, 10, 48)))
    same = 'indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]'
    product = f"ins(%t, %K : {image}, {square}) outs(%zeros : {image}) -> {image}"
    payload = loaded(
        tmp_path,
        f"""#id = affine_map<(a, b, c, d) -> (a, b, c, d)>
        func.func @f(%x: {wide}, %k: {kernel}, %v: {square}, %w: {square}) -> {image} {{
          %zero = arith.constant 0.0 : f32
          %e = tensor.empty() : {image}
          %zeros = linalg.fill ins(%zero : f32) outs(%e : {image}) -> {image}
          %d = linalg.depthwise_conv_2d_nhwc_hwc ins(%x, %k : {wide}, {kernel}) outs(%zeros : {image}) -> {image}
          %t = linalg.exp ins(%d : {image}) outs(%e : {image}) -> {image}
          %p = linalg.conv_2d_nhwc_hwcf {product.replace("%K", "%v")}
          %q = linalg.conv_2d_nhwc_hwcf {product.replace("%K", "%w")}
          %r = linalg.generic {{{same}}} ins(%t, %p, %q : {image}, {image}, {image}) outs(%e : {image}) {{
          ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
            %ab = arith.addf %a, %b : f32
            %abc = arith.addf %ab, %c : f32
            linalg.yield %abc : f32
          }} -> {image}
          return %r : {image}
        }}""",
    )
    assert [len(task.ops) for task in partition(payload).tasks] == [2, 3]
    inputs = payload.make_inputs(0)
    x, k, v, w = (inputs[argument.name].astype("f8") for argument in payload.arguments[:4])
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    t = np.exp(np.einsum("nhwcij,ijc->nhwc", windows, k))
    expected = t + t @ v[0, 0] + t @ w[0, 0]
    agrees(payload, run_windows(payload, inputs, this_machine()), [expected])


def test_a_mean_over_all_places_is_computed_alone_and_right():
    kinds = tensor((5, 6, 32)), tensor((32,))
    places, channels = "affine_map<(c, h, w) -> (h, w, c)>", "affine_map<(c, h, w) -> (c)>"
    body = f"""%zero = arith.constant 0.0 : f32
    %few = tensor.empty() : {kinds[1]}
    %zeros = linalg.fill ins(%zero : f32) outs(%few : {kinds[1]}) -> {kinds[1]}
    %factor = linalg.rsqrt ins(%v : {kinds[1]}) outs(%few : {kinds[1]}) -> {kinds[1]}
    %result = linalg.generic {{indexing_maps = [{places}, {channels}, {channels}],
      iterator_types = ["parallel", "reduction", "reduction"]}} ins(%x, %factor : {kinds[0]}, {kinds[1]})
      outs(%zeros : {kinds[1]}) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %c = arith.mulf %a, %b : f32
      %s = arith.addf %o, %c : f32
      linalg.yield %s : f32
    }} -> {kinds[1]}"""
    arguments = [Argument("x", "input", (5, 6, 32)), Argument("v", "input", (32,), low=0.5)]
    payload = tensor_payload("mean", [*arguments, Argument("y", "output", (32,))], body, reduction=30)
    tasks = partition(payload).tasks
    assert all(not task.is_group and family_for(task) is not None for task in tasks)
    inputs = payload.make_inputs(0)
    expected = inputs["x"].astype("f8").sum((0, 1)) / np.sqrt(inputs["v"].astype("f8"))
    agrees(payload, run_windows(payload, inputs, this_machine()), [expected])


def test_what_follows_the_bias_of_a_convolution_of_one_place_is_part_of_its_product(tmp_path):
    clipped = """%f = tensor.empty() : tensor<2x6x4x5xf32>
  %m = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%r : tensor<2x6x4x5xf32>) outs(%f : tensor<2x6x4x5xf32>) {
  ^bb0(%v: f32, %_: f32):
    %c = arith.maximumf %v, %zero : f32
    linalg.yield %c : f32
  } -> tensor<2x6x4x5xf32>
  return %m"""
    text = conv_text((2, 8, 4, 5), (6, 8, 1, 1), stride=1, gap=1, pad=0).replace("return %r", clipped)
    payload = loaded(tmp_path, f"#id = affine_map<(a, b, c, d) -> (a, b, c, d)>\n{text}")
    (task,) = partition(payload).tasks
    assert len(task.ops) == 2, "the product, and what is done to each of its elements"
    inputs = payload.make_inputs(0)
    x, k, b = (inputs[argument.name] for argument in payload.arguments[:3])
    got, _ = run_tuned(payload, inputs, this_machine())
    agrees(payload, got, [np.maximum(convolution(x, k, b, stride=1, gap=1, pad=0, groups=1), 0)])


@pytest.mark.parametrize("spec", ["conv,layout=nhwc,size=6", "resnet_block,layout=nhwc,size=6"])
def test_the_next_panel_of_a_kernel_beyond_l2_is_fetched_while_one_is_worked_on(spec):
    payload, machine = load_payload(f"{spec},channels=40,filters=80"), replace(this_machine(), l2_bytes=1 << 16)
    parts = partition(payload)
    tasks = [task for task in parts.tasks if family_for(task) is SLIDING_WINDOW]
    ahead = [SLIDING_WINDOW.default(task, machine) for task in tasks]
    assert [config["prefetch"] for config in ahead if "prefetch" in config] == [True] * len(tasks)
    inputs, found, texts = payload.make_inputs(0), [], []
    for prefetch in (True, False):
        steps = []
        for task in parts.tasks:
            family = family_for(task)
            config = family.default(task, machine)
            steps.append(write_step(task, family, config | ({"prefetch": prefetch} if task in tasks else {}), machine))
        candidate = Candidate(assemble(steps), TAIL, parts.payload.text, tuple(panels_of(steps)))
        texts.append(compile_to("panel-loads", payload, candidate).text)
        found.append(run(payload, inputs, candidate.script, TAIL, text=candidate.text, panels=candidate.panels))
    assert [text.count("memref.prefetch") >= len(tasks) for text in texts] == [True, False]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def default_of(text, folder, l2_bytes):
    """The default config of the convolution in a text, on this machine with another L2."""
    folder.mkdir()
    machine = replace(this_machine(), l2_bytes=l2_bytes)
    (task,) = [task for task in partition(loaded(folder, text)).tasks if family_for(task) is SLIDING_WINDOW]
    return SLIDING_WINDOW.default(task, machine)


def test_an_image_beyond_l2_is_read_in_longer_runs_and_once_for_all_filters(tmp_path):
    text = conv_text((1, 125, 60, 60), (10, 125, 2, 2), stride=1, gap=1, pad=0)
    near, far = (default_of(text, tmp_path / str(size), size) for size in (1 << 22, 1 << 18))
    assert far["width"] > near["width"]
    assert far["outside"] == "places"
    assert near["outside"] != "places"


def test_a_kernel_beyond_l2_is_read_in_order_if_all_positions_are_one_tile(tmp_path):
    text = conv_text((1, 40, 4, 5), (83, 40, 3, 3), stride=2, gap=1, pad=0)
    config = default_of(text, tmp_path / "one", 1 << 16)
    assert (config["rows"], config["outside"]) == (2, "lanes")
