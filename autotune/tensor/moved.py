"""Elements that are only seen otherwise: NumPy moves known ones, nothing is compiled for it."""

from collections.abc import Callable

import numpy as np

from autotune.core.payload import Array
from autotune.tensor.graph import Node


def moved(node: Node) -> Array | None:
    """The elements of a node that moves known ones, a copy of them; `None` where something is computed."""
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
    """Elements with axes elsewhere, repeated along new ones."""
    (dims,) = node.attributes
    kept = [axis for axis, dim in enumerate(dims) if dim is not None]
    order = sorted(kept, key=lambda axis: dims[axis])
    result_axes = {dims[axis] for axis in kept}
    sizes = [node.shape[d] if d in result_axes else 1 for d in range(len(node.shape))]
    dropped = tuple(axis for axis, dim in enumerate(dims) if dim is None)
    ranks = [axis - sum(other < axis for other in dropped) for axis in order]
    return np.broadcast_to(np.squeeze(array, dropped).transpose(ranks).reshape(sizes), node.shape)


def shaped(array: Array, node: Node) -> Array:
    """Elements in another shape."""
    return array.reshape(node.shape)


def cut(array: Array, node: Node) -> Array:
    """Every so many elements, from some index on."""
    starts, steps = node.attributes
    counts = zip(starts, steps, node.shape, strict=True)
    return array[tuple(slice(start, start + step * count, step) for start, step, count in counts)]


MOVES: dict[str, Callable[[Array, Node], Array]] = {"view": looked_at, "reshape": shaped, "slice": cut}
