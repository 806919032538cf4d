"""Print a program as MLIR in the dialect's short form: argument types are explicit, inferred shapes are comments.

The first line is a comment with the cost of a call.
"""

from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

from autotune.core.payload import Argument
from payload.builder import tensor_type
from payload.dialect.op import DialectOp
from payload.dialect.program import OpBody, OpCall, OpProgram, Ref
from payload.dialect.walk import cost

INDENT = "  "
TERMINATOR = "vector.yield"  # an upstream terminator that accepts any parent op; IRDL cannot define terminators


def write_text(program: OpProgram, dialect: str = "gpt") -> str:
    """Print a program; parsing the text yields the same program.

    Args:
        program: Program to print.
        dialect: Name of the dialect.
    """
    arguments = ",\n".join(f"{INDENT * 2}{write_argument(a)}" for a in program.arguments if a.role != "output")
    total = cost(program.calls)
    summary = f"{total.flops} flops of contractions, {total.others} other operations, {total.bytes} bytes touched"
    lines = [f"// {summary}", f"func.func @{program.entry}(", f"{arguments}) {{"]
    lines += [f"{INDENT}{line}" for call in program.calls for line in write_call(call, dialect)]
    lines += [f"{INDENT}return {names_of(program.gives)}  // {shapes_of(program.gives)}", "}"]
    return "\n".join(lines) + "\n"


def write_argument(argument: Argument) -> str:
    """Print an argument with its attributes: its role, and the range of its random data."""
    plain = Argument(argument.name, argument.role, argument.shape, argument.dtype)
    entries = [] if argument.role == "input" else [f'autotune.role = "{argument.role}"']
    is_integer = argument.dtype.startswith("i")
    if is_integer or (argument.low, argument.high) != (plain.low, plain.high):
        low, high = (write_attribute(int(end) if is_integer else float(end)) for end in (argument.low, argument.high))
        entries += [f"autotune.low = {low}", f"autotune.high = {high}"]
    attributes = f" {{{', '.join(entries)}}}" if entries else ""
    return f"%{argument.name}: {tensor_type(argument.shape, argument.dtype)}{attributes}"


def write_call(call: OpCall, dialect: str) -> list[str]:
    """Return the lines of an op."""
    begin = f"{names_of(call.results)} = {dialect}.{call.op.name}({names_of(call.operands)})"
    end = f"{write_attributes(call.op)}  // {shapes_of(call.results)}"
    if call.body is None:
        return [f"{begin}{end}"]
    return [f"{begin} ({{", *write_body(call.body, dialect), f"}}){end}"]


def write_body(body: OpBody, dialect: str) -> list[str]:
    """Return the lines of a region."""
    ops = [f"{INDENT}{line}" for call in body.calls for line in write_call(call, dialect)]
    return [f"^bb0({names_of(body.arguments)}):", *ops, f"{INDENT}{TERMINATOR} {names_of(body.gives)}"]


def write_attributes(op: DialectOp) -> str:
    """Print the attributes that differ from their defaults."""
    entries = [
        f"{field.name} = {write_attribute(getattr(op, field.name))}"
        for field in fields(op)  # type: ignore[arg-type]  # every op is a dataclass
        if field.default is MISSING or getattr(op, field.name) != field.default
    ]
    return f" {{{', '.join(entries)}}}" if entries else ""


def write_attribute(value: Any) -> str:  # noqa: ANN401 - a switch, a number or a string
    """Print an attribute in MLIR syntax; a float has a decimal point.

    >>> write_attribute(1e-05), write_attribute(4), write_attribute(True)
    ('1.0e-05', '4', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    mantissa, letter, exponent = repr(value).partition("e")
    return f"{mantissa}{'.0' if letter and '.' not in mantissa else ''}{letter}{exponent}"


def names_of(values: Sequence[Ref]) -> str:
    """Return the names of values, separated by commas."""
    return ", ".join(each.name for each in values)


def shapes_of(values: Sequence[Ref]) -> str:
    """Return the shapes of values as shown in comments, separated by commas."""
    return ", ".join(str(each.kind).removeprefix("an ") for each in values)
