"""What a function says of its arguments, as attributes: role, range of values, name."""

from collections.abc import Mapping
from math import isfinite

from mlir import ir

from autotune.core.errors import PayloadError
from autotune.core.payload import ROLES
from autotune.core.printable import one_line

ATTRIBUTES = "arg_attrs"
ROLE, LOW, HIGH = "autotune.role", "autotune.low", "autotune.high"
NARROW_FACTORS = "autotune.narrow_factors"  # all that it is multiplied with has 16 bits by the model's own types
MOST_SHOWN = 80  # characters of an attribute in a message


def attributes_of(function: ir.Operation | ir.OpView, number: int) -> dict[str, ir.Attribute]:
    """Attributes of an argument by name; empty where there are none."""
    if ATTRIBUTES not in function.attributes:
        return {}
    attributes = ir.DictAttr(ir.ArrayAttr(function.attributes[ATTRIBUTES])[number])
    return {named.name: named.attr for named in attributes}


def say(function: ir.Operation | ir.OpView, more: Mapping[int, Mapping[str, ir.Attribute]]) -> None:
    """Give arguments, by their numbers, attributes, instead of those of the same names."""
    if not more:
        return
    count = len(function.regions[0].blocks[0].arguments)
    found = list(ir.ArrayAttr(function.attributes[ATTRIBUTES])) if ATTRIBUTES in function.attributes else []
    found = found or [ir.DictAttr.get({})] * count
    for number, attributes in more.items():
        known = {named.name: named.attr for named in ir.DictAttr(found[number])}
        found[number] = ir.DictAttr.get(known | dict(attributes))
    function.attributes[ATTRIBUTES] = ir.ArrayAttr.get(found)


def pad(function: ir.Operation | ir.OpView) -> None:
    """Say nothing of arguments that were added; without this a function with attributes would be malformed."""
    if ATTRIBUTES in function.attributes:
        known = list(ir.ArrayAttr(function.attributes[ATTRIBUTES]))
        none = len(function.regions[0].blocks[0].arguments) - len(known)
        function.attributes[ATTRIBUTES] = ir.ArrayAttr.get([*known, *[ir.DictAttr.get({})] * none])


def integer(value: int) -> ir.Attribute:
    """A number as an attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def number_attribute(function: ir.Operation | ir.OpView, number: int, name: str) -> float | None:
    """The number that an attribute of an argument holds; `None` where there is none.

    Raises:
        PayloadError: The attribute holds no number, or none that is finite.
    """
    attribute = attributes_of(function, number).get(name)
    if attribute is None:
        return None
    if isinstance(attribute, ir.IntegerAttr | ir.FloatAttr) and isfinite(found := float(attribute.value)):
        return found
    raise PayloadError(
        f"{name} of argument {number} must be a finite number, got {shown(attribute)}; give one, such as 1.0"
    )


def role_attribute(function: ir.Operation | ir.OpView, number: int) -> str | None:
    """The role that a function gives an argument; `None` where it gives none.

    Raises:
        PayloadError: The attribute is no text.
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
    """The beginning of an attribute, in a line."""
    return one_line(str(attribute))[:MOST_SHOWN]
