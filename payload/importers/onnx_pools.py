"""Rewrites of ONNX pooling ops: `ceil_mode` and `auto_pad` become explicit pads, and argmax is computed if needed.

With `ceil_mode`, the trailing pad is extended until the last window ends in it: torch-mlir and ONNX's shape inference
count windows that begin beyond the pad, and torch-mlir includes elements beyond it in the divisor. `auto_pad` is made
explicit because ONNX's reference and ONNX Runtime choose different pads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.payload import Array
from payload.importers.linalg import cannot_lower
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, dtype_of, facts_of, of
from payload.importers.onnx_origins import take_origin
from payload.importers.onnx_values import replace_all

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

POOLS = ("AveragePool", "LpPool", "MaxPool")
NONE, SAME = "NOTSET", "SAME"  # values of `auto_pad`: a value, and a prefix
FLOAT, REAL = 1, (1, 10, 11, 16)  # TensorProto.FLOAT; element types f32, f16, f64 and bf16
REPLACED = ("auto_pad", "ceil_mode", "pads")
PLANE = 2  # number of spatial dimensions of 2-D pooling
MOST_TAPS = 125  # maximum size of a window whose argmax is computed by unrolled comparisons


def write_global_maximum(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite a GlobalMaxPool over planes: in the ONNX reference, results of other ranks have another shape."""
    batch, channels, *sizes = facts.shapes[node.input[0]]
    if len(sizes) == PLANE:
        return False
    plane = writer.reshape(node.input[0], batch, channels, 1, prod(sizes))
    writer.reshape(writer.add("GlobalMaxPool", plane), batch, channels, *[1] * len(sizes), into=node.output[0])
    return True


def write_pool(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite a MaxPool that torch-mlir lacks or lowers incorrectly: on integers, or with indices of the maxima.

    Raises:
        UnsupportedError: Windows have more than `MOST_TAPS` elements.
    """
    x, shape = node.input[0], facts.shapes[node.input[0]]
    indices = node.output[1] if len(node.output) > 1 else ""
    is_real = facts.kinds[x] in REAL
    if not indices and (is_real or len(shape) - 2 == PLANE):
        return False
    kind = facts.kinds[x] if is_real else FLOAT
    windows, by_columns = Windows(node, shape[2:]), bool(of(node, "storage_order", 0))
    attributes = {each.name: of(node, each.name, None) for each in node.attribute if each.name != "storage_order"}
    real = x if is_real else writer.add("Cast", x, to=FLOAT)  # 8-bit integers are exact in f32
    is_lowered = indices and windows.is_plain and not by_columns
    names = [node.output[0] if is_real else f"{writer.stem}_real"] + ([f"{writer.stem}_inside"] if is_lowered else [])
    writer.add("MaxPool", real, into=names, **attributes)
    if not is_real:
        writer.add("Cast", names[0], to=facts.kinds[x], into=node.output[0])
    planes = np.arange(shape[0] * shape[1]).reshape(*shape[:2], *[1] * len(shape[2:])) * prod(shape[2:])
    if is_lowered:  # indices of torch-mlir are relative to each (batch, channel) plane, those of ONNX to the tensor
        writer.add("Add", names[1], writer.constant(planes), into=indices)
    elif indices:
        if prod(windows.kernel) > MOST_TAPS:
            raise cannot_lower(node.doc_string, f"its windows must have at most {MOST_TAPS} elements, they have more")
        argmax = argmax_in_windows(writer, (real, kind), planes, windows, by_columns=by_columns)
        writer.add("Identity", argmax, into=indices)
    return True


def argmax_in_windows(
    writer: NodeWriter, source: tuple[str, int], planes: Array, windows: "Windows", *, by_columns: bool
) -> str:
    """Return the index of the first maximum of every window, among all elements of a float tensor.

    Args:
        writer: Writer of the nodes.
        source: Name of the tensor, and its element type in TensorProto.
        planes: Index of the first element of each (batch, channel) plane.
        windows: Windows of the pool.
        by_columns: Whether indices in a plane are column-major.
    """
    (x, kind), rank = source, planes.ndim - 2
    pads = [0, 0, *windows.pads[:rank], 0, 0, *windows.pads[rank:]]
    padded = writer.add("Pad", x, writer.numbers(*pads), writer.number(-np.inf, kind)) if any(pads) else x
    taps = [windows.tap(which, by_columns=by_columns) for which in np.ndindex(*windows.kernel)]
    best, indices = "", writer.constant(planes + first_inside(taps))
    for tap in taps:
        bounds = (tap.begins, tap.ends, range(2, 2 + rank), tap.steps)
        part = writer.add("Slice", padded, *(writer.numbers(*each) for each in bounds))
        if best:
            is_more = writer.add("Greater", part, best)
            indices = writer.add("Where", is_more, writer.constant(planes + tap.indices), indices)
            best = writer.add("Where", is_more, part, best)
        else:
            best = part
    return indices


def first_inside(taps: "Sequence[Tap]") -> Array:
    """Return the index of the first element of each window that is inside the image."""
    first = np.zeros_like(taps[0].indices)
    for tap in reversed(taps):
        first = np.where(tap.inside, tap.indices, first)
    return first


def largest_in_windows(node: "NodeProto", x: Array) -> tuple[Array, Array]:
    """Compute a max pool in NumPy: maxima, and their indices among all elements."""
    shape, rank = x.shape, x.ndim - 2
    windows, by_columns = Windows(node, list(shape[2:])), bool(of(node, "storage_order", 0))
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    padded = np.pad(x, [(0, 0), (0, 0), *windows.sides], constant_values=lowest)
    taps = [windows.tap(which, by_columns=by_columns) for which in np.ndindex(*windows.kernel)]
    parts = [padded[tap.cut] for tap in taps]
    best = parts[0]
    indices = np.broadcast_to(first_inside(taps), best.shape)
    for tap, part in zip(taps[1:], parts[1:], strict=True):
        indices = np.where(part > best, tap.indices, indices)
        best = np.maximum(best, part)
    planes = np.arange(shape[0] * shape[1]).reshape(*shape[:2], *[1] * rank) * prod(shape[2:])
    return best, planes + indices


def means_of_windows(node: "NodeProto", x: Array) -> Array:
    """Compute an average pool in NumPy; windows without an element yield NaN."""
    windows = Windows(node, list(x.shape[2:]))
    wide = x.astype(np.result_type(x, np.float32))  # f16 accumulates in f32, as in numpy.mean
    padded = np.pad(wide, [(0, 0), (0, 0), *windows.sides])
    ones = np.pad(np.ones(x.shape[2:], np.int64), windows.sides)
    cuts = [windows.tap(which, by_columns=False).cut for which in np.ndindex(*windows.kernel)]
    counts = windows.counted() if of(node, "count_include_pad", 0) else sum(ones[cut] for cut in cuts)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sum(padded[cut] for cut in cuts) / counts).astype(x.dtype)


@dataclass(frozen=True)
class Tap:
    """The same element (tap) of every window.

    Attributes:
        begins: Position of the first window's tap in the padded image.
        ends: End of the slice: the position after the last window's tap.
        steps: Distances between the taps of consecutive windows.
        indices: Index of each tap in the image; arbitrary where it is outside.
        inside: Whether each tap is inside the image.
    """

    begins: Sequence[int]
    ends: Sequence[int]
    steps: Sequence[int]
    indices: Array
    inside: Array

    @property
    def cut(self) -> tuple[Any, ...]:
        """Slices of the padded image that select the tap of every window."""
        return (..., *map(slice, self.begins, self.ends, self.steps))


class Windows:
    """Windows of a pool along each spatial dimension.

    Args:
        node: Pooling node.
        shape: Spatial sizes of its input.

    Attributes:
        counts: Number of windows.
        ends: Trailing pads in which the last windows end.
    """

    def __init__(self, node: "NodeProto", shape: list[int]) -> None:
        ones, self._shape = [1] * len(shape), shape
        pads, auto = list(of(node, "pads", [0] * (2 * len(shape)))), of(node, "auto_pad", NONE)
        self._before, self._behind = pads[: len(shape)], pads[len(shape) :]
        self._kernel, self._steps = of(node, "kernel_shape", ones), of(node, "strides", ones)
        self._dilations = of(node, "dilations", ones)
        self.counts, self.ends = [], []
        for d, size in enumerate(shape):
            step, covered = self._steps[d], (self._kernel[d] - 1) * self._dilations[d] + 1
            if auto != NONE:
                self._before[d], self._behind[d] = chosen_pads(auto, size, step, covered)
            low, behind = self._before[d], self._behind[d]
            span = low + size + behind - covered
            count = span // step + 1
            if of(node, "ceil_mode", 0) and not auto.startswith(SAME):
                count = -(-span // step) + 1
                count -= (count - 1) * step >= low + size
            self.counts.append(count)
            self.ends.append(max(behind, (count - 1) * step + covered - low - size))

    @property
    def pads(self) -> list[int]:
        """Leading and trailing pads, in ONNX order, in which all windows end."""
        return [*self._before, *self.ends]

    @property
    def sides(self) -> list[tuple[int, int]]:
        """Pads as (leading, trailing) of each dimension."""
        return list(zip(self._before, self.ends, strict=True))

    @property
    def is_plain(self) -> bool:
        """Whether torch-mlir computes their argmax: 2-D, symmetric pads, no dilation."""
        return len(self._shape) == PLANE and self._before == self.ends and set(self._dilations) == {1}

    @property
    def kernel(self) -> list[int]:
        """Sizes of a window."""
        return list(self._kernel)

    def tap(self, which: Sequence[int], *, by_columns: bool) -> Tap:
        """Return the tap of every window at a position.

        Args:
            which: Position in the window.
            by_columns: Whether indices are column-major.
        """
        begins = [at * dilation for at, dilation in zip(which, self._dilations, strict=True)]
        ends = [b + (n - 1) * s + 1 for b, n, s in zip(begins, self.counts, self._steps, strict=True)]
        indices, inside = np.zeros((), np.int64), np.ones((), bool)
        for d, size in enumerate(self._shape):
            step = prod(self._shape[:d]) if by_columns else prod(self._shape[d + 1 :])
            at = begins[d] - self._before[d] + np.arange(self.counts[d]) * self._steps[d]
            indices = indices[..., None] + at * step
            inside = inside[..., None] & (at >= 0) & (at < size)
        return Tap(begins, ends, self._steps, indices, inside)

    def counted(self) -> Array:
        """Return the number of elements of each window that are not beyond the node's own pads."""
        counts = np.ones((), np.int64)
        for d, size in enumerate(self._shape):
            begins = np.arange(self.counts[d]) * self._steps[d] - self._before[d]
            positions = begins[:, None] + np.arange(self._kernel[d]) * self._dilations[d]
            counts = counts[..., None] * np.count_nonzero(positions < size + self._behind[d], axis=1)
        return counts


def chosen_pads(auto: str, size: int, step: int, covered: int) -> tuple[int, int]:
    """Return the leading and trailing pad that `auto_pad` chooses along a dimension of `size` elements."""
    need = max(0, (-(-size // step) - 1) * step + covered - size) if auto.startswith(SAME) else 0
    less, more = need // 2, need - need // 2
    return (more, less) if auto == "SAME_LOWER" else (less, more)


def end_next_pool(model: "ModelProto") -> bool:
    """Rewrite the first pool with `ceil_mode` or `auto_pad` to explicit pads, in place; return whether there was one.

    Shapes must be inferred. They must be inferred again afterwards, because those of later results may have been wrong.
    """
    graph = model.graph
    pools = [(number, node) for number, node in enumerate(graph.node) if node.op_type in POOLS and not node.domain]
    pools = [each for each in pools if of(each[1], "ceil_mode", 0) or of(each[1], "auto_pad", NONE) != NONE]
    facts = facts_of(graph) if pools else KnownTensors({}, {}, {})
    for number, node in pools:
        if node.input[0] in facts.shapes:
            writer = NodeWriter(graph, f"pool_{number}")
            write_ended(writer, node, facts)
            nodes = list(graph.node)
            replace_all(graph.node, [*nodes[:number], *take_origin(writer.nodes, node), *nodes[number + 1 :]])
            return True
    return False


def write_ended(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> None:
    """Write a pool with explicit pads and without `ceil_mode`, and a factor that corrects its means."""
    x = node.input[0]
    windows = Windows(node, facts.shapes[x][2:])
    attributes = {each.name: of(node, each.name, None) for each in node.attribute if each.name not in REPLACED}
    attributes["pads"] = windows.pads
    every = prod(windows.kernel)
    shares = every / windows.counted() if of(node, "count_include_pad", 0) else np.ones(())
    if np.all(shares == 1):
        writer.add(node.op_type, *node.input, into=list(node.output), **attributes)
        return
    means = writer.add(node.op_type, *node.input, **attributes)
    writer.add("Mul", means, writer.constant(shares.astype(dtype_of(facts.kinds[x]))), into=node.output[0])
