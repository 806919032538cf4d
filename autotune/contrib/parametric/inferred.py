"""Inferred constraints: relations between knobs, learned from which sampled configs are allowed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from autotune.contrib.parametric.parameters import ScriptParameters
from autotune.contrib.parametric.relation import Members, constraints_of
from autotune.core.scripts.terms import Term
from autotune.core.space import Knob

MOST_CHECKED = 2000  # configs checked: all of a space of at most this size, else a random sample of it
MOST_TOGETHER = 4  # knobs in one constraint
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class InferredConstraint:
    """Relation between some knobs.

    Attributes:
        positions: Positions of the knobs among the open ones.
        members: Tuples of their values that are allowed.
    """

    positions: tuple[int, ...]
    members: Members

    def allows(self, config: Numbers) -> bool:
        """Return whether a config, as values in the order of the knobs, is in the relation."""
        return tuple(config[position] for position in self.positions) in self.members


@dataclass(frozen=True)
class ParameterSpace:
    """Open knobs and the constraints between them.

    Attributes:
        knobs: Knobs with the values that occur in some allowed config.
        constraints: Constraints that hold for exactly the allowed configs among those sampled.
    """

    knobs: tuple[Knob, ...]
    constraints: tuple[Term, ...]


def infer_constraints(parameters: ScriptParameters) -> ParameterSpace:
    """Infer the constraints between the open knobs of a script."""
    names = [knob.name for knob in parameters.open_knobs]
    sampled = list(samples(parameters))
    allowed = {config for config in sampled if parameters.allows(dict(zip(names, config, strict=True)))}
    seen = [{config[position] for config in allowed} for position in range(len(names))]
    knobs = tuple(
        Knob(knob.name, tuple(value for value in knob.values if value in seen[position]))
        for position, knob in enumerate(parameters.open_knobs)
    )
    wrong = {config for config in sampled if config not in allowed and all(map(set.__contains__, seen, config))}
    constraints: list[Term] = []
    for each in cover(wrong, allowed):
        constraints += constraints_of([knobs[position] for position in each.positions], each.members)
    return ParameterSpace(knobs, tuple(constraints))


def cover(wrong: set[Numbers], allowed: set[Numbers]) -> Iterator[InferredConstraint]:
    """Yield constraints that together exclude the wrong configs.

    Greedy set cover: constraints of few knobs come first, and among them those that exclude most.
    """
    count = len(next(iter(allowed), ()))
    for size in range(2, min(MOST_TOGETHER, count) + 1):
        inferred = [constraint_of(positions, allowed) for positions in combinations(range(count), size)]
        while wrong:
            best = min(inferred, key=lambda each: sum(map(each.allows, wrong)))
            remaining = {config for config in wrong if best.allows(config)}
            if len(remaining) == len(wrong):
                break
            wrong = remaining
            yield best


def constraint_of(positions: tuple[int, ...], allowed: set[Numbers]) -> InferredConstraint:
    """Return the relation between some knobs in the allowed configs."""
    return InferredConstraint(
        positions, frozenset(tuple(config[position] for position in positions) for config in allowed)
    )


def samples(parameters: ScriptParameters) -> Iterator[Numbers]:
    """Yield all configs of a small space; of a large one the shown config and a random sample."""
    values: Sequence[Sequence[int]] = [[int(value) for value in knob.values] for knob in parameters.open_knobs]
    if prod(map(len, values)) <= MOST_CHECKED:
        yield from product(*values)
        return
    yield tuple(parameters.selected(knob) for knob in parameters.open_knobs)
    draw = random.Random(0)
    for _ in range(MOST_CHECKED):
        yield tuple(map(draw.choice, values))
