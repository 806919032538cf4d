"""Facts about the structured ops of a function: iteration space, operands, and where each operand comes from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from mlir import ir

from autotune.compiler.ir.extents import open_dimensions
from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.nests import structured_ops
from autotune.compiler.ir.values import is_constant, maker, static_slice
from autotune.compiler.tasks.read_op import read_op
from autotune.core.ops.op import Op, Operand, ProgramOp
from autotune.core.scripts.marks import TAG

VIEWS = ("tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape")
ALIASING = (  # ops whose result aliases (a part of) their first operand
    *VIEWS,
    "tensor.cast",
    "bufferization.to_tensor",
    "bufferization.materialize_in_destination",
    "linalg.fill",
)
FIELDS = tuple(field.name for field in fields(Op))
INPUTS, WEIGHTS, CONSTANTS = "inputs", "weights", "constants"


def read_ops(function: ir.OpView, roles: Sequence[str]) -> tuple[list[ir.Operation], list[ProgramOp]]:
    """Return the structured ops of a function whose iteration space is known, and the facts about each.

    Args:
        function: Entry function of a payload whose tasks are tagged.
        roles: Role of each of its arguments.
    """
    structured = list(structured_ops(function.regions[0].blocks[0]))
    read = {
        view.operation: known for view, _ in structured if (known := read_op(view.operation)) and known.nest.is_known
    }
    values, tags = Numbers(), tags_of([op.operation for op, _ in structured])
    origins = origins_of(function, roles)
    numbers = {op: number for number, op in enumerate(read)}
    trips = {view.operation: count for view, count in structured}

    def with_origin(operand: Operand, value: ir.Value) -> Operand:
        """Add to an operand where its array comes from."""
        if operand.is_scalar:
            return operand
        origin, derived = origin_of(value, roles), origins.get(value) == WEIGHTS
        array, moves = values.of(value)
        return replace(
            operand,
            value=array,
            moves=moves,
            role="weight" if derived else origin.role,
            source=numbers.get(origin.op) if origin.op is not None and not derived else None,
            viewed=origin.viewed,
        )

    facts: list[ProgramOp] = []
    for op, base in read.items():
        operands = tuple(with_origin(operand, value) for operand, value in zip(base.operands, op.operands, strict=True))
        sources = (inner.operation.operands[0] for inner in op.regions[0].blocks[0].operations if is_extract(inner))
        captured = tuple(
            with_origin(element, next(sources)) if element.gathered else element for element in base.captured
        )
        values_of = {name: getattr(base, name) for name in FIELDS} | {"operands": operands, "captured": captured}
        depends = origins.get(op.results[0], INPUTS)
        facts.append(ProgramOp(**values_of, number=len(facts), task=tags.get(op, ""), trips=trips[op], depends=depends))
    return list(read), facts


def is_extract(op: ir.OpView) -> bool:
    """Return whether an op of a body is a tensor.extract."""
    return bool(op.operation.name == "tensor.extract")


class Numbers:
    """Numbering of arrays, in which all views of an array share its number."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, int] = {}

    def of(self, value: ir.Value) -> tuple[int, bool]:
        """Return the number of the array behind a value, and whether the slice of it changes between iterations."""
        varies = False
        while (made_by := maker(value)) is not None:
            if made_by.name.startswith("linalg.") and made_by.name not in ALIASING:
                init = made_by.operands[-1]
                if maker(init) is None or not isinstance(init.type, ir.RankedTensorType):
                    break
                value = init  # destination-passing style: the result is in the buffer of its init
                continue
            if made_by.name not in ALIASING:
                break
            varies |= made_by.name == "tensor.extract_slice" and moves(made_by)
            value = made_by.operands[-1 if made_by.name == "linalg.fill" else 0]
        return self._known.setdefault(value, len(self._known)), varies


def moves(cut: ir.Operation) -> bool:
    """Return whether the offsets of a slice change between iterations."""
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    offsets, _, _ = static_slice(cut)
    return dynamic in offsets and not all(map(is_constant, list(cut.operands)[1:]))


def tags_of(ops: Sequence[ir.Operation]) -> dict[ir.Operation, str]:
    """Return the task that computes each op: its own tag, or that of its consumer."""
    tags: dict[ir.Operation, str] = {}
    for op in reversed(ops):
        if TAG in op.attributes:
            tags[op] = ir.StringAttr(op.attributes[TAG]).value
            continue
        for use in op.results[0].uses:
            reader = use.owner.operation
            if reader in tags:
                tags[op] = tags[reader]
    return tags


def origins_of(function: ir.OpView, roles: Sequence[str]) -> dict[ir.Value, str]:
    """Return what every value depends on: inputs, weights only, or constants only."""
    order = (CONSTANTS, WEIGHTS, INPUTS)
    levels: dict[ir.Value, int] = {}
    for argument in function.regions[0].blocks[0].arguments:
        role = roles[argument.arg_number]
        levels[argument] = {"weight": 1, "output": 0}.get(role, 2)
    for op in every_op(function.operation):
        level = max((levels.get(value, 0) for value in op.operands), default=0)
        level = max([level, *(levels.get(value, 0) for value in read_inside(op))])
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    levels.setdefault(argument, level)
        for result in op.results:
            levels[result] = level
    return {value: order[level] for value, level in levels.items()}


def read_inside(op: ir.Operation) -> Iterator[ir.Value]:
    """Yield the operands of all operations nested in an operation."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from inner.operation.operands
                yield from read_inside(inner.operation)


def tensors_of(function: ir.OpView) -> tuple[int, tuple[str, ...]]:
    """Return the number of tensors of static shape, and the distinct types of the others."""
    results = [result for op in every_op(function.operation) for result in op.results]
    tensors = [result for result in results if isinstance(result.type, ir.RankedTensorType)]
    dynamic = [str(result.type) for result in tensors if open_dimensions(result)]
    return len(tensors) - len(dynamic), tuple(dict.fromkeys(dynamic))


SAME = ("tensor.cast", "bufferization.to_tensor", "bufferization.materialize_in_destination", "linalg.copy")
LOOP = "scf.for"


@dataclass(frozen=True)
class Origin:
    """Origin of an operand.

    Attributes:
        op: Structured op that computes it, possibly in an earlier iteration; `None` if there is none.
        role: Role of the function argument that holds it; empty if there is none.
        viewed: Whether it is a slice or a reshape of that array.
    """

    op: ir.Operation | None = None
    role: str = ""
    viewed: bool = False


def origin_of(value: ir.Value, roles: Sequence[str]) -> Origin:
    """Trace a value back through views, copies and loops to its origin.

    Args:
        value: Operand of a structured op of the entry function.
        roles: Role of each argument of that function.
    """
    viewed, seen = False, set[ir.Value]()
    while True:
        made_by = maker(value)
        if made_by is None:
            argument = ir.BlockArgument(value)
            owner = argument.owner.owner.operation
            if owner.name != LOOP:
                known = owner.name == "func.func" and argument.arg_number < len(roles)
                return Origin(role=roles[argument.arg_number] if known else "", viewed=viewed)
            if argument.arg_number == 0:
                return Origin(viewed=viewed)
            again = value in seen
            seen.add(value)
            value = carried(owner, argument.arg_number - 1, again=again)
        elif made_by.name in VIEWS:
            viewed, value = True, made_by.operands[0]
        elif made_by.name in SAME:
            value = made_by.operands[0]
        elif made_by.name == "tensor.insert_slice":
            viewed, value = True, made_by.operands[1]  # a cache with a row inserted counts as that cache
        elif made_by.name == LOOP:
            value = carried(made_by, ir.OpResult(value).result_number, again=False)
        elif made_by.name.startswith("linalg.") and made_by.name != "linalg.fill":
            return Origin(made_by, viewed=viewed)
        else:
            return Origin(viewed=viewed)


def carried(loop: ir.Operation, number: int, *, again: bool) -> ir.Value:
    """Return the yielded value of a loop-carried variable, or, if `again`, its initial value."""
    if again:
        return loop.operands[3 + number]
    body = loop.regions[0].blocks[0]
    return list(body.operations)[-1].operation.operands[number]
