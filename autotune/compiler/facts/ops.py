"""The structured ops of a function as facts: their loops, what each reads and writes, and what it is computed from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from autotune.compiler.ir.extents import open_dimensions, static_shape
from autotune.compiler.ir.module import every_op
from autotune.compiler.ir.nests import indexing_maps, loop_nest, structured_ops, terms_of
from autotune.compiler.ir.values import is_constant, maker, static_slice
from autotune.compiler.passes.lifetimes import ELEMENT_BYTES
from autotune.core.ops.facts import Access, OpFacts
from autotune.core.scripts.marks import TAG

SEEN_THROUGH = (  # ops whose result is (a part of) the array that they are given first
    "tensor.extract_slice",
    "tensor.expand_shape",
    "tensor.collapse_shape",
    "tensor.cast",
    "bufferization.to_tensor",
    "bufferization.materialize_in_destination",
    "linalg.fill",
)
NO_FLOPS = ("arith.constant", "arith.select", "arith.index_cast", "arith.extf", "arith.truncf", "arith.sitofp")
INPUTS, WEIGHTS, CONSTANTS = "inputs", "weights", "constants"


def read_ops(function: ir.OpView, roles: Sequence[str]) -> tuple[list[ir.Operation], list[OpFacts]]:
    """Every structured op of a function whose loops are known, and its facts.

    Args:
        function: Entry function of a payload whose tasks are tagged.
        roles: Role of each of its arguments.
    """
    found = list(structured_ops(function.regions[0].blocks[0]))
    values, tags = Numbers(), tags_of([op.operation for op, _ in found])
    origins = origins_of(function, roles)
    numbers = {view.operation: n for n, view in enumerate(view for view, _ in found if loop_nest(view.operation))}
    ops: list[ir.Operation] = []
    facts: list[OpFacts] = []
    for view, trips in found:
        op, nest = view.operation, loop_nest(view.operation)
        if nest is None:
            continue
        operands = sum(isinstance(value.type, ir.RankedTensorType) for value in op.operands)
        accesses = []
        for index, (value, amap) in enumerate(read_and_written(op)):
            origin, derived = origin_of(value, roles), origins.get(value) == WEIGHTS
            accesses.append(
                replace(
                    access_of(value, amap, values),
                    held="weight" if derived else origin.held,
                    source=numbers.get(origin.op) if origin.op is not None and not derived else None,
                    viewed=origin.viewed,
                    written=index == operands - 1,
                    gathered=index >= operands,
                )
            )
        flops = sum(map(is_floating, op.regions[0].blocks[0].operations)) if op.regions else 0
        points = 1
        for size in nest.sizes:
            points *= size
        facts.append(
            OpFacts(
                len(ops),
                op.name.removeprefix("linalg."),
                tags.get(op, ""),
                nest.sizes,
                str(op.results[0].type).removeprefix("tensor<").removesuffix(">"),
                trips,
                flops * points,
                tuple(accesses),
                origins.get(op.results[0], INPUTS),
            )
        )
        ops.append(op)
    return ops, facts


def read_and_written(op: ir.Operation) -> Iterator[tuple[ir.Value, ir.AffineMap]]:
    """Arrays of an op with their maps: those it reads in its loops, and those it writes; a result is written once."""
    for value, amap in zip(op.operands, indexing_maps(op), strict=False):
        if isinstance(value.type, ir.RankedTensorType):
            yield value, amap
    if op.regions:
        body = op.regions[0].blocks[0]
        for inner in body.operations:
            if inner.operation.name == "tensor.extract":
                yield gathered_from(inner.operation, op)


def gathered_from(extract: ir.Operation, op: ir.Operation) -> tuple[ir.Value, ir.AffineMap]:
    """An array that a body reads at computed places, as if those were the loops' own where nothing better is known."""
    source, loops = extract.operands[0], indexing_maps(op)[0].n_dims
    exprs = []
    for place in list(extract.operands)[1:]:
        made_by = maker(place)
        known = made_by is not None and made_by.name == "linalg.index"
        number = ir.IntegerAttr(made_by.attributes["dim"]).value if made_by is not None and known else 0
        exprs.append(ir.AffineExpr.get_dim(number))
    return source, ir.AffineMap.get(loops, 0, exprs)


def access_of(value: ir.Value, amap: ir.AffineMap, values: "Numbers") -> Access:
    """One array of an op."""
    kind = ir.RankedTensorType(value.type)
    number, fresh = values.of(value)
    return Access(
        number,
        tuple(static_shape(value)),
        tuple(terms_of(expr) for expr in amap.results),
        ELEMENT_BYTES.get(str(kind.element_type), 4),
        fresh,
    )


class Numbers:
    """Numbers of arrays: views of one array have the number of that array."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, int] = {}

    def of(self, value: ir.Value) -> tuple[int, bool]:
        """The number of the array that a value is a part of, and whether a loop takes another part each time."""
        fresh = False
        while (made_by := maker(value)) is not None:
            if made_by.name.startswith("linalg.") and made_by.name not in SEEN_THROUGH:
                before = made_by.operands[-1]
                if maker(before) is None or not isinstance(before.type, ir.RankedTensorType):
                    break
                value = before  # what an op gives lies where it was told to write
                continue
            if made_by.name not in SEEN_THROUGH:
                break
            fresh |= made_by.name == "tensor.extract_slice" and moves(made_by)
            value = made_by.operands[-1 if made_by.name == "linalg.fill" else 0]
        return self._known.setdefault(value, len(self._known)), fresh


def moves(cut: ir.Operation) -> bool:
    """Tell whether a slice is at another place each time."""
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    offsets, _, _ = static_slice(cut)
    return dynamic in offsets and not all(map(is_constant, list(cut.operands)[1:]))


def is_floating(op: ir.OpView) -> bool:
    """Tell whether an op of a body is one floating-point operation an element."""
    name = op.operation.name
    kinds = [result.type for result in op.operation.results]
    return name.startswith(("arith.", "math.")) and name not in NO_FLOPS and any(map(is_float, kinds))


def is_float(kind: ir.Type) -> bool:
    """Tell whether a type is one of floating-point numbers."""
    return isinstance(kind, ir.FloatType)


def tags_of(ops: Sequence[ir.Operation]) -> dict[ir.Operation, str]:
    """The task that computes each op: its own tag, or that of the op that reads it."""
    found: dict[ir.Operation, str] = {}
    for op in reversed(ops):
        if TAG in op.attributes:
            found[op] = ir.StringAttr(op.attributes[TAG]).value
            continue
        for use in op.results[0].uses:
            reader = use.owner.operation
            if reader in found:
                found[op] = found[reader]
    return found


def origins_of(function: ir.OpView, roles: Sequence[str]) -> dict[ir.Value, str]:
    """What every value follows from: inputs, weights alone, or constants alone."""
    order = (CONSTANTS, WEIGHTS, INPUTS)
    found: dict[ir.Value, int] = {}
    for argument in function.regions[0].blocks[0].arguments:
        role = roles[argument.arg_number]
        found[argument] = {"weight": 1, "output": 0}.get(role, 2)
    for op in every_op(function.operation):
        level = max((found.get(value, 0) for value in op.operands), default=0)
        level = max([level, *(found.get(value, 0) for value in read_inside(op))])
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    found.setdefault(argument, level)
        for result in op.results:
            found[result] = level
    return {value: order[level] for value, level in found.items()}


def read_inside(op: ir.Operation) -> Iterator[ir.Value]:
    """Values that the ops inside an op read."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from inner.operation.operands
                yield from read_inside(inner.operation)


def tensors_of(function: ir.OpView) -> tuple[int, tuple[str, ...]]:
    """How many tensors have sizes that are all known, and the types of the others."""
    results = [result for op in every_op(function.operation) for result in op.results]
    tensors = [result for result in results if isinstance(result.type, ir.RankedTensorType)]
    dynamic = [str(result.type) for result in tensors if open_dimensions(result)]
    return len(tensors) - len(dynamic), tuple(dict.fromkeys(dynamic))


VIEWS = ("tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape")
SAME = ("tensor.cast", "bufferization.to_tensor", "bufferization.materialize_in_destination", "linalg.copy")
LOOP = "scf.for"


@dataclass(frozen=True)
class Origin:
    """Where an operand comes from.

    Attributes:
        op: The structured op that computes it, also in an earlier iteration; `None` where none does.
        held: Role of the argument that holds it; empty where an op computes it.
        viewed: Whether it is a slice or another shape of that.
    """

    op: ir.Operation | None = None
    held: str = ""
    viewed: bool = False


def origin_of(value: ir.Value, roles: Sequence[str]) -> Origin:
    """Where a value comes from.

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
                return Origin(held=roles[argument.arg_number] if known else "", viewed=viewed)
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
            viewed, value = True, made_by.operands[1]  # a cache with a row more is that cache
        elif made_by.name == LOOP:
            value = carried(made_by, ir.OpResult(value).result_number, again=False)
        elif made_by.name.startswith("linalg.") and made_by.name != "linalg.fill":
            return Origin(made_by, viewed=viewed)
        else:
            return Origin(viewed=viewed)


def carried(loop: ir.Operation, number: int, *, again: bool) -> ir.Value:
    """What a loop carries: the value that its body gives; the one it begins with where that leads back to itself."""
    if again:
        return loop.operands[3 + number]
    body = loop.regions[0].blocks[0]
    return list(body.operations)[-1].operation.operands[number]
