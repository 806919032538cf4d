"""Groups with leading dimensions as loops over them, around the same ops on one matrix at a time.

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
    """One of every leading dimension.

    Attributes:
        starts: Index along each of them.
    """

    starts: Sequence[ir.Value]

    @property
    def lead(self) -> int:
        """Their number."""
        return len(self.starts)

    def part(self, op: ir.Operation, loop: int) -> tuple[ir.Value | None, int]:
        """Where the block starts in a loop of an op, and how long it is there."""
        return (self.starts[loop], 1) if loop < self.lead else (None, 0)


def loop_over_matrices(ops: Sequence[ir.Operation], lead: int) -> dict[ir.Operation, ir.Operation]:
    """Write loops over leading dimensions around copies of ops, which read one matrix each; erases nothing.

    Args:
        ops: A group in program order, its root last; the insertion point is before the root.
        lead: Leading dimensions.

    Returns:
        The copy of every op.
    """
    root = ops[-1]
    fill = fill_of(root.operands[-1])
    into = root.operands[-1] if fill is None else fill.operands[1]
    made: dict[ir.Operation, ir.Operation] = {}

    def loop(starts: tuple[ir.Value, ...], whole: ir.Value) -> ir.Value:
        if len(starts) < lead:
            size = static_shape(root.results[0])[len(starts)]
            around = scf.ForOp(index(0), index(size), index(1), [whole])
            with ir.InsertionPoint(around.body):
                scf.yield_([loop((*starts, around.induction_variable), around.inner_iter_args[0])])
            return around.results[0]
        block = MatrixBlock(starts)
        copies = Copies(block)
        for op in ops:
            destination = copies.destination(op, into=whole if op == root else None)
            made[op] = copies.copy(op, destination).owner.operation
        return block.write(root, indexing_maps(root)[-1], copies.tiles[root.results[0]], whole)

    root.results[0].replace_all_uses_with(loop((), into))
    return made
