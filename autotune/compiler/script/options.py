"""Options of a knob: the values that the ``options`` attribute of a ``transform.tune.knob`` lists or spans.

Supported are arrays of any attributes, and dictionaries that define integer ranges: ``{lb, ub, step}``,
``{start, stop, step}`` and ``{lower_bound, upper_bound, divisible_by, divides}``, with inclusive bounds. Attributes
without a Python equivalent are represented by their MLIR text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from autotune.core.errors import SpaceError
from autotune.core.space import Value

MOST_VALUES = 4096
SPAN = {"lb", "ub", "step"}
RANGE = {"start", "stop", "step"}
BOUNDS = {"lower_bound", "upper_bound", "divisible_by", "divides", "options"}
WORD = 2**31  # integers of this magnitude or larger are represented as text


@dataclass(frozen=True)
class Options:
    """Values of a knob, and for each the MLIR text of the attribute that selects it."""

    values: tuple[Value, ...]
    attributes: tuple[str, ...]

    def value_of(self, attribute: ir.Attribute) -> Value | None:
        """Return the value of an attribute; `None` if it is not an option."""
        spelled = str(attribute)
        return self.values[self.attributes.index(spelled)] if spelled in self.attributes else None


def read_options(attribute: ir.Attribute, selected: ir.Attribute | None = None) -> Options:
    """Return the options of an ``options`` attribute; for one that is no list or range, only the selected value.

    Raises:
        SpaceError: The attribute is no list or range, and nothing is selected; the message continues a sentence that
            begins with the knob.
    """
    if isinstance(attribute, ir.ArrayAttr):
        return options_of(list(attribute))
    if isinstance(attribute, ir.DictAttr):
        integer_type = ir.IntegerType.get_signless(64)
        return options_of([ir.IntegerAttr.get(integer_type, number) for number in span(attribute)])
    for array_type in (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr):
        if isinstance(attribute, array_type):
            integer_type = ir.IntegerType.get_signless(64 if array_type is ir.DenseI64ArrayAttr else 32)
            return options_of([ir.IntegerAttr.get(integer_type, number) for number in attribute])
    if selected is not None:
        return options_of([selected])
    raise SpaceError(f"must have options as a list or a span, has {str(attribute)[:80]}; write [1, 2, 4]")


def options_of(attributes: Sequence[ir.Attribute]) -> Options:
    """Convert attributes to options; all values are MLIR text if two would become the same Python value.

    Raises:
        SpaceError: There are no options, too many, or duplicates.
    """
    spelled = tuple(map(str, attributes))
    if not spelled:
        raise SpaceError("must have at least one option, has none; add one")
    if len(spelled) > MOST_VALUES:
        raise SpaceError(f"must have at most {MOST_VALUES} options, has {len(spelled)}; take larger steps")
    if len(set(spelled)) < len(spelled):
        twice = next(each for each in spelled if spelled.count(each) > 1)
        raise SpaceError(f"must have options that differ, has {twice} twice; drop one")
    values = tuple(map(plain, attributes))
    return Options(values if len(set(values)) == len(values) else spelled, spelled)


def plain(attribute: ir.Attribute) -> Value:
    """Return an attribute as a Python value, or as its MLIR text if there is no equivalent."""
    if isinstance(attribute, ir.BoolAttr):
        return bool(attribute.value)
    if isinstance(attribute, ir.IntegerAttr) and abs(int(attribute)) < WORD:
        return int(attribute)
    if isinstance(attribute, ir.StringAttr) and attribute.value.isprintable():
        return str(attribute.value)
    return str(attribute)


def span(attribute: ir.DictAttr) -> list[int]:
    """Return the integers of a range, in order.

    Raises:
        SpaceError: A bound is missing or not an integer, or a key is unknown.
    """
    entries = {named.name: named.attr for named in attribute}
    if not any(set(entries) <= keys for keys in (SPAN, RANGE, BOUNDS)):
        unknown = ", ".join(sorted(set(entries) - SPAN - RANGE - BOUNDS)) or "keys of several"
        raise SpaceError(
            f"must span {{lb, ub, step}} or {{lower_bound, upper_bound, divisible_by, divides}}, has {unknown}"
        )
    if isinstance(listed := entries.pop("options", None), ir.ArrayAttr):
        numbers = [number_of("options", each) for each in listed]
        low, high = min(numbers, default=0), max(numbers, default=0)
    else:
        numbers, low, high = [], 1, None
    bounds = {name: number_of(name, value) for name, value in entries.items()}
    low = next((bounds[key] for key in ("lb", "start", "lower_bound") if key in bounds), low)
    high = next((bounds[key] for key in ("ub", "stop", "upper_bound", "divides") if key in bounds), high)
    step = bounds.get("step", 1)
    if high is None or step < 1:
        raise SpaceError("must span up to a bound in steps of at least 1; give ub, or upper_bound")
    if (high - low) // step >= WORD:
        raise SpaceError(f"must span less than {WORD} numbers, spans {high - low}; take larger steps")
    return [n for n in (numbers or range(low, high + 1, step)) if low <= n <= high and is_allowed(n, bounds)]


def is_allowed(number: int, bounds: dict[str, int]) -> bool:
    """Return whether a number satisfies the keys ``divisible_by`` and ``divides``."""
    multiple, dividend = bounds.get("divisible_by", 1), bounds.get("divides", 0)
    return number % multiple == 0 and (not dividend or (number != 0 and dividend % number == 0))


def number_of(name: str, attribute: ir.Attribute) -> int:
    """Return the integer value of a key of a range.

    Raises:
        SpaceError: The attribute is not an integer, or is a divisor below 1.
    """
    if not isinstance(attribute, ir.IntegerAttr) or isinstance(attribute, ir.BoolAttr):
        raise SpaceError(f"must have a number as {name}, has {attribute}")
    if name in ("divisible_by", "divides") and int(attribute) < 1:
        raise SpaceError(f"must have {name} from 1 on, has {int(attribute)}")
    return int(attribute)
