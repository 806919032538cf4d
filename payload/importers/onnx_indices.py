"""Rewrites of ONNX's sorting and scattering ops, which linalg lacks, into comparisons of all pairs.

    rank of x[i] = number of x[j] before it;  y[k] = sum of x[i] where rank i is k
    y[r] = sum of u[m] where index m is r, or x[r] where there is none

The work is quadratic but vectorizes well, which is cheap at the sizes that models sort and scatter. Larger ops are
rejected.
"""

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.payload import Array
from payload.importers.folder import order_back
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, Rewrite, dtype_of, of

if TYPE_CHECKING:
    from onnx import NodeProto

MOST_PAIRS = 1 << 26
REAL = 1  # TensorProto.FLOAT
WHOLE = 7  # TensorProto.INT64


def rank_all(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite TopK: the first elements along an axis in order, and their indices."""
    x, shape, kind = node.input[0], facts.shapes[node.input[0]], facts.kinds[node.input[0]]
    count = facts.constants.get(node.input[1]) if len(node.input) > 1 else of(node, "k", None)
    axis = of(node, "axis", -1) % len(shape)
    size, pairs = shape[axis], prod(shape) * shape[axis]
    if count is None or pairs > MOST_PAIRS:
        return False
    first = int(np.reshape(count, ()))
    order = [*(d for d in range(len(shape)) if d != axis), axis]
    back = order_back(order)
    rows = writer.add("Transpose", x, perm=order)
    each, other = (writer.add("Unsqueeze", rows, writer.numbers(at)) for at in (-1, -2))
    indices = writer.real(range(size))
    earlier = writer.add("Less", indices, writer.real([[index] for index in range(size)]))
    tied = writer.add("And", writer.add("Equal", other, each), earlier)
    before = writer.add("Or", writer.add("Greater" if of(node, "largest", 1) else "Less", other, each), tied)
    rank = writer.add("ReduceSum", writer.add("Cast", before, to=REAL), writer.numbers(-1), keepdims=0)
    wanted = writer.real([[index] for index in range(first)])
    hit = writer.add("Equal", writer.add("Unsqueeze", rank, writer.numbers(-2)), wanted)
    nothing = {name: writer.add("Cast", writer.real(0), to=to) for name, to in (("x", kind), ("index", REAL))}
    for output, values, zero in zip(node.output, (other, indices), nothing.values(), strict=False):
        if output:
            chosen = writer.add("Where", hit, values, zero)
            total = writer.add("ReduceSum", chosen, writer.numbers(-1), keepdims=0)
            typed = total if values == other else writer.add("Cast", total, to=WHOLE)
            writer.add("Transpose", typed, perm=back, into=output)
    return True


def read_by_axis(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Crop the data of GatherElements to the indices' other sizes: ONNX's reference and torch-mlir do not."""
    x, indices = node.input
    shape, index_shape = facts.shapes[x], facts.shapes.get(indices, [])
    axis = of(node, "axis", 0) % max(1, len(shape))
    shorter = [d for d, size in enumerate(index_shape) if d != axis and size < shape[d]]
    if len(index_shape) != len(shape) or not shorter:
        return False
    bounds = ([0] * len(shorter), [index_shape[d] for d in shorter], shorter)
    part = writer.add("Slice", x, *(writer.numbers(*each) for each in bounds))
    writer.add("GatherElements", part, indices, axis=axis, into=node.output[0])
    return True


def put_by_axis(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite ScatterElements: elements replace or are reduced into those at indices along an axis."""
    x, indices, values = node.input[:3]
    shape, index_shape, how = facts.shapes[x], facts.shapes.get(indices, []), of(node, "reduction", "none")
    axis = of(node, "axis", 0) % max(1, len(shape))
    if len(index_shape) != len(shape) or how not in COMBINED or prod(shape) * index_shape[axis] > MOST_PAIRS:
        return False
    part, rests = x, []
    for d, (size, count) in enumerate(zip(shape, index_shape, strict=True)):
        if d != axis and count < size:  # the indices cover the first elements of the other axes
            rests.append((d, writer.slice(part, count, size, d)))
            part = writer.slice(part, 0, count, d)
    order = [*(d for d in range(len(shape)) if d != axis), axis]
    rows, at, put = (writer.add("Transpose", name, perm=order) for name in (part, indices, values))
    result = put_rows(writer, (rows, at, put), shape[axis], facts.kinds[x], how)
    last = writer.add("Transpose", result, perm=order_back(order))
    for d, rest in reversed(rests):
        last = writer.add("Concat", last, rest, axis=d)
    writer.add("Identity", last, into=node.output[0])
    return True


def put_parts(writer: NodeWriter, node: "NodeProto", facts: KnownTensors) -> bool:
    """Rewrite ScatterND: slices replace or are reduced into those at indices into the first dimensions."""
    x, indices, values = node.input[:3]
    shape, index_shape, how = facts.shapes[x], facts.shapes.get(indices, [0]), of(node, "reduction", "none")
    lead, size = shape[: index_shape[-1]], prod(shape[index_shape[-1] :])
    count = prod(index_shape[:-1])
    if how not in COMBINED or not lead or prod(shape) * count > MOST_PAIRS:
        return False
    steps = [prod(lead[d + 1 :]) for d in range(len(lead))]
    flat = writer.reshape(writer.add("Cast", indices, to=REAL), count, len(lead))
    behind = writer.add("Where", writer.add("Less", flat, writer.real(0)), writer.real(lead), writer.real(0))
    weighted = writer.add("Mul", writer.add("Add", flat, behind), writer.real(steps))
    at = writer.add("ReduceSum", weighted, writer.numbers(1), keepdims=0)
    rows = writer.add("Transpose", writer.reshape(x, prod(lead), size), perm=[1, 0])
    put = writer.add("Transpose", writer.reshape(values, count, size), perm=[1, 0])
    result = put_rows(writer, (rows, at, put), prod(lead), facts.kinds[x], how)
    writer.reshape(writer.add("Transpose", result, perm=[1, 0]), *shape, into=node.output[0])
    return True


def put_rows(writer: NodeWriter, operands: tuple[str, str, str], size: int, kind: int, how: str) -> str:
    """Scatter values to indices of rows of `size` elements, replacing or reducing into them."""
    rows, indices, values = operands
    real = writer.add("Cast", indices, to=REAL)
    behind = writer.add("Where", writer.add("Less", real, writer.real(0)), writer.real(size), writer.real(0))
    at = writer.add("Unsqueeze", writer.add("Add", real, behind), writer.numbers(-2))
    hit = writer.add("Equal", at, writer.real([[index] for index in range(size)]))
    combine, reduce, neutral = COMBINED[how]
    nothing = writer.constant(np.asarray(neutral(dtype_of(kind))))
    chosen = writer.add("Where", hit, writer.add("Unsqueeze", values, writer.numbers(-2)), nothing)
    total = writer.add(reduce, chosen, writer.numbers(-1), keepdims=0)
    if combine:
        return writer.add(combine, rows, total)
    hits = writer.add("ReduceSum", writer.add("Cast", hit, to=REAL), writer.numbers(-1), keepdims=0)
    return writer.add("Where", writer.add("Greater", hits, writer.real(0)), total, rows)


def least(dtype: "np.dtype[Any]") -> Array:
    """Return the lowest value of an element type."""
    return np.array(np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf, dtype)


def largest(dtype: "np.dtype[Any]") -> Array:
    """Return the highest value of an element type."""
    return np.array(np.iinfo(dtype).max if dtype.kind in "iu" else np.inf, dtype)


# By reduction: op that combines rows with updates, op that reduces the updates of one index, and its neutral element.
COMBINED: dict[str, tuple[str, str, Callable[["np.dtype[Any]"], Array]]] = {
    "none": ("", "ReduceSum", lambda dtype: np.zeros((), dtype)),
    "add": ("Add", "ReduceSum", lambda dtype: np.zeros((), dtype)),
    "mul": ("Mul", "ReduceProd", lambda dtype: np.ones((), dtype)),
    "max": ("Max", "ReduceMax", least),
    "min": ("Min", "ReduceMin", largest),
}
SORTS_AND_SCATTERS: dict[str, Rewrite] = {"TopK": rank_all, "ScatterElements": put_by_axis, "ScatterND": put_parts}
