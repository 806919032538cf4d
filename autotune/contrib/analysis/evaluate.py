"""Interpreter of a whole function in NumPy and float64, which exposes the result of every structured operation."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir import ir

from autotune.compiler.ir.values import static_slice
from autotune.contrib.analysis.bodies import SCALAR, UnknownOpError, compute, constant_of, widened
from autotune.contrib.analysis.structured import evaluate_op
from autotune.core.payload import WRITTEN, Argument, Array

See = Callable[[ir.Operation, Array], Array]


class Evaluation64:
    """Evaluation of one call of a function.

    Args:
        function: Entry function with memref arguments and a body on tensors.
        arguments: Descriptions of its arguments.
        arrays: Arrays of the arguments, in order; they are not modified.
        see: Called with every structured operation and its result; returns the array that its consumers use.
    """

    def __init__(self, function: ir.OpView, arguments: Sequence[Argument], arrays: Sequence[Array], see: See) -> None:
        self._see = see
        self._known: dict[ir.Value, Any] = {}
        block = function.regions[0].blocks[0]
        for argument, value, array in zip(arguments, block.arguments, arrays, strict=True):
            self._known[value] = np.zeros(array.shape) if argument.role == "output" else array
        self._written = {
            value: argument
            for argument, value in zip(arguments, block.arguments, strict=True)
            if argument.role in WRITTEN
        }
        self.results: dict[str, Array] = {}
        self._run_block(block)

    def _run_block(self, block: ir.Block) -> list[Any]:
        """Evaluate the operations of a block in order; return the operands of its terminator."""
        for each in block.operations:
            op = each.operation
            if op.name in ("scf.yield", "func.return"):
                return [self._of(value) for value in op.operands]
            results = self._run(op)
            for result, value in zip(op.results, results, strict=False):
                self._known[result] = value
        return []

    def _of(self, value: ir.Value) -> Any:  # noqa: ANN401 - a scalar, or an array of them
        """Return the array of a value.

        Raises:
            UnknownOpError: No evaluated operation defines it.
        """
        if value not in self._known:
            raise UnknownOpError("a value from elsewhere")
        return self._known[value]

    def _run(self, op: ir.Operation) -> list[Any]:
        """Evaluate an operation and return its results.

        Raises:
            UnknownOpError: The operation is not supported.
        """
        name = op.name.partition(".")[2]
        if op.name == "arith.constant":
            return [constant_of(op)]
        if op.name == "linalg.fill":
            return [np.full(np.shape(self._of(op.operands[1])), self._of(op.operands[0]))]
        if op.name.startswith("linalg."):
            result = self._see(op, evaluate_op(op, self._of))
            return [result]
        if op.name in SCALAR or op.name.startswith("arith.cmp"):
            return [compute(op, [self._of(value) for value in op.operands])]
        if op.name == "scf.for":
            return self._loop(op)
        method = getattr(self, f"_{name}", None)
        if method is None or op.name.partition(".")[0] not in ("tensor", "bufferization", "memref"):
            raise UnknownOpError(op.name)
        return [method(op)]

    def _loop(self, op: ir.Operation) -> list[Any]:
        """Evaluate an `scf.for` iteration by iteration; return its results."""
        first, end, step, *carried = (self._of(value) for value in op.operands)
        induction_variable, *arguments = op.regions[0].blocks[0].arguments
        for index in range(int(first), int(end), int(step)):
            self._known[induction_variable] = index
            self._known.update(zip(arguments, carried, strict=True))
            carried = self._run_block(op.regions[0].blocks[0])
        return carried

    def _to_tensor(self, op: ir.Operation) -> Any:  # noqa: ANN401
        return widened(np.asarray(self._of(op.operands[0])))

    def _materialize_in_destination(self, op: ir.Operation) -> Any:  # noqa: ANN401
        value, into = op.operands
        if into in self._written:
            self.results[self._written[into].name] = self._of(value)
        elif isinstance(into.type, ir.MemRefType):
            owner = into.owner
            source = owner.operands[0] if not isinstance(owner, ir.Block) else into
            if source not in self._written or owner.operation.name == "memref.subview":
                raise UnknownOpError("a result in a part of an argument")
            argument = self._written[source]
            self.results[argument.name] = np.reshape(self._of(value), argument.shape)
        return self._of(value)

    def _empty(self, op: ir.Operation) -> Any:  # noqa: ANN401
        shape, sizes = list(op.results[0].type.shape), iter(op.operands)
        dynamic = ir.ShapedType.get_dynamic_size()
        return np.zeros([int(self._of(next(sizes))) if size == dynamic else size for size in shape])

    def _alloc_tensor(self, op: ir.Operation) -> Any:  # noqa: ANN401
        copies = [value for value in op.operands if isinstance(value.type, ir.RankedTensorType)]
        return self._of(copies[0]) if copies else self._empty(op)

    def _cut(self, op: ir.Operation, behind: int) -> tuple[slice, ...]:
        """Return the index of a slice; dynamic offsets and sizes are operands from number `behind` on."""
        dynamic_offset, dynamic_size = ir.ShapedType.get_dynamic_stride_or_offset(), ir.ShapedType.get_dynamic_size()
        dynamic_values = iter(list(op.operands)[behind:])
        offsets, sizes, strides = static_slice(op)
        offsets = [int(self._of(next(dynamic_values))) if each == dynamic_offset else each for each in offsets]
        sizes = [int(self._of(next(dynamic_values))) if each == dynamic_size else each for each in sizes]
        return tuple(slice(o, o + n * s, s) for o, n, s in zip(offsets, sizes, strides, strict=True))

    def _extract_slice(self, op: ir.Operation) -> Any:  # noqa: ANN401
        part, dynamic = self._of(op.operands[0])[self._cut(op, 1)], ir.ShapedType.get_dynamic_size()
        shape = list(op.results[0].type.shape)
        return part.reshape(shape) if dynamic not in shape else part.reshape([-1 if s == dynamic else s for s in shape])

    def _insert_slice(self, op: ir.Operation) -> Any:  # noqa: ANN401
        whole = self._of(op.operands[1]).copy()
        cut = self._cut(op, 2)
        whole[cut] = np.reshape(self._of(op.operands[0]), whole[cut].shape)
        return whole

    def _expand_shape(self, op: ir.Operation) -> Any:  # noqa: ANN401
        dynamic = ir.ShapedType.get_dynamic_size()
        return np.reshape(self._of(op.operands[0]), [-1 if s == dynamic else s for s in op.results[0].type.shape])

    _collapse_shape = _expand_shape

    def _cast(self, op: ir.Operation) -> Any:  # noqa: ANN401
        return self._of(op.operands[0])

    def _extract(self, op: ir.Operation) -> Any:  # noqa: ANN401
        return self._of(op.operands[0])[tuple(int(self._of(value)) for value in list(op.operands)[1:])]

    def _load(self, op: ir.Operation) -> Any:  # noqa: ANN401
        return self._extract(op)

    def _dim(self, op: ir.Operation) -> Any:  # noqa: ANN401
        return np.shape(self._of(op.operands[0]))[int(self._of(op.operands[1]))]
