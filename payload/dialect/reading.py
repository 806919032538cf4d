"""Convert a function parsed by MLIR to a program: types are inferred, and compared with the declared ones.

Every error starts with the file and the line of its op.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from math import isfinite
from typing import get_type_hints

from autotune.core.errors import PayloadError
from autotune.core.ops.dialect import (
    OPEN,
    RUNTIME,
    Attribute,
    WrittenBlock,
    WrittenFunction,
    WrittenOp,
    WrittenRange,
    WrittenType,
)
from autotune.core.payload import Argument
from payload.builder import DynamicSize
from payload.dialect.index_ranges import check_index_ranges
from payload.dialect.op import INDEX, DialectOp, Kind
from payload.dialect.ops.block import BlockOp
from payload.dialect.ops.tables import EmbeddingOp, LayerOp
from payload.dialect.program import OpCall, OpProgram, OpWriter, Ref
from payload.dialect.text import TERMINATOR

WANTED = {int: "a whole number", float: "a number with a point", bool: "true or false", str: "a string"}
Ops = Mapping[str, type[DialectOp]]  # by qualified name
Refs = dict[str, Ref]


def read_program(path: str, function: WrittenFunction, dialect: str, ops: Ops) -> OpProgram:
    """Convert a function to a program.

    Args:
        path: Path of the file, for messages.
        function: Function as parsed by MLIR.
        dialect: Name of the dialect.
        ops: Op classes by qualified name.

    Raises:
        PayloadError: An op is unknown, violates a constraint or contradicts inference, or an argument has no sizes.
    """
    where = f"{path}:{function.line}: "
    values = function.block.arguments
    arguments = [
        declare(f"{where}argument {i}", i, value.type, attributes)
        for i, (value, attributes) in enumerate(zip(values, function.ranges, strict=True))
    ]
    writer = OpWriter(arguments, dialect)
    refs = {value.name: writer.given[argument.name] for value, argument in zip(values, arguments, strict=True)}
    gives = write_block(path, function.block, writer, refs, ops)
    check_results(f"{path}:{function.block.line}: ", function.results, gives)
    states = [argument for argument in arguments if argument.role == "state"]
    outputs = [
        Argument(f"arg{i}", "output", ref.kind.shape, ref.kind.dtype)
        for i, ref in enumerate(gives[len(states) :], len(arguments))
    ]
    if not states and not outputs:
        raise PayloadError(f"{where}@{function.entry} must give a tensor, it gives none; return what it computes")
    check_states(f"{path}:{function.block.line}: ", states, gives)
    ranged = [
        with_range(where, a, attributes, writer.calls) for a, attributes in zip(arguments, function.ranges, strict=True)
    ]
    program = OpProgram(function.entry, (*ranged, *outputs), writer.calls, tuple(gives))
    check_index_ranges(program)
    return program


def write_block(path: str, block: WrittenBlock, writer: OpWriter, refs: Refs, ops: Ops) -> list[Ref]:
    """Write the ops of a block; return the values that its terminator yields."""
    for op in block.ops:
        writer.location = f"{path}:{op.line}: "
        results = write_op(path, op, writer, refs, ops)
        for value, ref in zip(op.results, results, strict=True):
            check_type(f"{writer.location}{op.name}: result", value.type, ref.kind)
            refs[value.name] = ref
    return [refs[name] for name in block.gives]


def write_op(path: str, op: WrittenOp, writer: OpWriter, refs: Refs, ops: Ops) -> Sequence[Ref]:
    """Write an op.

    Raises:
        PayloadError: The op belongs to another dialect, or its attributes or body do not match its definition.
    """
    if op.name not in ops:
        raise PayloadError(
            f"{writer.location}ops must be those of {writer.dialect}, got {op.name}; there are {', '.join(sorted(ops))}"
        )
    operands = [refs[name] for name in op.operands]
    instance = make_op(f"{writer.location}{op.name}: ", ops[op.name], dict(op.attributes))
    if not isinstance(instance, BlockOp) or op.body is None:
        return writer.several(instance, *operands)
    block = op.body
    if block.terminator != TERMINATOR:
        raise PayloadError(f"{path}:{block.line}: a body must end in {TERMINATOR}, got {block.terminator}")
    if len(block.arguments) != 1 + len(operands):
        raise PayloadError(
            f"{writer.location}{op.name}: the body must take an index and {len(operands)} tensors, "
            f"it takes {len(block.arguments)} values; see docs/how-to/dialect.md"
        )

    def body(layer: Ref, carried: list[Ref]) -> Sequence[Ref]:
        for value, ref in zip(block.arguments, (layer, *carried), strict=True):
            check_type(f"{writer.location}{op.name}: argument of the body", value.type, ref.kind)
            refs[value.name] = ref
        return write_block(path, block, writer, refs, ops)

    return writer.repeat(instance.layers, operands, body)


def make_op(where: str, op: type[DialectOp], attributes: Mapping[str, Attribute]) -> DialectOp:
    """Instantiate an op with its attributes.

    Raises:
        PayloadError: An attribute is unknown, or has another type.
    """
    hints = get_type_hints(op)
    known = {field.name: hints[field.name] for field in fields(op)}  # type: ignore[arg-type]  # every op is a dataclass
    for name, value in attributes.items():
        if name not in known:
            have = f"are {', '.join(known)}" if known else "are none"
            raise PayloadError(f"{where}its attributes {have}; got {name!r}; leave it out")
        if type(value) is not known[name]:
            raise PayloadError(f"{where}{name} must be {WANTED[known[name]]}, got {value}")
    return op(**attributes)


def declare(where: str, number: int, written: WrittenType, attributes: WrittenRange) -> Argument:
    """Declare an argument of the payload with the default range of random data.

    Raises:
        PayloadError: The argument is not a tensor of static shape, or its role or element type is invalid.
    """
    if written.shape is None or RUNTIME in written.shape:
        raise PayloadError(f"{where} must be a tensor of static shape, it is {written.text}; say its sizes")
    if attributes.role == "output":
        raise PayloadError(f"{where} must not be an output, results are; return what it is to hold")
    try:
        return Argument(f"arg{number}", attributes.role, written.shape, written.dtype)
    except PayloadError as error:
        raise PayloadError(f"{where}: {error}") from error


def with_range(where: str, argument: Argument, attributes: WrittenRange, calls: Sequence[OpCall]) -> Argument:
    """Return the argument with the range of its random data.

    Integers without attributes that index a table have the range of the table's rows.

    Raises:
        PayloadError: The range of integers is unknown, or the range of the attributes is empty or infinite.
    """
    rows = min(table_rows({f"%{argument.name}"}, calls), default=None)
    low, high = attributes.low, attributes.high
    if argument.dtype.startswith("i"):
        low = 0.0 if low is None and rows is not None else low
        high = float(rows) if high is None and rows is not None else high
    else:
        low, high = (argument.low if low is None else low), (argument.high if high is None else high)
    if low is None or high is None:
        raise PayloadError(
            f"{where}{argument.name} must say which integers it holds, it is {argument.dtype}; "
            "give it {autotune.low = 0 : i64, autotune.high = 100 : i64}"
        )
    if not (low < high and isfinite(low) and isfinite(high)):
        raise PayloadError(
            f"{where}autotune.low of {argument.name} must be below autotune.high, got {low:g} and {high:g}; give both"
        )
    return Argument(argument.name, argument.role, argument.shape, argument.dtype, low, high)


def table_rows(names: set[str], calls: Sequence[OpCall]) -> Iterator[int]:
    """Yield the number of rows of every table read at one of the named ids, or at a layer of them."""
    for call in calls:
        if isinstance(call.op, LayerOp) and call.operands[0].name in names:
            names.add(call.results[0].name)
        if isinstance(call.op, EmbeddingOp) and call.operands[1].name in names:
            yield call.operands[0].kind.shape[0]
        if call.body is not None:
            yield from table_rows(names, call.body.calls)


def check_results(where: str, declared: Sequence[WrittenType], gives: Sequence[Ref]) -> None:
    """Raise unless the results of a function are tensors of static shape and of the declared types."""
    for written, ref in zip(declared, gives, strict=True):
        if ref.kind == INDEX or any(isinstance(size, DynamicSize) for size in ref.kind.shape):
            raise PayloadError(f"{where}results must be tensors of static shape, one is {ref.kind.type}; return others")
        check_type(f"{where}result of the function", written, ref.kind)


def check_states(where: str, states: Sequence[Argument], gives: Sequence[Ref]) -> None:
    """Raise unless the first returned values have the types of the states."""
    actual = [ref.kind for ref in gives[: len(states)]]
    expected = [Kind(state.shape, state.dtype) for state in states]
    if actual != expected:
        before, after = (", ".join(map(str, each)) for each in (expected, actual))
        raise PayloadError(f"{where}what is returned must begin with the states, {before}, it begins with {after}")


def check_type(where: str, written: WrittenType, kind: Kind) -> None:
    """Raise unless a declared type equals the inferred one, or leaves it open.

    Raises:
        PayloadError: The types differ; the message has both.
    """
    if written.dtype == OPEN:
        return
    if kind == INDEX or not written.is_tensor:
        agrees = kind == INDEX and written.dtype == INDEX.dtype and not written.is_tensor
    else:
        agrees = written.dtype == kind.dtype and (written.shape is None or fits(written.shape, kind.shape))
    if not agrees:
        advice = "" if kind == INDEX else "; leave it out to have it inferred"
        raise PayloadError(f"{where} must be {kind.type} by what it reads, it is declared {written.text}{advice}")


def fits(written: Sequence[int], shape: Sequence[int]) -> bool:
    """Return whether declared sizes equal the inferred ones; a dynamic size is declared as a question mark."""
    return len(written) == len(shape) and all(
        declared == (RUNTIME if isinstance(size, DynamicSize) else size)
        for declared, size in zip(written, shape, strict=True)
    )
