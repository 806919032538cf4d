"""Reader of payload files in a registered dialect: MLIR parses them with the dialect's IRDL loaded."""

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
        PayloadError: The text does not parse, an operation violates its IRDL definition, or there is not one function.
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
    """Rephrase a parser diagnostic in terms of the dialect, with its operations or the operands of an operation.

    Args:
        message: Diagnostic of the parser, with file, line and column.
        dialect: Name of the dialect.
        definition: The dialect in IRDL.
        text: Text of the file.
    """
    match = re.match(r"(.*?:(\d+)):\d+: (.*)", message, re.S)
    if match is None:
        return message
    where, number, error = match.groups()
    unknown = re.match(rf"unregistered operation '({dialect}\.\w+)'", error)
    if unknown is not None:
        have = [f"{dialect}.{name}" for name in re.findall(r"irdl\.operation @(\w+)", definition)]
        close = get_close_matches(unknown[1], have, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(have))}"
        return f"{where}: ops must be those of {dialect}, got {unknown[1]}; {hint}"
    op = re.search(rf"{dialect}\.(\w+)", text.splitlines()[int(number) - 1])
    if error.startswith("op expects") and op is not None:
        takes = re.search(rf"irdl\.operation @{op[1]} {{.*?irdl\.operands\((.*?)\)", definition, re.S)
        names = re.sub(r"(\w+): (\w+ )?%\w+", r"\2\1", takes[1]) if takes is not None else "none"
        return f"{where}: {op[0]}{error.removeprefix('op')}; they are {names}"
    return f"{where}: {error}"


def read_function(function: ir.OpView, path: str) -> WrittenFunction:
    """Convert a function to plain data.

    Raises:
        PayloadError: The function has several blocks.
    """
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    ranges = tuple(read_range(function, number) for number in range(len(kind.inputs)))
    block = read_block(function.operation, path, {})
    return WrittenFunction(str(symbol(function)), line_of(function), ranges, tuple(map(read_type, kind.results)), block)


def read_range(function: ir.OpView, number: int) -> WrittenRange:
    """Read the role and range of an argument from its attributes.

    Raises:
        PayloadError: An attribute has the wrong type.
    """
    low, high = (number_attribute(function, number, name) for name in (LOW, HIGH))
    return WrittenRange(role_attribute(function, number) or "input", low, high)


def read_block(op: ir.Operation, path: str, names: Names) -> WrittenBlock:
    """Convert the single block of an operation's single region to plain data.

    Args:
        op: Operation with the region.
        path: Path of the file, for messages.
        names: Names of the values in scope; those of the block are added.

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
    yielded = tuple(names[value] for value in end.operation.operands)
    return WrittenBlock(arguments, ops, end.operation.name, line_of(end), yielded)


def read_op(op: ir.Operation, path: str, names: Names) -> WrittenOp:
    """Convert an operation to plain data; names of its results are added to `names`."""
    operands = tuple(names[value] for value in op.operands)
    body = read_block(op, path, names) if len(op.regions) else None
    attributes = tuple((str(name), plain_attribute(value)) for name, value in op.attributes.items())
    return WrittenOp(op.name, line_of(op), operands, read_values(op.results, names), attributes, body)


def read_values(values: "ir.OpResultList | ir.BlockArgumentList", names: Names) -> tuple[WrittenValue, ...]:
    """Convert values to plain data with new names, which are added to `names`."""
    converted = []
    for value in values:
        names[value] = f"v{len(names)}"
        converted.append(WrittenValue(names[value], read_type(value.type)))
    return tuple(converted)


def read_type(mlir_type: ir.Type) -> WrittenType:
    """Convert a type to plain data."""
    if isinstance(mlir_type, ir.UnrankedTensorType):
        return WrittenType(str(mlir_type), str(mlir_type.element_type), None, True)
    if isinstance(mlir_type, ir.RankedTensorType):
        shape = tuple(
            RUNTIME if mlir_type.is_dynamic_dim(i) else mlir_type.get_dim_size(i) for i in range(mlir_type.rank)
        )
        return WrittenType(str(mlir_type), str(mlir_type.element_type), shape, True)
    return WrittenType(str(mlir_type), str(mlir_type), None, False)


def plain_attribute(attribute: ir.Attribute) -> Attribute:
    """Return the number, boolean or string of an attribute; the text of any other."""
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
    """Return the line number of an operation as text."""
    line, _ = line_and_column(op.location) or (1, 1)
    return str(line)
