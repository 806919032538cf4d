"""Techniques: what a schedule does, as knobs with a value for "not done", so that its share can be measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from autotune.core.space import Space, Value

MOST_REPAIRS = 3  # knobs that may change besides, for a config without a technique to satisfy the constraints


@dataclass(frozen=True)
class Technique:
    """One technique.

    Packages register a tuple of them, in the order in which one builds on another, under the entry-point group
    ``autotune.techniques``.

    Attributes:
        name: Name that users know the technique by.
        plain: Values of knobs that mean it is not done, by name; for a family that numbers its knobs, all of
            ``name_1``, ``name_2``. Knobs that a space lacks do not count.
    """

    name: str
    plain: Mapping[str, Value]


def repair(config: dict[str, Value], space: Space, free: Sequence[str]) -> dict[str, Value] | None:
    """The valid config that differs in the fewest of the `free` knobs; values near the present ones come first."""
    positions = {knob.name: {value: index for index, value in enumerate(knob.values)} for knob in space.knobs}
    values = {
        name: sorted(positions[name], key=lambda v, n=name: abs(positions[n][v] - positions[n][config[n]]))[1:]  # type: ignore[misc]
        for name in free
    }
    for count in range(MOST_REPAIRS + 1):
        for names in combinations(free, count):
            for chosen in product(*(values[name] for name in names)):
                tried = {**config, **dict(zip(names, chosen, strict=True))}
                if space.broken_constraint(tried) is None:
                    return tried
    return None
