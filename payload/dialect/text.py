"""A program as MLIR in the dialect, in the short form: the entry's shapes are given, inferred ones are comments.

Its first line is what a call costs.
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
TERMINATOR = "vector.yield"  # upstream's terminator that asks nothing of its parent; IRDL defines none


def write_text(program: OpProgram, dialect: str = "gpt") -> str:
    """The text of a program; what reads it gives the same program.

    Args:
        program: The program.
        dialect: Name of the dialect.
    """
    given = ",\n".join(f"{INDENT * 2}{write_argument(a)}" for a in program.arguments if a.role != "output")
    total = cost(program.calls)
    summary = f"{total.flops} flops of contractions, {total.others} other operations, {total.bytes} bytes touched"
    lines = [f"// {summary}", f"func.func @{program.entry}(", f"{given}) {{"]
    lines += [f"{INDENT}{line}" for call in program.calls for line in write_call(call, dialect)]
    lines += [f"{INDENT}return {names_of(program.gives)}  // {shapes_of(program.gives)}", "}"]
    return "\n".join(lines) + "\n"


def write_argument(argument: Argument) -> str:
    """An argument with its attributes: its role, and the range of its random data."""
    plain = Argument(argument.name, argument.role, argument.shape, argument.dtype)
    entries = [] if argument.role == "input" else [f'autotune.role = "{argument.role}"']
    whole = argument.dtype.startswith("i")
    if whole or (argument.low, argument.high) != (plain.low, plain.high):
        low, high = (write_attribute(int(end) if whole else float(end)) for end in (argument.low, argument.high))
        entries += [f"autotune.low = {low}", f"autotune.high = {high}"]
    attributes = f" {{{', '.join(entries)}}}" if entries else ""
    return f"%{argument.name}: {tensor_type(argument.shape, argument.dtype)}{attributes}"


def write_call(call: OpCall, dialect: str) -> list[str]:
    """The lines of an op."""
    begin = f"{names_of(call.results)} = {dialect}.{call.op.name}({names_of(call.operands)})"
    end = f"{write_attributes(call.op)}  // {shapes_of(call.results)}"
    if call.body is None:
        return [f"{begin}{end}"]
    return [f"{begin} ({{", *write_body(call.body, dialect), f"}}){end}"]


def write_body(body: OpBody, dialect: str) -> list[str]:
    """The lines of a body."""
    inside = [f"{INDENT}{line}" for call in body.calls for line in write_call(call, dialect)]
    return [f"^bb0({names_of(body.arguments)}):", *inside, f"{INDENT}{TERMINATOR} {names_of(body.gives)}"]


def write_attributes(op: DialectOp) -> str:
    """The attributes that are not as by default."""
    entries = [
        f"{field.name} = {write_attribute(getattr(op, field.name))}"
        for field in fields(op)  # type: ignore[arg-type]  # every op is a dataclass
        if field.default is MISSING or getattr(op, field.name) != field.default
    ]
    return f" {{{', '.join(entries)}}}" if entries else ""


def write_attribute(value: Any) -> str:  # noqa: ANN401 - a switch, a number or a string
    """An attribute in MLIR's syntax: a number of a fraction has a point.

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
    """Names beside each other."""
    return ", ".join(each.name for each in values)


def shapes_of(values: Sequence[Ref]) -> str:
    """Shapes beside each other, as comments show them."""
    return ", ".join(str(each.kind).removeprefix("an ") for each in values)
