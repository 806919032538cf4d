"""A file in a dialect of content: parsed by MLIR with the dialect's IRDL loaded, and given back as data."""

import re
from difflib import get_close_matches

from mlir import ir
from mlir.dialects import irdl

from autotune.compiler.ir.arguments import HIGH, LOW, number_attribute, role_attribute
from autotune.compiler.ir.limits import text_fault
from autotune.compiler.ir.module import context, line_and_column, parse, symbol
from autotune.compiler.tasks.payload_file import check, only_public_function
from autotune.contrib.dialect.short_form import complete
from autotune.core.errors import CompileError, PayloadError
from autotune.core.ops.dialect import (
    RUNTIME,
    Attribute,
    WrittenBlock,
    WrittenFunction,
    WrittenOp,
    WrittenRange,
    WrittenType,
    WrittenValue,
)

Names = dict[ir.Value, str]


def read_written(path: str, dialect: str, definition: str, text: str) -> WrittenFunction:
    """Read the function of a file that is written in a dialect.

    Args:
        path: Path of the file, for messages.
        dialect: Name of the dialect.
        definition: The dialect in IRDL.
        text: Text of the file.

    Raises:
        PayloadError: The text does not parse, breaks what IRDL says of an op, or is not one function.
    """
    check(path, text_fault(text))
    with context():
        irdl.load_dialects(ir.Module.parse(definition))
        try:
            module = parse(complete(text, dialect), path)
        except CompileError as error:
            raise PayloadError(explain(str(error), dialect, definition, text)) from error
        function = only_public_function(module, path)
        others = [op for op in module.body.operations if op.operation != function.operation]
        if others:
            where, name = f"{path}:{line_of(others[0])}", others[0].operation.name
            raise PayloadError(f"{where}: a file in a dialect must hold one function, {name} is more; leave it out")
        return read_function(function, path)


def explain(message: str, dialect: str, definition: str, text: str) -> str:
    """What the parser says, at its line, in words of the dialect: which ops it has, which operands an op.

    Args:
        message: What the parser says, with the file, line and column.
        dialect: Name of the dialect.
        definition: The dialect in IRDL.
        text: Text of the file.
    """
    found = re.match(r"(.*?:(\d+)):\d+: (.*)", message, re.S)
    if found is None:
        return message
    where, number, error = found.groups()
    unknown = re.match(rf"unregistered operation '({dialect}\.\w+)'", error)
    if unknown is not None:
        have = [f"{dialect}.{name}" for name in re.findall(r"irdl\.operation @(\w+)", definition)]
        close = get_close_matches(unknown[1], have, n=1)
        way = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(have))}"
        return f"{where}: ops must be those of {dialect}, got {unknown[1]}; {way}"
    op = re.search(rf"{dialect}\.(\w+)", text.splitlines()[int(number) - 1])
    if error.startswith("op expects") and op is not None:
        takes = re.search(rf"irdl\.operation @{op[1]} {{.*?irdl\.operands\((.*?)\)", definition, re.S)
        names = re.sub(r"(\w+): (\w+ )?%\w+", r"\2\1", takes[1]) if takes is not None else "none"
        return f"{where}: {op[0]}{error.removeprefix('op')}; they are {names}"
    return f"{where}: {error}"


def read_function(function: ir.OpView, path: str) -> WrittenFunction:
    """A function as data.

    Raises:
        PayloadError: The function has several blocks.
    """
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    ranges = tuple(read_range(function, number) for number in range(len(kind.inputs)))
    block = read_block(function.operation, path, {})
    return WrittenFunction(str(symbol(function)), line_of(function), ranges, tuple(map(read_type, kind.results)), block)


def read_range(function: ir.OpView, number: int) -> WrittenRange:
    """Role and range of an argument, by its attributes.

    Raises:
        PayloadError: An attribute holds no text or number.
    """
    low, high = (number_attribute(function, number, name) for name in (LOW, HIGH))
    return WrittenRange(role_attribute(function, number) or "input", low, high)


def read_block(op: ir.Operation, path: str, names: Names) -> WrittenBlock:
    """The only block of an op's only region.

    Args:
        op: Op that has the region.
        path: Path of the file, for messages.
        names: Names of the values that are known there; those of the block are added.

    Raises:
        PayloadError: There are several blocks.
    """
    blocks = list(op.regions[0].blocks)
    if len(op.regions) != 1 or len(blocks) != 1:
        where = f"{path}:{line_of(op)}"
        raise PayloadError(f"{where}: {op.name} must have one block, it has {len(blocks)}; write it in one")
    arguments = read_values(blocks[0].arguments, names)
    *inside, end = blocks[0].operations
    ops = tuple(read_op(each.operation, path, names) for each in inside)
    gives = tuple(names[value] for value in end.operation.operands)
    return WrittenBlock(arguments, ops, end.operation.name, line_of(end), gives)


def read_op(op: ir.Operation, path: str, names: Names) -> WrittenOp:
    """An op as data; names of its results are added."""
    operands = tuple(names[value] for value in op.operands)
    body = read_block(op, path, names) if len(op.regions) else None
    attributes = tuple((str(name), plain_attribute(value)) for name, value in op.attributes.items())
    return WrittenOp(op.name, line_of(op), operands, read_values(op.results, names), attributes, body)


def read_values(values: "ir.OpResultList | ir.BlockArgumentList", names: Names) -> tuple[WrittenValue, ...]:
    """Values with new names."""
    found = []
    for value in values:
        names[value] = f"v{len(names)}"
        found.append(WrittenValue(names[value], read_type(value.type)))
    return tuple(found)


def read_type(kind: ir.Type) -> WrittenType:
    """A type as data."""
    if isinstance(kind, ir.UnrankedTensorType):
        return WrittenType(str(kind), str(kind.element_type), None, True)
    if isinstance(kind, ir.RankedTensorType):
        shape = tuple(RUNTIME if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank))
        return WrittenType(str(kind), str(kind.element_type), shape, True)
    return WrittenType(str(kind), str(kind), None, False)


def plain_attribute(attribute: ir.Attribute) -> Attribute:
    """The number, switch or string that an attribute is; else its text."""
    if isinstance(attribute, ir.UnitAttr):
        return True
    if isinstance(attribute, ir.BoolAttr):
        return bool(attribute.value)
    if isinstance(attribute, ir.IntegerAttr):
        return int(attribute.value)
    if isinstance(attribute, ir.FloatAttr):
        return float(attribute.value)
    return str(attribute.value) if isinstance(attribute, ir.StringAttr) else str(attribute)


def line_of(op: ir.Operation | ir.OpView) -> str:
    """Line of an op."""
    line, _ = line_and_column(op.location) or (1, 1)
    return str(line)
