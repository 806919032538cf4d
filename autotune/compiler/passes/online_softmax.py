"""Online softmax: rewrite a fusion group to process columns block by block, without storing whole rows of scores.

Every block may raise the running maximum; partial sums are then multiplied by the exponential of the difference
(Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al., FlashAttention, 2022). This
rewrites the payload before its script, as no transform op corrects partial results. The output is loops over blocks
around structured ops, each with the attribute `PART`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir
from mlir.dialects import arith, bufferization, scf, tensor

from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.nests import indexing_maps, projected, structured_ops
from autotune.compiler.ir.values import index, maker
from autotune.compiler.normalise.emit import generic
from autotune.compiler.passes.group_blocks import Block, Copies
from autotune.compiler.tasks.causal import causal_mask
from autotune.compiler.tasks.groups import find_groups
from autotune.compiler.tasks.softmax import Plan, find_plan
from autotune.core.errors import CompileError
from autotune.core.plugs.rewrites import Blocks
from autotune.core.scripts.marks import COLUMNS, FACTOR, MEMBER, PART, ROW_TOTALS, ROWS, TAG, TOTALS


@dataclass
class RowBlock(Block):
    """A block of rows, and inside the loop over columns, of columns.

    Attributes:
        plan: Plan of the group.
        blocks: Block sizes, the steps of the group's loops.
        starts: Indices along the leading dimensions, and the first row of the block.
        column: First column of the block; `None` outside of the loop over columns.
    """

    plan: Plan
    blocks: Blocks
    starts: list[ir.Value] = field(default_factory=list)
    column: ir.Value | None = None

    @property
    def lead(self) -> int:
        """Number of leading dimensions."""
        return self.plan.rows - 1

    def part(self, op: ir.Operation, loop: int) -> tuple[ir.Value | None, int]:
        """Return start and size of the block in a loop of an op; `None` and 0 if it covers the whole loop."""
        if loop < self.plan.rows:
            return self.starts[loop], self.blocks.rows if loop == self.lead else 1
        if loop == self.plan.columns.get(op):
            return self.column, self.blocks.columns
        return None, 0


def go_online(function: ir.OpView, blocks: Mapping[str, Blocks]) -> None:
    """Replace tagged groups by loops over blocks; the outermost loop takes the tag.

    Args:
        function: Entry function with tags.
        blocks: Block sizes by tag.

    Raises:
        CompileError: Stage ``transform``; a group does not match the pattern.
    """
    groups = find_groups(list(structured_ops(function.regions[0].blocks[0])))
    for ops in [group.ops for group in groups]:
        tag = ir.StringAttr(ops[0].attributes[TAG]).value if TAG in ops[0].attributes else ""
        if tag not in blocks:
            continue
        plan = find_plan(ops)
        if plan is None:
            raise CompileError("transform", f"{tag} must divide by a softmax's sum to go online, it does not")
        mask = causal_mask(ops, plan.rows)
        skips = blocks[tag].skips and mask is not None
        with ir.InsertionPoint(ops[0]), ops[0].location:
            block = RowBlock(plan, replace(blocks[tag], skips=skips))
            Online(plan=plan, block=block, period=mask.period if mask is not None else 0).write()
        for op in ops:
            op.erase()


@dataclass
class Online(Copies):
    """Builder of the loops over blocks of one group.

    Attributes:
        plan: Plan of the group.
        block: Current block.
        period: Rows after which its mask repeats; 0 if it does not.
    """

    plan: Plan = field(kw_only=True)
    block: RowBlock = field(kw_only=True)
    period: int = field(kw_only=True)

    def write(self) -> None:
        """Build the loops at the insertion point, and replace the group's result; the ops are not erased."""
        root = self.plan.ops[-1]
        done = self.loop_over_rows(static_shape(root.results[0])[: self.plan.rows], root.operands[-1])
        done.owner.attributes[TAG] = root.attributes[TAG]
        root.results[0].replace_all_uses_with(done)

    def loop_over_rows(self, sizes: Sequence[int], results: ir.Value) -> ir.Value:
        """Build loops over leading dimensions and blocks of rows that update `results`; return the result."""
        if not sizes:
            return self.write_rows(results)
        step = 1 if len(sizes) > 1 else self.block.blocks.rows
        loop = scf.ForOp(index(0), index(sizes[0]), index(step), [results])
        if len(sizes) == 1:
            mark(loop.results[0], ROWS)
        with ir.InsertionPoint(loop.body):
            self.block.starts.append(loop.induction_variable)
            scf.yield_([self.loop_over_rows(sizes[1:], loop.inner_iter_args[0])])
        return loop.results[0]

    def write_rows(self, results: ir.Value) -> ir.Value:
        """Build one block of rows: ops before the loop over columns, that loop, and ops after it."""
        column_free = [op for op in self.plan.ops if op not in self.plan.columns]
        early = [op for op in column_free if not self.follows(op)]
        for op in early:
            self.put(op)
        self.loop_over_columns([op for op in self.plan.ops if self.plan.reduces(op)])
        for op in column_free:
            if op not in early:
                self.put(op)
        root = self.plan.ops[-1]
        return self.block.write(root, indexing_maps(root)[-1], self.tiles[root.results[0]], results)

    def follows(self, op: ir.Operation) -> bool:
        """Return whether an op depends, possibly indirectly, on an op over columns."""
        producers = [maker(value) for value in op.operands]
        return any(m in self.plan.columns or self.follows(m) for m in producers if m in self.plan.ops)

    def loop_over_columns(self, reductions: Sequence[ir.Operation]) -> None:
        """Build the loop over blocks of columns not hidden by a mask; reductions are loop-carried."""
        sizes = dict(
            zip(projected(indexing_maps(reductions[0])[0]), static_shape(reductions[0].operands[0]), strict=True)
        )
        last = index(sizes[self.plan.columns[reductions[0]]])
        if self.block.blocks.skips:
            row = self.block.starts[-1]
            if self.period:
                row = arith.remui(row, index(self.period))
            last = arith.minui(last, arith.addi(row, index(self.block.blocks.rows)))
        carried = [self.destination(op, lowest=op == self.plan.maximum) for op in reductions]
        loop = scf.ForOp(index(0), last, index(self.block.blocks.columns), carried)
        mark(loop.results[0], COLUMNS)
        with ir.InsertionPoint(loop.body):
            self.block.column = loop.induction_variable
            scf.yield_(self.write_columns(dict(zip(reductions, loop.inner_iter_args, strict=True))))
            self.block.column = None
        self.tiles.update(zip((op.results[0] for op in reductions), loop.results, strict=True))

    def write_columns(self, totals: Mapping[ir.Operation, ir.Value]) -> list[ir.Value]:
        """Build one block of columns; return the values to yield."""
        factor = None
        for op in self.plan.ops:
            if op not in self.plan.columns:
                continue
            if op == self.plan.maximum:
                factor = self.raise_maximum(totals[op])
            elif op in totals and factor is not None:
                self.put(op, scaled(totals[op], factor))
            else:
                self.put(op)
        return [settle(self.tiles[op.results[0]], total) for op, total in totals.items()]

    def raise_maximum(self, old: ir.Value) -> ir.Value:
        """Build the maximum of the old one and the block's.

        Returns:
            Factor for partial sums under the old maximum: the exponential op applied to old and new.
        """
        rows, maximum = ir.AffineMap.get_identity(1), self.plan.maximum
        new = self.generic(maximum, [old], self.put(maximum), [rows, rows], ["parallel"])
        self.tiles[maximum.results[0]] = mark(new, ROW_TOTALS)
        empty = tensor.empty(static_shape(new), new.type.element_type)
        return mark(self.generic(self.plan.exponential, [old, new], empty, [rows, rows, rows], ["parallel"]), FACTOR)

    def put(self, op: ir.Operation, destination: ir.Value | None = None) -> ir.Value:
        """Clone an op of the group on the current block, and mark it."""
        return mark(self.copy(op, destination), f"{MEMBER}{len(self.plan.ops) - 1 - self.plan.ops.index(op)}")


def scaled(total: ir.Value, factor: ir.Value) -> ir.Value:
    """Multiply a total by the factor of its row."""
    rank = len(static_shape(total))
    identity, row_map = ir.AffineMap.get_identity(rank), ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(0)])

    def multiply(of_row: ir.Value, old: ir.Value) -> ir.Value:
        return arith.mulf(old, of_row)

    product = generic([factor], total, [row_map, identity], ["parallel"] * rank, multiply)
    return mark(product, ROW_TOTALS if rank == 1 else TOTALS)


def settle(value: ir.Value, destination: ir.Value) -> ir.Value:
    """Materialize a value in a destination for bufferization."""
    return bufferization.materialize_in_destination(value.type, value, destination)


def mark(made: ir.Value, part: str) -> ir.Value:
    """Mark the op that defines a value as a part of the group; return the value."""
    made.owner.attributes[PART] = ir.StringAttr.get(part)
    return made
