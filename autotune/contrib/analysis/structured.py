"""Evaluation of structured operations in NumPy and float64, from their indexing maps and bodies."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.nests import dimensions, indexing_maps, projected, read_index
from autotune.compiler.ir.values import maker
from autotune.contrib.analysis.bodies import SUMS, UnknownOpError, compute, constant_of
from autotune.core.payload import Array

MOST_POINTS = 1 << 27  # largest iteration space of an operation that is not a contraction
Known = Callable[[ir.Value], Any]


def evaluate_op(op: ir.Operation, known: Known) -> Array:
    """Evaluate a structured operation.

    Contractions are computed by `numpy.einsum`. For others, Python loops iterate over the dimensions of sliding
    windows, and NumPy computes the remaining dimensions at once.

    Args:
        op: Operation on tensors.
        known: Function that returns the array of a value.

    Raises:
        UnknownOpError: The body or the maps are not supported.
    """
    maps = indexing_maps(op)
    if not maps or not op.regions:
        raise UnknownOpError(op.name)
    arrays = [known(value) for value in op.operands]
    if len(op.results) != 1:
        raise UnknownOpError(f"{op.name} of {len(op.results)} results")
    plain = all(None not in dimensions(amap) for amap in maps)
    if plain and linalg.isa_contraction_op(op):
        letters = [projected(amap) for amap in maps]
        product_sum = np.einsum(arrays[0], letters[0], arrays[1], letters[1], letters[2], optimize=True)
        return np.asarray(arrays[2] + product_sum)
    sizes = loop_sizes(arrays, maps)
    compound = {
        d for amap in maps for e in amap.results if not isinstance(e, ir.AffineDimExpr) for d, _ in read_index(e).moving
    }
    written = {d for d in dimensions(maps[-1]) if d is not None}
    stepped = sorted(compound - written)
    if np.prod([size for d, size in enumerate(sizes) if d not in stepped], dtype=float) > MOST_POINTS:
        raise UnknownOpError(f"{op.name} of {'x'.join(map(str, sizes))}")
    result = np.broadcast_to(arrays[-1], arrays[-1].shape).copy()
    for indices in product(*(range(sizes[d]) for d in stepped)):
        step = WindowStep(op, sizes, dict(zip(stepped, indices, strict=True)), known)
        result = step.run([*arrays[:-1], result])
    return result


def loop_sizes(arrays: list[Any], maps: list[ir.AffineMap]) -> list[int]:
    """Return the trip count of every loop, from the shapes of the arrays.

    Raises:
        UnknownOpError: The trip count of a loop is in no shape.
    """
    sizes: dict[int, int] = {}
    for array, amap in zip(arrays, maps, strict=True):
        for size, d in zip(np.shape(array), dimensions(amap), strict=True):
            if d is not None:
                sizes[d] = size
    if len(sizes) < maps[0].n_dims:
        raise UnknownOpError("an op whose loops are in no array")
    return [sizes[d] for d in range(maps[0].n_dims)]


class WindowStep:
    """Evaluation of a structured operation with its window loops fixed, as elementwise operations and a reduction."""

    def __init__(self, op: ir.Operation, sizes: list[int], fixed: dict[int, int], known: Known) -> None:
        self._op, self._maps, self._fixed, self._known = op, indexing_maps(op), fixed, known
        self._sizes = [1 if d in fixed else size for d, size in enumerate(sizes)]

    def run(self, arrays: list[Any]) -> Array:
        """Evaluate the step; the last array is the initial value of the result."""
        block = self._op.regions[0].blocks[0]
        written = [int(d) for d in dimensions(self._maps[-1]) if d is not None]
        if len(written) != len(dimensions(self._maps[-1])):
            raise UnknownOpError("an op that writes to windows")
        env: dict[ir.Value, Any] = {}
        for argument, array, amap in zip(block.arguments, arrays, self._maps, strict=True):
            env[argument] = self._spread(array, amap) if isinstance(array, np.ndarray) else array
        reduction_loops = [d for d in range(len(self._sizes)) if d not in written]
        *inner, last = (each.operation for each in block.operations)
        (yielded,) = last.operands
        before = block.arguments[len(arrays) - 1]
        root = maker(yielded)
        if not reduction_loops or root is None or root.name not in SUMS or before not in list(root.operands):
            if reduction_loops and any(self._sizes[d] > 1 for d in reduction_loops):
                raise UnknownOpError(f"{self._op.name} with a sum of another kind")
            self._run_body(inner, env)
            return self._written(self._of(yielded, env), written)
        self._run_body([each for each in inner if each != root], env)
        (part,) = [self._of(value, env) for value in root.operands if value != before][:1] or [None]
        whole = np.broadcast_to(part, self._sizes)
        total = SUMS[root.name].reduce(whole, axis=tuple(reduction_loops), keepdims=True)
        return self._written(SUMS[root.name](env[before], total), written)

    def _run_body(self, ops: list[ir.Operation], env: dict[ir.Value, Any]) -> None:
        """Evaluate the operations of a body in order."""
        for op in ops:
            if op.name == "linalg.index":
                d = ir.IntegerAttr(op.attributes["dim"]).value
                shape = [-1 if d == each else 1 for each in range(len(self._sizes))]
                positions = np.arange(self._sizes[d]) + self._fixed.get(d, 0)
                env[op.results[0]] = positions.reshape(shape)
            elif op.name == "tensor.extract":
                source, *indices = op.operands
                env[op.results[0]] = self._known(source)[tuple(self._of(each, env) for each in indices)]
            elif op.name == "arith.constant":
                env[op.results[0]] = constant_of(op)
            else:
                with np.errstate(all="ignore"):
                    env[op.results[0]] = compute(op, [self._of(value, env) for value in op.operands])

    def _of(self, value: ir.Value, env: dict[ir.Value, Any]) -> Any:  # noqa: ANN401 - a scalar, or an array of them
        """Return the value of an operand of the body."""
        return env[value] if value in env else self._known(value)

    def _spread(self, array: Array, amap: ir.AffineMap) -> Array:
        """Reshape an operand to one dimension per loop, of size 1 for loops on which it does not depend."""
        loops: list[int] = []
        for axis, expr in enumerate(amap.results):
            index = read_index(expr)
            moving = [(d, c) for d, c in index.moving if d not in self._fixed]
            if isinstance(expr, ir.AffineDimExpr) and not self._fixed.keys() & {expr.position}:
                loops.append(expr.position)
                continue
            start = sum(c * self._fixed[d] for d, c in index.moving if d in self._fixed) + index.constant
            if len(moving) > 1:
                raise UnknownOpError("an op with windows of windows")
            d, stride = moving[0] if moving else (-1, 1)
            count = self._sizes[d] if moving else 1
            index_slices = [slice(None)] * array.ndim
            index_slices[axis] = slice(start, start + stride * (count - 1) + 1, stride)
            array = array[tuple(index_slices)]
            loops.append(d)
        axes = [axis for axis, d in enumerate(loops) if d >= 0]
        array = array.reshape([array.shape[axis] for axis in axes])
        order = sorted(range(len(axes)), key=lambda axis: loops[axes[axis]])
        shape = [1] * len(self._sizes)
        for axis in axes:
            shape[loops[axis]] = self._sizes[loops[axis]]
        return array.transpose(order).reshape(shape)

    def _written(self, value: Any, written: list[int]) -> Array:  # noqa: ANN401 - a scalar, or an array of them
        """Transpose a result to the dimension order of the output array."""
        sizes = [size if d in written else 1 for d, size in enumerate(self._sizes)]
        whole = np.broadcast_to(value, sizes).reshape([self._sizes[d] for d in sorted(written)])
        return whole.transpose([sorted(written).index(d) for d in written])
