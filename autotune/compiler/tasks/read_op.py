"""Convert structured operations of the MLIR bindings to `Op`, once; further analyses use the plain data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.extents import open_dimensions, static_shape
from autotune.compiler.ir.module import context, parse
from autotune.compiler.ir.nests import indexing_maps, loop_nest, read_index, structured_ops
from autotune.compiler.ir.values import fill_of, is_constant, is_fresh, maker
from autotune.compiler.tasks.weights import weight_behind
from autotune.core.errors import CompileError
from autotune.core.ops import traversal
from autotune.core.ops.op import BodyOp, Index, LoopNest, Number, Op, Operand
from autotune.core.task_names import readable_name

NUMBERS = ("value", "predicate", "dim")  # numeric attributes of scalar operations


def read_op(op: ir.Operation, roles: Sequence[str] = ()) -> Op | None:
    """Return a structured operation as plain data; `None` if it has no indexing maps, such as ``linalg.softmax``.

    Args:
        op: Structured operation.
        roles: Role of each argument of the entry function that contains it; without roles, no operand is a weight.
    """
    maps = indexing_maps(op)
    if not maps:
        return None
    results = len(op.results)
    operands = tuple(read_operand(op, number, amap, roles) for number, amap in enumerate(maps[: len(op.operands)]))
    body = BodyReader(op, maps[0].n_dims)
    written = {loop for each in operands[len(operands) - results :] for loop in each.loops}
    iterators = tuple("parallel" if loop in written else "reduction" for loop in range(maps[0].n_dims))
    read = Op(
        loop_nest(op) or LoopNest((), iterators),
        filled=len(operands) - 1 if operands[-1].is_filled else None,
        kind=op.name.removeprefix("linalg."),
        operands=operands,
        captured=tuple(body.captured),
        body=tuple(body.steps),
        gives=body.gives,
        results=results,
        multiplies=bool(linalg.isa_contraction_op(op)),
    )
    return replace(
        read,
        contraction=traversal.contraction_of(read),
        lanes=traversal.lanes_of(read),
        counts=traversal.counts_reduced(read),
        gathers=traversal.gathers(read),
        vectorizes=traversal.vectorizes(read),
        turned=traversal.transposed_loop(read),
        periods=traversal.periods_of(read),
    )


def names_in(texts: Mapping[str, str | None]) -> dict[str, str]:
    """Return readable names of tasks, by tag; a task whose text does not parse is named after its tag.

    Args:
        texts: MLIR text of every task, by tag; `None` if it is not known.
    """
    return {tag: readable_name(tag, ops_in(tag, text) if text is not None else ()) for tag, text in texts.items()}


def ops_in(tag: str, text: str) -> tuple[Op, ...]:
    """Return the structured operations of a task in program order; none if the text does not parse."""
    try:
        with context():
            module = parse(text, tag)
            ops = [view.operation for view, _ in structured_ops(module.body)]
            pairs = ((op, read_op(op)) for op in ops)
            return tuple(joined(read, op, ops) for op, read in pairs if read is not None)
    except CompileError:
        return ()


def joined(read: Op, op: ir.Operation, others: Sequence[ir.Operation]) -> Op:
    """Return an operation with the source of each operand set to the position of its producer.

    Args:
        read: Operation as data.
        op: MLIR operation that it was converted from.
        others: Operations that may be producers of operands.
    """
    positions = {result: number for number, each in enumerate(others) for result in each.results}
    values = zip(read.operands, op.operands, strict=True)
    return replace(read, operands=tuple(replace(each, source=positions.get(value)) for each, value in values))


def read_operand(op: ir.Operation, number: int, amap: ir.AffineMap, roles: Sequence[str]) -> Operand:
    """Return an operand of a structured operation, as its loops read or write it."""
    value = op.operands[number]
    operand = operand_of(value, tuple(map(read_index, amap.results)))
    first = len(op.operands) - len(op.results)
    if number < first:
        is_weight = bool(roles) and not operand.is_scalar and weight_behind(value, roles) is not None
        return replace(operand, role="weight" if is_weight else "constant" if is_constant(value) else "")
    fill = fill_of(value)
    return replace(
        operand,
        written=True,
        is_filled=fill is not None,
        start=number_in(maker(fill.operands[0]), "value") if fill is not None else None,
        is_own=fill is not None and len(list(fill.results[0].uses)) == 1,
        is_fresh=is_fresh(op, number, first),
    )


def operand_of(value: ir.Value, indices: tuple[Index, ...]) -> Operand:
    """Return an operand that reads a value at some indices."""
    value_type = value.type
    if not isinstance(value_type, ir.RankedTensorType | ir.MemRefType):
        return Operand((), str(value_type), (), is_scalar=True)
    growing = tuple(open_dimensions(value))
    return Operand(tuple(static_shape(value)), str(value_type.element_type), indices, growing)


class BodyReader:
    """Body of a structured operation, as steps on numbered values.

    Attributes:
        steps: Operations of the body.
        captured: Values defined outside of the body that it uses, except constants.
        gives: Numbers of the yielded values.
    """

    def __init__(self, op: ir.Operation, loops: int) -> None:
        """Read the body of an operation with the given number of loops."""
        self.steps: list[BodyOp] = []
        self.captured: list[Operand] = []
        self.gives: tuple[int, ...] = ()
        if not op.regions or not len(op.regions[0].blocks):
            return
        block = op.regions[0].blocks[0]
        self._loops, self._numbers = loops, {each: number for number, each in enumerate(block.arguments)}
        self._extracts: dict[ir.Operation, int] = {}
        *inside, last = [view.operation for view in block.operations]
        self._capture([*inside, last], set(inside))
        self._next = len(block.arguments) + len(self.captured)
        for inner in inside:
            self._add(inner, nested=False)
        self.gives = tuple(map(self._number, last.operands))

    def _capture(self, ops: Sequence[ir.Operation], inside: set[ir.Operation]) -> None:
        """Number the captured values: every extracted element separately, every other value once."""
        first = len(self._numbers)
        for op in ops:
            for number, value in enumerate(op.operands):
                by = maker(value)
                if value in self._numbers or by in inside:
                    continue
                if op.name == "tensor.extract" and number == 0:
                    self._extracts[op] = first + len(self.captured)
                    indices = tuple(self._index_at(index) for index in list(op.operands)[1:])
                    role = "constant" if is_constant(value) else ""
                    self.captured.append(replace(operand_of(value, indices), gathered=True, role=role))
                elif not is_constant(value):
                    self._numbers[value] = first + len(self.captured)
                    self.captured.append(operand_of(value, ()))

    def _index_at(self, index: ir.Value) -> Index:
        """Return the affine form of an index; an index that is not a `linalg.index` is treated as loop 0."""
        by = maker(index)
        known = by is not None and by.name == "linalg.index"
        return Index(((int(number_in(by, "dim") or 0) if known else 0, 1),)) if self._loops else Index()

    def _number(self, value: ir.Value) -> int:
        by = maker(value)
        if value not in self._numbers and by is not None and by.name == "arith.constant":
            self._add(by, nested=False)  # a constant defined outside of the body
        return self._numbers.get(value, -1)

    def _add(self, op: ir.Operation, *, nested: bool) -> None:
        operands = [self._number(value) for value in op.operands]
        if op in self._extracts:
            operands[0] = self._extracts[op]
        values = [number_in(op, name) for name in NUMBERS if name in op.attributes]
        for result in op.results:
            self._numbers[result] = self._next
            self._next += 1
        result_types = tuple(str(result.type) for result in op.results)
        has_steps = len(op.regions) > 0
        self.steps.append(
            BodyOp(op.name, tuple(operands), result_types, values[0] if values else None, nested or has_steps)
        )
        for inner in inner_ops(op):
            self._add(inner, nested=True)


def inner_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    """Yield the operations directly in the regions of an operation, without terminators."""
    for region in op.regions:
        for block in region.blocks:
            yield from [view.operation for view in block.operations][:-1]


def number_in(op: ir.Operation | None, name: str) -> Number | None:
    """Return the value of a numeric attribute; `None` if the operation has no such attribute."""
    attribute = op.attributes[name] if op is not None and name in op.attributes else None
    for attribute_type in (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr):
        if isinstance(attribute, attribute_type):
            number: Number = attribute.value
            return number
    return None
