"""Operands of a product with a block-quantized weight, analysed from a bufferized op."""

from collections.abc import Set
from dataclasses import dataclass
from math import prod

from mlir import ir
from mlir.dialects import memref

from autotune.contrib.quantised.block_steps import LANES, BlockSteps
from autotune.contrib.quantised.stored_numbers import StoredNumbers
from autotune.core.errors import CompileError

EVERY = {"arith.mulf", "arith.addf", "arith.sitofp"}
MAY = {"arith.extf", "arith.subf", "arith.constant"}
MATRIX = 2  # dimensions
BY_KIND = {  # ops required in the body, by bits and signedness
    (8, True): set[str](),
    (4, True): {"arith.extsi", "arith.shli", "arith.shrsi"},
    (4, False): {"arith.extui", "arith.andi", "arith.shrui"},
}


@dataclass(frozen=True)
class BlockOperands:
    """Operands of a product, on buffers; all shapes lack m if there are no rows.

    Attributes:
        steps: Layout of the steps of a row.
        activations: Activations per half of a block, f32, as operands of the op, possibly with a dimension of groups.
        halves: Activations as ``(m, blocks, 16)``.
        stored: Bytes of the weight, likewise: one operand per half of a block, or one with the nibbles of both.
        weights: Bytes of the weight as ``(n, blocks, 16)``.
        scales: Scales and minimums ``(n, blocks)``.
        result: Sums ``(m, n)``, f32, accumulated in place.
        has_rows: Whether there is a dimension m.
    """

    steps: BlockSteps
    activations: tuple[ir.Value, ...]
    halves: tuple[ir.Value, ...]
    stored: tuple[ir.Value, ...]
    weights: tuple[ir.Value, ...]
    scales: tuple[StoredNumbers, ...]
    result: ir.Value
    has_rows: bool

    @classmethod
    def of(cls, op: ir.Operation) -> "BlockOperands":
        """Analyse an op and emit the reshapes of its operands at the insertion point.

        Raises:
            CompileError: Stage ``transform``; it is not a product with a block-quantized weight.
        """
        *inputs, result = list(op.operands)
        element_types = [str(ir.MemRefType(each.type).element_type) for each in inputs]
        if "i8" not in element_types:
            raise CompileError(
                "transform", f"a product in blocks must multiply bytes, its operands are {element_types}"
            )
        first = element_types.index("i8")
        ranks = [ir.MemRefType(each.type).rank for each in inputs]
        count = list(zip(element_types, ranks, strict=True)).count(("i8", ranks[first]))
        halves, numbers = inputs[:first], inputs[first + count :]
        names = {each.operation.name for each in op.regions[0].blocks[0].operations}
        grouped = "i8" in element_types[first + count :]
        scales = numbers[: len(numbers) // 2] if grouped else numbers
        signed = "arith.andi" not in names
        bits = 8 if count == first and "arith.shrsi" not in names else 4
        shape = ir.MemRefType(inputs[first].type).shape
        computes = (bits, signed) in BY_KIND and is_kind(names - {"linalg.yield"}, BY_KIND[bits, signed])
        fits = computes and first in (1, 2) and len(scales) in (1, 2) and shape[-1] == LANES
        if not fits or (bits == 4 and first == 1):
            raise CompileError("transform", f"a product in blocks must be one of those of qmatmul, it computes {names}")
        steps = BlockSteps(bits, first, signed, len(scales) == 2, prod(shape[1:-1]))
        has_rows = ir.MemRefType(result.type).rank == MATRIX
        stored = tuple(inputs[first : first + count])
        units = numbers[len(scales) :] if grouped else [None] * len(scales)
        scale_numbers = tuple(StoredNumbers(flat_blocks(n, 1), unit) for n, unit in zip(scales, units, strict=True))
        weights = tuple(flat_blocks(each, 1, 1) for each in stored)
        x = tuple(flat_blocks(half, int(has_rows), 1) for half in halves)
        return cls(steps, tuple(halves), x, stored, weights, scale_numbers, result, has_rows)

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return int(ir.MemRefType(self.weights[0].type).shape[0])

    @property
    def rows(self) -> int:
        """Number of rows of activations."""
        return int(ir.MemRefType(self.activations[0].type).shape[0]) if self.has_rows else 1


def is_product(names: Set[str]) -> bool:
    """Return whether the ops of a body may be those of a product with a block-quantized weight."""
    return any(is_kind(names, ops) for ops in BY_KIND.values())


def is_kind(names: Set[str], kind: Set[str]) -> bool:
    """Return whether a body has all ops required of any product and of one kind, and no others but optional ones."""
    return EVERY | kind <= names <= EVERY | kind | MAY


def flat_blocks(value: ir.Value, before: int, behind: int = 0) -> ir.Value:
    """Collapse the dimensions of groups and blocks of a buffer into one.

    Args:
        value: The buffer.
        before: Number of dimensions before those of blocks.
        behind: Number of dimensions after them.
    """
    buffer_type = ir.MemRefType(value.type)
    dims, end = list(range(buffer_type.rank)), buffer_type.rank - behind
    if end - before < MATRIX:
        return value
    groups = [*([d] for d in dims[:before]), dims[before:end], *([d] for d in dims[end:])]
    strides, offset = buffer_type.get_strides_and_offset()
    shape = [*buffer_type.shape[:before], prod(buffer_type.shape[before:end]), *buffer_type.shape[end:]]
    new_strides = [*strides[:before], *strides[end - 1 :]]
    layout = (
        ir.StridedLayoutAttr.get(offset, new_strides) if isinstance(buffer_type.layout, ir.StridedLayoutAttr) else None
    )
    return memref.collapse_shape(ir.MemRefType.get(shape, buffer_type.element_type, layout), value, groups)
