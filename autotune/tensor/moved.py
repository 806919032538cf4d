"""Data movement of constant arrays (views, reshapes, slices) by NumPy, without compiling."""

from collections.abc import Callable

import numpy as np

from autotune.core.payload import Array
from autotune.tensor.graph import Node


def moved(node: Node) -> Array | None:
    """Return a copy of a node's elements if it only moves those of a constant array; `None` if it computes."""
    steps: list[Node] = []
    while node.array is None:
        if node.op not in MOVES:
            return None
        steps.append(node)
        (node,) = node.inputs
    array = node.array
    for step in reversed(steps):
        array = MOVES[step.op](array, step)
    return np.array(array, order="C")


def looked_at(array: Array, node: Node) -> Array:
    """Permute, drop and broadcast axes of an array."""
    (dims,) = node.attributes
    present = [axis for axis, dim in enumerate(dims) if dim is not None]
    order = sorted(present, key=lambda axis: dims[axis])
    result_axes = {dims[axis] for axis in present}
    sizes = [node.shape[d] if d in result_axes else 1 for d in range(len(node.shape))]
    dropped = tuple(axis for axis, dim in enumerate(dims) if dim is None)
    ranks = [axis - sum(other < axis for other in dropped) for axis in order]
    return np.broadcast_to(np.squeeze(array, dropped).transpose(ranks).reshape(sizes), node.shape)


def shaped(array: Array, node: Node) -> Array:
    """Reshape an array."""
    return array.reshape(node.shape)


def cut(array: Array, node: Node) -> Array:
    """Take a strided slice of an array."""
    starts, steps = node.attributes
    counts = zip(starts, steps, node.shape, strict=True)
    return array[tuple(slice(start, start + step * count, step) for start, step, count in counts)]


MOVES: dict[str, Callable[[Array, Node], Array]] = {"view": looked_at, "reshape": shaped, "slice": cut}
