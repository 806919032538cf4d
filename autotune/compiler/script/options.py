"""Options of a knob: the values that the attribute of a ``transform.tune.knob`` lists or spans.

Lists of any attributes, and conventions for spans of whole numbers: ``{lb, ub, step}``, ``{start, stop, step}``, and
``{lower_bound, upper_bound, divisible_by, divides}``; bounds are among the values. What Python has no value for is
spelled as in MLIR.
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
WORD = 2**31  # numbers beyond are spelled


@dataclass(frozen=True)
class Options:
    """Values of a knob, and MLIR's text of the attribute that each is selected as."""

    values: tuple[Value, ...]
    attributes: tuple[str, ...]

    def value_of(self, attribute: ir.Attribute) -> Value | None:
        """The value of an attribute; `None` if it is none of these."""
        spelled = str(attribute)
        return self.values[self.attributes.index(spelled)] if spelled in self.attributes else None


def read_options(attribute: ir.Attribute, selected: ir.Attribute | None = None) -> Options:
    """The values of an ``options`` attribute; of one that lists nothing, such as an affine set, what is selected alone.

    Raises:
        SpaceError: The attribute lists or spans nothing; the rest of a sentence that begins with the knob.
    """
    if isinstance(attribute, ir.ArrayAttr):
        return options_of(list(attribute))
    if isinstance(attribute, ir.DictAttr):
        word = ir.IntegerType.get_signless(64)
        return options_of([ir.IntegerAttr.get(word, number) for number in span(attribute)])
    for kind in (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr):
        if isinstance(attribute, kind):
            word = ir.IntegerType.get_signless(64 if kind is ir.DenseI64ArrayAttr else 32)
            return options_of([ir.IntegerAttr.get(word, number) for number in attribute])
    if selected is not None:
        return options_of([selected])
    raise SpaceError(f"must have options as a list or a span, has {str(attribute)[:80]}; write [1, 2, 4]")


def options_of(attributes: Sequence[ir.Attribute]) -> Options:
    """Attributes as values; all are spelled where two would be one value.

    Raises:
        SpaceError: There are none, too many, or one twice.
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
    """An attribute as a Python value, or as MLIR spells it."""
    if isinstance(attribute, ir.BoolAttr):
        return bool(attribute.value)
    if isinstance(attribute, ir.IntegerAttr) and abs(int(attribute)) < WORD:
        return int(attribute)
    if isinstance(attribute, ir.StringAttr) and attribute.value.isprintable():
        return str(attribute.value)
    return str(attribute)


def span(attribute: ir.DictAttr) -> list[int]:
    """The numbers of a span, in order.

    Raises:
        SpaceError: A bound is missing or no number, or a key is unknown.
    """
    given = {named.name: named.attr for named in attribute}
    if not any(set(given) <= keys for keys in (SPAN, RANGE, BOUNDS)):
        unknown = ", ".join(sorted(set(given) - SPAN - RANGE - BOUNDS)) or "keys of several"
        raise SpaceError(
            f"must span {{lb, ub, step}} or {{lower_bound, upper_bound, divisible_by, divides}}, has {unknown}"
        )
    if isinstance(listed := given.pop("options", None), ir.ArrayAttr):
        numbers = [number_of("options", each) for each in listed]
        low, high = min(numbers, default=0), max(numbers, default=0)
    else:
        numbers, low, high = [], 1, None
    bounds = {name: number_of(name, value) for name, value in given.items()}
    low = next((bounds[key] for key in ("lb", "start", "lower_bound") if key in bounds), low)
    high = next((bounds[key] for key in ("ub", "stop", "upper_bound", "divides") if key in bounds), high)
    step = bounds.get("step", 1)
    if high is None or step < 1:
        raise SpaceError("must span up to a bound in steps of at least 1; give ub, or upper_bound")
    if (high - low) // step >= WORD:
        raise SpaceError(f"must span less than {WORD} numbers, spans {high - low}; take larger steps")
    return [n for n in (numbers or range(low, high + 1, step)) if low <= n <= high and is_allowed(n, bounds)]


def is_allowed(number: int, bounds: dict[str, int]) -> bool:
    """Tell whether a number is a multiple, and a divisor, of what is wanted."""
    multiple, whole = bounds.get("divisible_by", 1), bounds.get("divides", 0)
    return number % multiple == 0 and (not whole or (number != 0 and whole % number == 0))


def number_of(name: str, attribute: ir.Attribute) -> int:
    """The number of a span's key.

    Raises:
        SpaceError: The attribute is no number, or a zero that would divide.
    """
    if not isinstance(attribute, ir.IntegerAttr) or isinstance(attribute, ir.BoolAttr):
        raise SpaceError(f"must have a number as {name}, has {attribute}")
    if name in ("divisible_by", "divides") and int(attribute) < 1:
        raise SpaceError(f"must have {name} from 1 on, has {int(attribute)}")
    return int(attribute)
