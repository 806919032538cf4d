"""Emitters of 2-D convolutions as linalg on tensors: named ops on a zero-filled init, after a ``tensor.pad``.

Channels first: x ``(N, C, H, W)``, kernel ``(F, C / G, K, K)``; channels last: x ``(N, H, W, C)``, kernel
``(K, K, C / G, F)``; G is the number of groups.
"""

from dataclasses import dataclass, replace
from math import prod

from autotune.core.ops.graph import OpNode
from payload import ops
from payload.builder import Builder, Value, affine_map


@dataclass(frozen=True)
class WindowSteps:
    """Sliding-window parameters of a convolution, the same in both spatial dimensions.

    Attributes:
        stride: Distance between consecutive windows.
        padding: Zeros on every side.
        dilation: Distance between consecutive elements of a window.
        groups: Groups that channels are split into; each filter reads one group.
        channels_last: Whether the layout is NHWC instead of NCHW.
    """

    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    channels_last: bool = False

    def windows(self, count: int, kernel: int) -> int:
        """Return the number of windows along a dimension of `count` positions; less than 1 where none fits."""
        return (count + 2 * self.padding - self.dilation * (kernel - 1) - 1) // self.stride + 1

    @property
    def text(self) -> str:
        """Attributes of a named convolution, in MLIR syntax."""
        pair = "dense<{0}> : tensor<2xi64>"
        return f"{{dilations = {pair.format(self.dilation)}, strides = {pair.format(self.stride)}}}"


def steps_of(node: OpNode) -> WindowSteps:
    """Return the sliding-window parameters of a graph's ``conv`` op."""
    stride, padding, dilation, groups = (int(node[name]) for name in ("stride", "padding", "dilation", "groups"))
    return WindowSteps(stride, padding, dilation, groups, bool(node["channels_last"]))


def conv(f: Builder, x: Value, kernel: Value, steps: WindowSteps, name: str = "conv") -> Value:
    """Emit a 2-D convolution, dense, depthwise or grouped."""
    x, steps = pad(f, x, steps), replace(steps, padding=0)
    groups, channels = steps.groups, x.shape[3 if steps.channels_last else 1]
    filters = kernel.shape[3 if steps.channels_last else 0]
    if groups == 1:
        op = "conv_2d_nhwc_hwcf" if steps.channels_last else "conv_2d_nchw_fchw"
        return window_op(f, op, x, kernel, steps, filters=filters, name=name)
    if groups == channels == filters:
        reassociation = ((0,), (1,), (2, 3)) if steps.channels_last else ((0, 1), (2,), (3,))
        op = "depthwise_conv_2d_nhwc_hwc" if steps.channels_last else "depthwise_conv_2d_nchw_chw"
        return window_op(f, op, x, collapse(f, kernel, reassociation, "plain"), steps, filters=filters, name=name)
    return grouped(f, x, kernel, steps, name)


def pad(f: Builder, x: Value, steps: WindowSteps) -> Value:
    """Pad the spatial dimensions with zeros."""
    if not steps.padding:
        return x
    padding = [0, steps.padding, steps.padding, 0] if steps.channels_last else [0, 0, steps.padding, steps.padding]
    shape = tuple(size + 2 * more for size, more in zip(x.shape, padding, strict=True))
    zero = f.fresh("around")
    f.emit(f"{zero} = arith.constant 0.0 : f32")
    padded = f.define("padded", shape, f"tensor.pad {x.name} low{padding} high{padding} {{")
    f.emit("^bb0(%n: index, %i: index, %j: index, %k: index):")
    with f.indented():
        f.emit(f"tensor.yield {zero} : f32")
    f.emit(f"}} : {x.type} to {padded.type}")
    return padded


def window_op(f: Builder, op: str, x: Value, kernel: Value, steps: WindowSteps, *, filters: int, name: str) -> Value:
    """Emit a named convolution into a zero-filled tensor."""
    side = kernel.shape[0 if steps.channels_last else -1]
    images = x.shape[1:3] if steps.channels_last else x.shape[2:]
    spatial = [steps.windows(size, side) for size in images]
    shape = (x.shape[0], *spatial, filters) if steps.channels_last else (x.shape[0], filters, *spatial)
    init = ops.fill(f, shape, "0.0", name)
    reads = f"ins({x.name}, {kernel.name} : {x.type}, {kernel.type})"
    return f.define(name, shape, f"linalg.{op} {steps.text} {reads} outs({init.name} : {init.type}) -> {init.type}")


def grouped(f: Builder, x: Value, kernel: Value, steps: WindowSteps, name: str) -> Value:
    """Emit a grouped convolution, with an additional dimension for the groups."""
    groups, side = steps.groups, kernel.shape[0 if steps.channels_last else -1]
    at = 3 if steps.channels_last else 1
    filters = kernel.shape[3 if steps.channels_last else 0]
    split_x = expand(f, x, at, groups, "groups")
    split_kernel = expand(f, kernel, at if steps.channels_last else 0, groups, "filters")
    images = [x.shape[d] for d in range(4) if d not in (0, at)]
    h, w = (steps.windows(size, side) for size in images)
    n, inner = x.shape[0], filters // groups
    shape = (n, h, w, groups, inner) if steps.channels_last else (n, groups, inner, h, w)
    init = ops.fill(f, shape, "0.0", name)
    reads = f"ins({split_x.name}, {split_kernel.name} : {split_x.type}, {split_kernel.type})"
    into = f"outs({init.name} : {init.type})"
    if steps.channels_last:
        wide = f.define(f"{name}_groups", shape, f"linalg.generic {group_loops(steps)}")
        f.emit(f"    {reads} {into} {{", "^bb0(%e0: f32, %e1: f32, %acc: f32):")
        with f.indented():
            f.emit("%m = arith.mulf %e0, %e1 : f32", "%y = arith.addf %acc, %m : f32", "linalg.yield %y : f32")
        f.emit(f"}} -> {init.type}")
        return collapse(f, wide, ((0,), (1,), (2,), (3, 4)), name)
    op = f"linalg.conv_2d_ngchw_gfchw {steps.text} {reads} {into} -> {init.type}"
    return collapse(f, f.define(f"{name}_groups", shape, op), ((0,), (1, 2), (3,), (4,)), name)


def group_loops(steps: WindowSteps) -> str:
    """Return the attributes of a grouped NHWC convolution, for which linalg has no named op."""
    # loops: n, g, f, h, w as d0 to d4; c, i, j as d5 to d7
    rows, columns = (f"d{3 + d} * {steps.stride} + d{6 + d} * {steps.dilation}" for d in range(2))
    subscripts = (f"d0, {rows}, {columns}, d1, d5", "d6, d7, d5, d1, d2", "d0, d3, d4, d1, d2")
    loops = affine_map(8, []).partition(" ->")[0]
    maps = ", ".join(f"{loops} -> ({subscript})>" for subscript in subscripts)
    iterator_types = ", ".join(['"parallel"'] * 5 + ['"reduction"'] * 3)
    return f"{{indexing_maps = [{maps}], iterator_types = [{iterator_types}]}}"


def collapse(f: Builder, x: Value, together: tuple[tuple[int, ...], ...], name: str) -> Value:
    """Collapse groups of adjacent dimensions."""
    shape = tuple(prod(x.shape[d] for d in dims) for dims in together)
    text = f"tensor.collapse_shape {x.name} {[list(dims) for dims in together]} : {x.type} into"
    return f.define(name, shape, f"{text} {Value('', shape).type}")


def expand(f: Builder, x: Value, at: int, parts: int, name: str) -> Value:
    """Split dimension `at` in two, of which the outer has size `parts`."""
    shape = (*x.shape[:at], parts, x.shape[at] // parts, *x.shape[at + 1 :])
    dims = [[d] if d < at else [at, at + 1] if d == at else [d + 1] for d in range(x.rank)]
    text = f"tensor.expand_shape {x.name} {dims} output_shape {list(shape)} : {x.type} into"
    return f.define(name, shape, f"{text} {Value('', shape).type}")


def relu(f: Builder, x: Value, name: str = "relu") -> Value:
    """Emit ``max(x, 0)``."""
    return ops.elementwise(f, name, x, ["%zero = arith.constant 0.0 : f32", "%y = arith.maximumf %e0, %zero : f32"])


def add_channel_bias(f: Builder, x: Value, bias: Value, *, channels_last: bool, name: str = "biased") -> Value:
    """Add a bias per channel."""
    return ops.elementwise(f, name, x, ["%y = arith.addf %e0, %e1 : f32"], (bias, [3 if channels_last else 1]))
