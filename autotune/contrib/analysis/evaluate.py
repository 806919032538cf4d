"""A whole function in NumPy, in float64, op by op, so that the values between ops can be seen."""

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
    """One call of a function.

    Args:
        function: Entry function on memrefs, tensors inside.
        arguments: What its arguments are.
        arrays: Arrays of the arguments, in order; they stay as they are.
        see: Called with every structured op and what it gives; gives what its consumers see.
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
        """Run ops in order; gives what the last one yields."""
        for each in block.operations:
            op = each.operation
            if op.name in ("scf.yield", "func.return"):
                return [self._of(value) for value in op.operands]
            found = self._run(op)
            for result, value in zip(op.results, found, strict=False):
                self._known[result] = value
        return []

    def _of(self, value: ir.Value) -> Any:  # noqa: ANN401 - a scalar, or an array of them
        """The array of a value.

        Raises:
            UnknownOpError: Nothing computed it.
        """
        if value not in self._known:
            raise UnknownOpError("a value from elsewhere")
        return self._known[value]

    def _run(self, op: ir.Operation) -> list[Any]:
        """What an op gives.

        Raises:
            UnknownOpError: There is no such op here.
        """
        name = op.name.partition(".")[2]
        if op.name == "arith.constant":
            return [constant_of(op)]
        if op.name == "linalg.fill":
            return [np.full(np.shape(self._of(op.operands[1])), self._of(op.operands[0]))]
        if op.name.startswith("linalg."):
            found = self._see(op, evaluate_op(op, self._of))
            return [found]
        if op.name in SCALAR or op.name.startswith("arith.cmp"):
            return [compute(op, [self._of(value) for value in op.operands])]
        if op.name == "scf.for":
            return self._loop(op)
        method = getattr(self, f"_{name}", None)
        if method is None or op.name.partition(".")[0] not in ("tensor", "bufferization", "memref"):
            raise UnknownOpError(op.name)
        return [method(op)]

    def _loop(self, op: ir.Operation) -> list[Any]:
        """A loop, iteration by iteration."""
        first, end, step, *carried = (self._of(value) for value in op.operands)
        number, *arguments = op.regions[0].blocks[0].arguments
        for index in range(int(first), int(end), int(step)):
            self._known[number] = index
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
            made_by = into.owner
            source = made_by.operands[0] if not isinstance(made_by, ir.Block) else into
            if source not in self._written or made_by.operation.name == "memref.subview":
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
        """Where a slice lies; its sizes that are not static are operands from number `behind` on."""
        dynamic_offset, dynamic_size = ir.ShapedType.get_dynamic_stride_or_offset(), ir.ShapedType.get_dynamic_size()
        given = iter(list(op.operands)[behind:])
        offsets, sizes, strides = static_slice(op)
        offsets = [int(self._of(next(given))) if each == dynamic_offset else each for each in offsets]
        sizes = [int(self._of(next(given))) if each == dynamic_size else each for each in sizes]
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
