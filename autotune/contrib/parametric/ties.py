"""Ties between open knobs: what they may be together, found by asking about configs, and written as few constraints."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from autotune.contrib.parametric.opening import Opening
from autotune.contrib.parametric.relation import Members, constraints_of
from autotune.core.scripts.terms import Term
from autotune.core.space import Knob

MOST_ASKED = 2000  # configs: of a space that has no more each one is asked for, of a larger one as many by chance
MOST_TIED = 4  # knobs in one constraint
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Tie:
    """What some knobs may be together.

    Attributes:
        places: Positions of the knobs among those that are open.
        members: Values of theirs that are allowed together.
    """

    places: tuple[int, ...]
    members: Members

    def allows(self, config: Numbers) -> bool:
        """Return whether a config, as values in the order of the knobs, is among them."""
        return tuple(config[place] for place in self.places) in self.members


@dataclass(frozen=True)
class TiedKnobs:
    """Open knobs and the constraints between them.

    Attributes:
        knobs: Knobs with the values that some config has that is allowed.
        constraints: Constraints that hold for all drawn configs that are valid, and for no other drawn one.
    """

    knobs: tuple[Knob, ...]
    constraints: tuple[Term, ...]


def tie_knobs(opening: Opening) -> TiedKnobs:
    """The open knobs of a family, with what ties them."""
    names = [knob.name for knob in opening.open_knobs]
    asked = list(samples(opening))
    allowed = {config for config in asked if opening.allows(dict(zip(names, config, strict=True)))}
    seen = [{config[place] for config in allowed} for place in range(len(names))]
    knobs = tuple(
        Knob(knob.name, tuple(value for value in knob.values if value in seen[place]))
        for place, knob in enumerate(opening.open_knobs)
    )
    wrong = {config for config in asked if config not in allowed and all(map(set.__contains__, seen, config))}
    constraints: list[Term] = []
    for tie in cover(wrong, allowed):
        constraints += constraints_of([knobs[place] for place in tie.places], tie.members)
    return TiedKnobs(knobs, tuple(constraints))


def cover(wrong: set[Numbers], allowed: set[Numbers]) -> Iterator[Tie]:
    """Ties that leave no wrong config; of few knobs, and those first that exclude most."""
    count = len(next(iter(allowed), ()))
    for size in range(2, min(MOST_TIED, count) + 1):
        ties = [tie_of(places, allowed) for places in combinations(range(count), size)]
        while wrong:
            best = min(ties, key=lambda tie: sum(map(tie.allows, wrong)))
            left = {config for config in wrong if best.allows(config)}
            if len(left) == len(wrong):
                break
            wrong = left
            yield best


def tie_of(indices: tuple[int, ...], allowed: set[Numbers]) -> Tie:
    """What some knobs are together in configs that are allowed."""
    return Tie(indices, frozenset(tuple(config[place] for place in indices) for config in allowed))


def samples(opening: Opening) -> Iterator[Numbers]:
    """All configs of a small space; of a large one the shown one and others by chance."""
    values: Sequence[Sequence[int]] = [[int(value) for value in knob.values] for knob in opening.open_knobs]
    if prod(map(len, values)) <= MOST_ASKED:
        yield from product(*values)
        return
    yield tuple(opening.selected(knob) for knob in opening.open_knobs)
    draw = random.Random(0)
    for _ in range(MOST_ASKED):
        yield tuple(map(draw.choice, values))
