"""Rewrite groups with batch dimensions to loops over them, around the same ops on one matrix.

for i, j, ..: C[i, j] = ..   ->   for i:  for j, ..: C_i[j] = ..
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import scf

from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.nests import indexing_maps
from autotune.compiler.ir.values import fill_of, index
from autotune.compiler.passes.group_blocks import Block, Copies


@dataclass
class MatrixBlock(Block):
    """A block of one matrix, with one index in each leading dimension.

    Attributes:
        starts: Index along each leading dimension.
    """

    starts: Sequence[ir.Value]

    @property
    def lead(self) -> int:
        """Number of leading dimensions."""
        return len(self.starts)

    def part(self, op: ir.Operation, loop: int) -> tuple[ir.Value | None, int]:
        """Return start and size of the block in a loop of an op; `None` and 0 if it covers the whole loop."""
        return (self.starts[loop], 1) if loop < self.lead else (None, 0)


def loop_over_matrices(ops: Sequence[ir.Operation], lead: int) -> dict[ir.Operation, ir.Operation]:
    """Build loops over leading dimensions around clones of ops on one matrix; the ops are not erased.

    Args:
        ops: Group in program order, its root last; the insertion point is before the root.
        lead: Number of leading dimensions.

    Returns:
        Map from every op to its clone.
    """
    root = ops[-1]
    fill = fill_of(root.operands[-1])
    into = root.operands[-1] if fill is None else fill.operands[1]
    new_ops: dict[ir.Operation, ir.Operation] = {}

    def loop(starts: tuple[ir.Value, ...], whole: ir.Value) -> ir.Value:
        if len(starts) < lead:
            size = static_shape(root.results[0])[len(starts)]
            for_op = scf.ForOp(index(0), index(size), index(1), [whole])
            with ir.InsertionPoint(for_op.body):
                scf.yield_([loop((*starts, for_op.induction_variable), for_op.inner_iter_args[0])])
            return for_op.results[0]
        block = MatrixBlock(starts)
        copies = Copies(block)
        for op in ops:
            destination = copies.destination(op, into=whole if op == root else None)
            new_ops[op] = copies.copy(op, destination).owner.operation
        return block.write(root, indexing_maps(root)[-1], copies.tiles[root.results[0]], whole)

    root.results[0].replace_all_uses_with(loop((), into))
    return new_ops
