"""`Technique`: an optimization of a schedule that knobs can disable, so that its benefit can be measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from autotune.core.space import Space, Value

MOST_REPAIRS = 3  # other knobs that may change, so that a config without a technique satisfies the constraints


@dataclass(frozen=True)
class Technique:
    """An optimization that can be disabled by knobs.

    Packages register a tuple of techniques, each after those it builds on, in the entry-point group
    ``autotune.techniques``.

    Attributes:
        name: Name of the technique for users.
        plain: Values of knobs that disable it, by name; for a family with numbered knobs, those of all of ``name_1``,
            ``name_2``. Knobs that a space lacks are ignored.
    """

    name: str
    plain: Mapping[str, Value]


def repair(config: dict[str, Value], space: Space, free: Sequence[str]) -> dict[str, Value] | None:
    """Return the valid config that differs in the fewest of the `free` knobs, with values close to the current ones.

    Return `None` if changing `MOST_REPAIRS` knobs does not suffice.
    """
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
