"""What a product with a weight in blocks multiplies, read from the op that `emit` wrote, on buffers."""

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
BY_KIND = {  # ops of a body, by bits and sign
    (8, True): set[str](),
    (4, True): {"arith.extsi", "arith.shli", "arith.shrsi"},
    (4, False): {"arith.extui", "arith.andi", "arith.shrui"},
}


@dataclass(frozen=True)
class BlockOperands:
    """What an op multiplies, on buffers; without rows, m is missing everywhere.

    Attributes:
        steps: How a row is multiplied.
        given: Activations for each half of a block, f32, as the op has them, maybe with groups.
        halves: The same as ``(m, blocks, 16)``.
        stored: Bytes of the weight likewise: of each half of a block, or of nibbles of both.
        weights: The same as ``(n, blocks, 16)``.
        scales: Scales and least numbers ``(n, blocks)``.
        result: Sums ``(m, n)``, f32, that are added to.
        has_rows: Whether there is m.
    """

    steps: BlockSteps
    given: tuple[ir.Value, ...]
    halves: tuple[ir.Value, ...]
    stored: tuple[ir.Value, ...]
    weights: tuple[ir.Value, ...]
    scales: tuple[StoredNumbers, ...]
    result: ir.Value
    has_rows: bool

    @classmethod
    def of(cls, op: ir.Operation) -> "BlockOperands":
        """The operands of an op; at the insertion point, they are brought into form.

        Raises:
            CompileError: Stage ``transform``; it is no product with a weight in blocks.
        """
        *inputs, result = list(op.operands)
        kinds = [str(ir.MemRefType(each.type).element_type) for each in inputs]
        if "i8" not in kinds:
            raise CompileError("transform", f"a product in blocks must multiply bytes, its operands are {kinds}")
        first = kinds.index("i8")
        ranks = [ir.MemRefType(each.type).rank for each in inputs]
        count = list(zip(kinds, ranks, strict=True)).count(("i8", ranks[first]))
        halves, numbers = inputs[:first], inputs[first + count :]
        names = {each.operation.name for each in op.regions[0].blocks[0].operations}
        grouped = "i8" in kinds[first + count :]
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
        found = tuple(StoredNumbers(flat_blocks(n, 1), unit) for n, unit in zip(scales, units, strict=True))
        weights = tuple(flat_blocks(each, 1, 1) for each in stored)
        x = tuple(flat_blocks(half, int(has_rows), 1) for half in halves)
        return cls(steps, tuple(halves), x, stored, weights, found, result, has_rows)

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return int(ir.MemRefType(self.weights[0].type).shape[0])

    @property
    def rows(self) -> int:
        """Rows of activations."""
        return int(ir.MemRefType(self.given[0].type).shape[0]) if self.has_rows else 1


def is_product(names: Set[str]) -> bool:
    """Whether the ops of a body may be those of a product with a weight in blocks."""
    return any(is_kind(names, kind) for kind in BY_KIND.values())


def is_kind(names: Set[str], kind: Set[str]) -> bool:
    """Whether a body has the ops of all products with a weight in blocks and of one kind, and at most those."""
    return EVERY | kind <= names <= EVERY | kind | MAY


def flat_blocks(value: ir.Value, before: int, behind: int = 0) -> ir.Value:
    """A buffer whose groups of blocks are one dimension.

    Args:
        value: The buffer.
        before: Dimensions before those of blocks.
        behind: Dimensions behind them.
    """
    kind = ir.MemRefType(value.type)
    dims, end = list(range(kind.rank)), kind.rank - behind
    if end - before < MATRIX:
        return value
    groups = [*([d] for d in dims[:before]), dims[before:end], *([d] for d in dims[end:])]
    strides, offset = kind.get_strides_and_offset()
    shape = [*kind.shape[:before], prod(kind.shape[before:end]), *kind.shape[end:]]
    kept = [*strides[:before], *strides[end - 1 :]]
    layout = ir.StridedLayoutAttr.get(offset, kept) if isinstance(kind.layout, ir.StridedLayoutAttr) else None
    return memref.collapse_shape(ir.MemRefType.get(shape, kind.element_type, layout), value, groups)
