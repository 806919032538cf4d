"""Argument attributes of a function: role, range of values, name."""

from collections.abc import Mapping
from math import isfinite

from mlir import ir

from autotune.core.errors import PayloadError
from autotune.core.payload import ROLES
from autotune.core.printable import one_line

ATTRIBUTES = "arg_attrs"
ROLE, LOW, HIGH = "autotune.role", "autotune.low", "autotune.high"
NARROW_FACTORS = "autotune.narrow_factors"  # all its factors have 16 bits by the types of the original model
MOST_SHOWN = 80  # characters of an attribute in an error message


def attributes_of(function: ir.Operation | ir.OpView, number: int) -> dict[str, ir.Attribute]:
    """Return the attributes of an argument by name; empty if it has none."""
    if ATTRIBUTES not in function.attributes:
        return {}
    attributes = ir.DictAttr(ir.ArrayAttr(function.attributes[ATTRIBUTES])[number])
    return {named.name: named.attr for named in attributes}


def say(function: ir.Operation | ir.OpView, more: Mapping[int, Mapping[str, ir.Attribute]]) -> None:
    """Set attributes of arguments, given by argument number; those of the same name are replaced."""
    if not more:
        return
    count = len(function.regions[0].blocks[0].arguments)
    updated = list(ir.ArrayAttr(function.attributes[ATTRIBUTES])) if ATTRIBUTES in function.attributes else []
    updated = updated or [ir.DictAttr.get({})] * count
    for number, attributes in more.items():
        current = {named.name: named.attr for named in ir.DictAttr(updated[number])}
        updated[number] = ir.DictAttr.get(current | dict(attributes))
    function.attributes[ATTRIBUTES] = ir.ArrayAttr.get(updated)


def pad(function: ir.Operation | ir.OpView) -> None:
    """Add empty attributes for arguments that were appended; without them the function would not verify."""
    if ATTRIBUTES in function.attributes:
        known = list(ir.ArrayAttr(function.attributes[ATTRIBUTES]))
        added = len(function.regions[0].blocks[0].arguments) - len(known)
        function.attributes[ATTRIBUTES] = ir.ArrayAttr.get([*known, *[ir.DictAttr.get({})] * added])


def integer(value: int) -> ir.Attribute:
    """Return an i64 integer attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def number_attribute(function: ir.Operation | ir.OpView, number: int, name: str) -> float | None:
    """Return the value of a numeric argument attribute; `None` if the argument lacks it.

    Raises:
        PayloadError: The attribute is not a finite number.
    """
    attribute = attributes_of(function, number).get(name)
    if attribute is None:
        return None
    if isinstance(attribute, ir.IntegerAttr | ir.FloatAttr) and isfinite(value := float(attribute.value)):
        return value
    raise PayloadError(
        f"{name} of argument {number} must be a finite number, got {shown(attribute)}; give one, such as 1.0"
    )


def role_attribute(function: ir.Operation | ir.OpView, number: int) -> str | None:
    """Return the role attribute of an argument; `None` if it has none.

    Raises:
        PayloadError: The attribute is not a string.
    """
    attribute = attributes_of(function, number).get(ROLE)
    if attribute is None:
        return None
    if isinstance(attribute, ir.StringAttr):
        return str(attribute.value)
    raise PayloadError(
        f"{ROLE} of argument {number} must be one of {', '.join(ROLES)} as a text, got {shown(attribute)}; "
        "write it in quotes"
    )


def shown(attribute: ir.Attribute) -> str:
    """Return the text of an attribute on one line, cut to `MOST_SHOWN` characters."""
    return one_line(str(attribute))[:MOST_SHOWN]
