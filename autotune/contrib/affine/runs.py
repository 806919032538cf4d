"""Ops on buffers that follow each other, outlined into a function of their own, and inlined as loops."""

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
BESIDES = ("linalg.fill", "linalg.copy")  # what bufferization leaves between ops of a task
VIEWED = ("memref.subview", "memref.expand_shape")  # folded into accesses
HARMLESS = {ALLOC, CONSTANT, *VIEWED, "memref.collapse_shape"}  # they may come before ops that they follow
NAME = "loops"


@dataclass
class OpRun:
    """Ops of one block that follow each other.

    Attributes:
        ops: The ops, on buffers.
        between: Ops between them that make what they need, and may come before them all.
    """

    ops: list[ir.Operation] = field(default_factory=list)
    between: list[ir.Operation] = field(default_factory=list)

    @property
    def plan(self) -> ir.Attribute:
        """What the ops' mark says."""
        return self.ops[0].attributes[MARK]


def find_runs(ops: list[ir.Operation]) -> Iterator[OpRun]:
    """Runs of marked ops, in program order: up to the last of a task, or to an op that must stay where it is.

    Args:
        ops: Every op of a module.
    """
    blocks = dict.fromkeys(op.block for op in ops if MARK in op.attributes)
    for block in blocks:
        yield from runs_of([op.operation for op in block.operations])


def runs_of(ops: list[ir.Operation]) -> Iterator[OpRun]:
    """Runs of marked ops of one block."""
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
    """The ops of a run in a function of their own.

    Attributes:
        module: Module of the function alone.
        given: What the function's arguments stand for.
        after: The op that followed the run.
    """

    module: ir.Module
    given: list[ir.Value]
    after: ir.Operation

    @classmethod
    def of(cls, run: OpRun) -> "Outline":
        """Take a run's ops out of its program, with buffers that only they use, and copies of views and constants.

        Raises:
            CompileError: Stage ``transform``; a buffer may be a part of another.
        """
        for op in run.between:
            op.move_before(run.ops[0])
        after = following(run.ops[-1])
        made, used = with_makers(values_from_outside(run.ops))
        own = [value for value in used if is_own(value, run.ops)]
        given = [value for value in used if value not in own]
        check_apart(given, written_by(run.ops))
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(NAME, ([value.type for value in given], []))
            function.add_entry_block()
        with ir.InsertionPoint(function.entry_block):
            end = func.ReturnOp([]).operation
        for op in [*(value.owner.operation for value in own), *run.ops]:
            op.move_before(end)
        copies = [op.clone(ir.InsertionPoint(run.ops[0])) for op in made]
        for op, copy in zip(made, copies, strict=True):
            replace_in([*copies, *run.ops], op.results[0], copy.results[0])
        for value, argument in zip(given, function.entry_block.arguments, strict=True):
            replace_in([*copies, *run.ops], value, argument)
        return cls(module, given, after)

    @property
    def function(self) -> ir.Operation:
        """The function."""
        return next(iter(self.module.body.operations)).operation

    def put_back(self) -> None:
        """Move what the function has become to where the run was."""
        block = self.function.regions[0].blocks[0]
        for argument, value in zip(list(block.arguments), self.given, strict=True):
            argument.replace_all_uses_with(value)
        for op in list(block.operations)[:-1]:
            op.operation.move_before(self.after)


def following(op: ir.Operation) -> ir.Operation:
    """The op behind another; every block ends in one."""
    ops = [each.operation for each in op.block.operations]
    return ops[ops.index(op) + 1]


def values_from_outside(ops: list[ir.Operation]) -> list[ir.Value]:
    """Values that ops use, also inside of them, and do not make."""
    inside: set[ir.Operation] = {each for op in ops for each in every_op(op)}
    found: dict[ir.Value, None] = {}
    for op in inside_in_order(ops):
        for value in op.operands:
            owner = value.owner
            around = owner.owner.operation if isinstance(owner, ir.Block) else owner.operation
            if around not in inside:
                found.setdefault(value)
    return list(found)


def inside_in_order(ops: list[ir.Operation]) -> Iterator[ir.Operation]:
    """Ops, and all ops inside of them."""
    for op in ops:
        yield from every_op(op)


def with_makers(values: list[ir.Value]) -> tuple[list[ir.Operation], list[ir.Value]]:
    """Constants and views among values, and those that views are of, each behind what it needs; and what is left."""
    made: dict[ir.Operation, None] = {}
    left: dict[ir.Value, None] = {}

    def visit(value: ir.Value) -> None:
        op = maker(value)
        if op is None or not (op.name == CONSTANT or op.name in VIEWED):
            left.setdefault(value)
        elif op not in made:
            for operand in op.operands:
                visit(operand)
            made.setdefault(op)

    for value in values:
        visit(value)
    return list(made), list(left)


def is_own(value: ir.Value, ops: list[ir.Operation]) -> bool:
    """Return whether a value is a buffer that only these ops use."""
    made_by = maker(value)
    if made_by is None or made_by.name != ALLOC or len(made_by.operands):
        return False
    return made_by.block == ops[0].block and all(use.owner.operation in ops for use in value.uses)


def replace_in(ops: list[ir.Operation], old: ir.Value, new: ir.Value) -> None:
    """Let ops use another value, also inside of them."""
    for op in inside_in_order(ops):
        op.replace_uses_of_with(old, new)


def check_apart(given: list[ir.Value], written: list[ir.Value]) -> None:
    """Raise where what is written may be a part of another buffer: upstream takes buffers to be apart, row by row.

    Raises:
        CompileError: Stage ``transform``; there is such a buffer.
    """
    memory = [value for value in given if is_memory(value)]
    for value in memory:
        kind = ir.MemRefType(value.type)
        laid_out = kind.affine_map != ir.AffineMap.get_identity(kind.rank)
        shares = any(other != value and base(other) == base(value) for other in memory)
        if laid_out or (shares and base(value) in map(base, written)):
            raise CompileError("transform", f"affine loops must access whole buffers, one is a part: {kind}")


def written_by(ops: list[ir.Operation]) -> list[ir.Value]:
    """Buffers that structured ops write."""
    found = []
    for op in ops:
        sizes = op.attributes.get("operandSegmentSizes", None)  # a transpose or broadcast has none, and one result
        found += list(op.operands)[-1 if sizes is None else ir.DenseI32ArrayAttr(sizes)[0] :]
    return found


def base(value: ir.Value) -> ir.Value:
    """The buffer that a view is of."""
    made_by = maker(value)
    return base(made_by.operands[0]) if made_by is not None and made_by.name in VIEWS else value


def check_folded(function: ir.Operation) -> None:
    """Raise where a view is left that could not be folded into what reads and writes it.

    Raises:
        CompileError: Stage ``transform``; there is such a view.
    """
    left = [op for op in every_op(function) if op.name in VIEWED]
    if left:
        raise CompileError(
            "transform", f"affine loops must access whole buffers, one is a part: {left[0].results[0].type}"
        )
