"""Generate the IRDL definition of a dialect from its op classes; operands and attributes have their Python names.

IRDL declares the operands, results and regions of an op, and its required attributes. Constraints that it cannot
express, such as equal sizes, are checked by `infer`.
"""

import inspect
from collections.abc import Sequence
from dataclasses import MISSING, fields

from payload.dialect.op import DialectOp

BODY = "body"  # the parameter of an op with a region


def define(name: str, ops: Sequence[type[DialectOp]]) -> str:
    """Return the IRDL module that defines a dialect.

    Args:
        name: Name of the dialect.
        ops: Ops of the dialect.
    """
    lines = [f"irdl.dialect @{name} {{", *(f"  {line}" for op in ops for line in define_op(op)), "}"]
    return "\n".join(lines) + "\n"


def define_op(op: type[DialectOp]) -> list[str]:
    """Return the lines of an op's definition."""
    parameters = list(inspect.signature(op.infer).parameters.values())[1:]
    has_body = parameters[0].name == BODY
    operands = [(each.name, variadicity(each)) for each in parameters if each.name != BODY]
    results = [(f"result{i}", "") for i in range(len(op.gives))]
    if has_body:  # the results are the next values of the carried operands
        results = [(f"{each}_next", how) for each, how in operands]
    lines = [*define_values("operands", operands), *define_values("results", results)]
    required = [field.name for field in fields(op) if field.default is MISSING]  # type: ignore[arg-type]  # a dataclass
    if required:
        lines += [f"%attribute_{each} = irdl.any" for each in required]
        attributes = ", ".join(f'"{each}" = %attribute_{each}' for each in required)
        lines.append(f"irdl.attributes {{{attributes}}}")
    if has_body:
        lines += [f"%{BODY} = irdl.region with size 1", f"irdl.regions({BODY}: %{BODY})"]
    return [f"irdl.operation @{op.name} {{", *(f"  {line}" for line in lines), "}"]


def define_values(op: str, values: Sequence[tuple[str, str]]) -> list[str]:
    """Return the definition of operands or results, each with a type constraint of its own."""
    types = [f"%{name} = irdl.any" for name, _ in values]
    return [*types, f"irdl.{op}({', '.join(f'{name}: {how}%{name}' for name, how in values)})"] if values else []


def variadicity(parameter: inspect.Parameter) -> str:
    """Return the variadicity of an operand: exactly one, optional, or variadic."""
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return "variadic "
    return "" if parameter.default is inspect.Parameter.empty else "optional "
