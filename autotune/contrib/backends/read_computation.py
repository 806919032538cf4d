"""Reading what a task computes off its text: structured ops and their bodies, as plain data."""

from collections.abc import Mapping

from mlir import ir

from autotune.compiler.ir.module import context, find_function, parse
from autotune.compiler.ir.nests import indexing_maps, loop_nest
from autotune.compiler.ir.values import fill_of, is_constant
from autotune.compiler.tasks.outline import is_fresh
from autotune.contrib.backends.computation import ArrayRead, Computation, ComputedOp, LinearIndex, Number, ScalarOp
from autotune.core.payload import Payload

PASSED_OVER = (
    "tensor.empty",
    "linalg.fill",
    "arith.constant",
    "func.return",
    "bufferization.materialize_in_destination",
)
VALUES = ("value", "predicate", "dim")  # attributes of scalar ops that are numbers


def read_computation(payload: Payload) -> Computation | None:
    """What the text of a task computes; `None` where an op or index is of a kind that is not described.

    Args:
        payload: A task's payload, as `outline` writes it.
    """
    with context():
        module = parse(payload.text, payload.name)
        block = find_function(module, payload.entry).regions[0].blocks[0]
        names: dict[ir.Value, str] = {}
        ops: list[ComputedOp] = []
        for view in block.operations:
            op = view.operation
            if op.name == "bufferization.to_tensor":
                names[op.results[0]] = payload.arguments[ir.BlockArgument(op.operands[0]).arg_number].name
            elif op.name not in PASSED_OVER:
                found = read_op(op, names, f"op{len(ops)}")
                if found is None:
                    return None
                names[op.results[0]] = found.name
                ops.append(found)
    arguments = tuple(argument.name for argument in payload.arguments if argument.role != "output")
    return Computation(arguments, tuple(ops)) if ops else None


def read_op(op: ir.Operation, names: Mapping[ir.Value, str], name: str) -> ComputedOp | None:
    """A structured op; `None` where it is no such op, or of a kind that is not described."""
    maps, nest = indexing_maps(op), loop_nest(op)
    if not maps or nest is None or len(op.results) != 1 or any(value not in names for value in list(op.operands)[:-1]):
        return None
    indices = [read_map(amap) for amap in maps]
    body, last = read_body(op), len(op.operands) - 1
    start = start_of(op, names)
    if body is None or any(index is None for index in indices) or start == "":
        return None
    known = [index for index in indices if index is not None]
    reads = tuple(ArrayRead(names[op.operands[position]], known[position]) for position in range(last))
    kind = ir.RankedTensorType(op.results[0].type)
    steps, gives = body
    shape, dtype = tuple(kind.shape), str(kind.element_type)
    return ComputedOp(name, shape, dtype, nest.sizes, reads, known[-1], start, steps, gives)


def start_of(op: ir.Operation, names: Mapping[ir.Value, str]) -> Number | str | None:
    """What an op finds where it writes; an empty name where that is not known."""
    last = len(op.operands) - 1
    fill = fill_of(op.operands[last])
    if fill is not None and is_constant(fill.operands[0]):
        return number_of(fill.operands[0].owner.operation, "value")
    return None if is_fresh(op, last, last) else names.get(op.operands[last], "")


def read_map(amap: ir.AffineMap) -> tuple[LinearIndex, ...] | None:
    """The indices of a map; `None` where one is no sum of loops."""
    found = [linear(expr) for expr in amap.results]
    known = tuple(index for index in found if index is not None)
    return known if len(known) == len(found) else None


def linear(expr: ir.AffineExpr) -> LinearIndex | None:
    """An index as a sum of loops with coefficients; `None` where it is no such sum."""
    if isinstance(expr, ir.AffineDimExpr):
        return LinearIndex(((expr.position, 1),))
    if isinstance(expr, ir.AffineConstantExpr):
        return LinearIndex((), expr.value)
    if not isinstance(expr, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    left, right = linear(expr.lhs), linear(expr.rhs)
    if left is None or right is None or (isinstance(expr, ir.AffineMulExpr) and left.terms and right.terms):
        return None
    if isinstance(expr, ir.AffineAddExpr):
        return LinearIndex((*left.terms, *right.terms), left.constant + right.constant)
    sum_of, factor = (left, right.constant) if left.terms else (right, left.constant)
    return LinearIndex(tuple((loop, c * factor) for loop, c in sum_of.terms), sum_of.constant * factor)


def read_body(op: ir.Operation) -> tuple[tuple[ScalarOp, ...], int] | None:
    """The arithmetic of an op, and the number of the value that it gives; `None` where there is none."""
    if not op.regions or not len(op.regions[0].blocks):
        return None
    block = op.regions[0].blocks[0]
    numbers: dict[ir.Value, int] = {argument: place for place, argument in enumerate(block.arguments)}
    steps: list[ScalarOp] = []

    def number(value: ir.Value) -> int | None:
        if value not in numbers and is_constant(value):  # from outside of the op
            add(value.owner.operation)
        return numbers.get(value)

    def add(inner: ir.Operation) -> bool:
        operands = [number(value) for value in inner.operands]
        known = tuple(place for place in operands if place is not None)
        if len(known) < len(operands) or len(inner.results) != 1 or len(inner.regions):
            return False
        values = [number_of(inner, name) for name in VALUES if name in inner.attributes]
        numbers[inner.results[0]] = len(block.arguments) + len(steps)
        steps.append(ScalarOp(inner.name, known, str(inner.results[0].type), values[0] if values else None))
        return True

    *inside, last = (view.operation for view in block.operations)
    if not all(map(add, inside)):
        return None
    gives = number(last.operands[0])
    return (tuple(steps), gives) if gives is not None else None


def number_of(op: ir.Operation, name: str) -> Number | None:
    """The number that an attribute of an op is; `None` where it is none."""
    attribute = op.attributes[name]
    for kind in (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr):
        if isinstance(attribute, kind):
            found: Number = attribute.value
            return found
    return None
