"""Inferred constraints: which values of knobs a script may have together, as asking about configs finds out."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from autotune.contrib.parametric.parameters import ScriptParameters
from autotune.contrib.parametric.relation import Members, constraints_of
from autotune.core.scripts.terms import Term
from autotune.core.space import Knob

MOST_ASKED = 2000  # configs: of a space that has no more each one is asked for, of a larger one as many by chance
MOST_TOGETHER = 4  # knobs in one constraint
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class InferredConstraint:
    """What some knobs may be together.

    Attributes:
        positions: Positions of the knobs among those that are open.
        members: Values of theirs that are allowed together.
    """

    positions: tuple[int, ...]
    members: Members

    def allows(self, config: Numbers) -> bool:
        """Return whether a config, as values in the order of the knobs, is among them."""
        return tuple(config[position] for position in self.positions) in self.members


@dataclass(frozen=True)
class ParameterSpace:
    """Open knobs and the constraints between them.

    Attributes:
        knobs: Knobs with the values that some config has that is allowed.
        constraints: Constraints that hold for all drawn configs that are valid, and for no other drawn one.
    """

    knobs: tuple[Knob, ...]
    constraints: tuple[Term, ...]


def infer_constraints(parameters: ScriptParameters) -> ParameterSpace:
    """The knobs that stay parameters, with the constraints between them."""
    names = [knob.name for knob in parameters.open_knobs]
    asked = list(samples(parameters))
    allowed = {config for config in asked if parameters.allows(dict(zip(names, config, strict=True)))}
    seen = [{config[position] for config in allowed} for position in range(len(names))]
    knobs = tuple(
        Knob(knob.name, tuple(value for value in knob.values if value in seen[position]))
        for position, knob in enumerate(parameters.open_knobs)
    )
    wrong = {config for config in asked if config not in allowed and all(map(set.__contains__, seen, config))}
    constraints: list[Term] = []
    for each in cover(wrong, allowed):
        constraints += constraints_of([knobs[position] for position in each.positions], each.members)
    return ParameterSpace(knobs, tuple(constraints))


def cover(wrong: set[Numbers], allowed: set[Numbers]) -> Iterator[InferredConstraint]:
    """Inferred constraints that leave no wrong config; of few knobs, and those first that exclude most."""
    count = len(next(iter(allowed), ()))
    for size in range(2, min(MOST_TOGETHER, count) + 1):
        inferred = [constraint_of(positions, allowed) for positions in combinations(range(count), size)]
        while wrong:
            best = min(inferred, key=lambda each: sum(map(each.allows, wrong)))
            left = {config for config in wrong if best.allows(config)}
            if len(left) == len(wrong):
                break
            wrong = left
            yield best


def constraint_of(positions: tuple[int, ...], allowed: set[Numbers]) -> InferredConstraint:
    """What some knobs are together in configs that are allowed."""
    return InferredConstraint(
        positions, frozenset(tuple(config[position] for position in positions) for config in allowed)
    )


def samples(parameters: ScriptParameters) -> Iterator[Numbers]:
    """All configs of a small space; of a large one the shown one and others by chance."""
    values: Sequence[Sequence[int]] = [[int(value) for value in knob.values] for knob in parameters.open_knobs]
    if prod(map(len, values)) <= MOST_ASKED:
        yield from product(*values)
        return
    yield tuple(parameters.selected(knob) for knob in parameters.open_knobs)
    draw = random.Random(0)
    for _ in range(MOST_ASKED):
        yield tuple(map(draw.choice, values))
