"""Outlining of consecutive ops on buffers into a function, and inlining of the resulting loops."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.values import maker
from autotune.compiler.passes.lifetimes import VIEWS, is_memory
from autotune.contrib.affine.plan import LAST, MARK
from autotune.core.errors import CompileError

ALLOC, CONSTANT = "memref.alloc", "arith.constant"
BESIDES = ("linalg.fill", "linalg.copy")  # ops that bufferization leaves between the ops of a task
VIEWED = ("memref.subview", "memref.expand_shape")  # views that are folded into accesses
HARMLESS = {ALLOC, CONSTANT, *VIEWED, "memref.collapse_shape"}  # ops that can be moved before a run
NAME = "loops"


@dataclass
class OpRun:
    """Consecutive ops of one block.

    Attributes:
        ops: The ops, on buffers.
        between: Ops between them that define operands and can be moved before all of them.
    """

    ops: list[ir.Operation] = field(default_factory=list)
    between: list[ir.Operation] = field(default_factory=list)

    @property
    def plan(self) -> ir.Attribute:
        """Value of the ops' mark."""
        return self.ops[0].attributes[MARK]


def find_runs(ops: list[ir.Operation]) -> Iterator[OpRun]:
    """Yield runs of marked ops in program order, each up to the last op of a task or to an op that cannot be moved.

    Args:
        ops: All ops of a module.
    """
    blocks = dict.fromkeys(op.block for op in ops if MARK in op.attributes)
    for block in blocks:
        yield from runs_of([op.operation for op in block.operations])


def runs_of(ops: list[ir.Operation]) -> Iterator[OpRun]:
    """Yield the runs of marked ops of one block."""
    run, waiting = OpRun(), OpRun()
    for op in ops:
        if MARK in op.attributes:
            run.ops += [*waiting.ops, op]
            run.between += waiting.between
            waiting = OpRun()
            if not is_last(op):
                continue
        elif op.name in BESIDES and run.ops:
            waiting.ops.append(op)
            continue
        elif op.name in HARMLESS and run.ops:
            waiting.between.append(op)
            continue
        if run.ops:
            yield run
        run, waiting = OpRun(), OpRun()


def is_last(op: ir.Operation) -> bool:
    """Return whether a marked op is the last of its task."""
    attribute = op.attributes[MARK]
    return isinstance(attribute, ir.DictAttr) and LAST in attribute


@dataclass
class Outline:
    """The ops of a run, outlined into a function.

    Attributes:
        module: Module with only that function.
        values: Values that the function's arguments stand for.
        after: Operation that followed the run.
    """

    module: ir.Module
    values: list[ir.Value]
    after: ir.Operation

    @classmethod
    def of(cls, run: OpRun) -> "Outline":
        """Outline a run, with buffers that only its ops use, and with copies of views and constants.

        Raises:
            CompileError: Stage ``transform``; a buffer may alias another.
        """
        for op in run.between:
            op.move_before(run.ops[0])
        after = following(run.ops[-1])
        definitions, used = with_makers(values_from_outside(run.ops))
        own = [value for value in used if is_own(value, run.ops)]
        inputs = [value for value in used if value not in own]
        check_apart(inputs, written_by(run.ops))
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(NAME, ([value.type for value in inputs], []))
            function.add_entry_block()
        with ir.InsertionPoint(function.entry_block):
            end = func.ReturnOp([]).operation
        for op in [*(value.owner.operation for value in own), *run.ops]:
            op.move_before(end)
        copies = [op.clone(ir.InsertionPoint(run.ops[0])) for op in definitions]
        for op, copy in zip(definitions, copies, strict=True):
            replace_in([*copies, *run.ops], op.results[0], copy.results[0])
        for value, argument in zip(inputs, function.entry_block.arguments, strict=True):
            replace_in([*copies, *run.ops], value, argument)
        return cls(module, inputs, after)

    @property
    def function(self) -> ir.Operation:
        """Outlined function."""
        return next(iter(self.module.body.operations)).operation

    def inline(self) -> None:
        """Inline the function's ops where the run was."""
        block = self.function.regions[0].blocks[0]
        for argument, value in zip(list(block.arguments), self.values, strict=True):
            argument.replace_all_uses_with(value)
        for op in list(block.operations)[:-1]:
            op.operation.move_before(self.after)


def following(op: ir.Operation) -> ir.Operation:
    """Return the op after another; every block ends with a terminator."""
    ops = [each.operation for each in op.block.operations]
    return ops[ops.index(op) + 1]


def values_from_outside(ops: list[ir.Operation]) -> list[ir.Value]:
    """Return the values that ops use, also in nested regions, and that are defined outside of them."""
    nested: set[ir.Operation] = {each for op in ops for each in every_op(op)}
    outside_values: dict[ir.Value, None] = {}
    for op in inside_in_order(ops):
        for value in op.operands:
            owner = value.owner
            parent = owner.owner.operation if isinstance(owner, ir.Block) else owner.operation
            if parent not in nested:
                outside_values.setdefault(value)
    return list(outside_values)


def inside_in_order(ops: list[ir.Operation]) -> Iterator[ir.Operation]:
    """Yield ops and all ops nested in them."""
    for op in ops:
        yield from every_op(op)


def with_makers(values: list[ir.Value]) -> tuple[list[ir.Operation], list[ir.Value]]:
    """Split values into constants and views, with all views they depend on, in order of definition, and the rest."""
    ops: dict[ir.Operation, None] = {}
    leaves: dict[ir.Value, None] = {}

    def visit(value: ir.Value) -> None:
        op = maker(value)
        if op is None or not (op.name == CONSTANT or op.name in VIEWED):
            leaves.setdefault(value)
        elif op not in ops:
            for operand in op.operands:
                visit(operand)
            ops.setdefault(op)

    for value in values:
        visit(value)
    return list(ops), list(leaves)


def is_own(value: ir.Value, ops: list[ir.Operation]) -> bool:
    """Return whether a value is a buffer that only these ops use."""
    producer = maker(value)
    if producer is None or producer.name != ALLOC or len(producer.operands):
        return False
    return producer.block == ops[0].block and all(use.owner.operation in ops for use in value.uses)


def replace_in(ops: list[ir.Operation], old: ir.Value, new: ir.Value) -> None:
    """Replace a value in ops and in all ops nested in them."""
    for op in inside_in_order(ops):
        op.replace_uses_of_with(old, new)


def check_apart(values: list[ir.Value], written: list[ir.Value]) -> None:
    """Check that no written buffer may alias another: upstream's passes assume distinct, row-major buffers.

    Raises:
        CompileError: Stage ``transform``; there is such a buffer.
    """
    memory = [value for value in values if is_memory(value)]
    for value in memory:
        buffer_type = ir.MemRefType(value.type)
        has_layout = buffer_type.affine_map != ir.AffineMap.get_identity(buffer_type.rank)
        shares = any(other != value and base(other) == base(value) for other in memory)
        if has_layout or (shares and base(value) in map(base, written)):
            raise CompileError("transform", f"affine loops must access whole buffers, one is a part: {buffer_type}")


def written_by(ops: list[ir.Operation]) -> list[ir.Value]:
    """Return the buffers that structured ops write."""
    buffers = []
    for op in ops:
        sizes = op.attributes.get("operandSegmentSizes", None)  # a transpose or broadcast has none, and one result
        buffers += list(op.operands)[-1 if sizes is None else ir.DenseI32ArrayAttr(sizes)[0] :]
    return buffers


def base(value: ir.Value) -> ir.Value:
    """Return the underlying buffer of a view."""
    producer = maker(value)
    return base(producer.operands[0]) if producer is not None and producer.name in VIEWS else value


def check_folded(function: ir.Operation) -> None:
    """Check that no view is left that could not be folded into its accesses.

    Raises:
        CompileError: Stage ``transform``; there is such a view.
    """
    left = [op for op in every_op(function) if op.name in VIEWED]
    if left:
        raise CompileError(
            "transform", f"affine loops must access whole buffers, one is a part: {left[0].results[0].type}"
        )
