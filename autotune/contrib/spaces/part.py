"""A part of a space that is small enough to be measured whole: values of knobs are dropped, constraints stay.

Every knob keeps two values as long as any has more: what decides should not be gone by chance.

What is left is a space like the whole: neighbours of a config are there, as they are not in a sample of configs.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import itemgetter

from autotune.core.host.machine import Machine
from autotune.core.plugs.guarded_family import GuardedFamily
from autotune.core.space import Config, Knob, Space, Value
from autotune.core.task import Task

MOST_COUNTED = 20_000  # combinations of which each is asked; of more, so many
DRAWS = 1_000
TRIED = 8  # values that are tried to be dropped, until one leaves enough
LEAST = 0.7  # of the wanted configs
MOST_COMBINATIONS = 200_000  # of a part, so that it can be gone through


@dataclass(frozen=True)
class PartFamily(GuardedFamily):
    """A family of which only a part of a task's space is searched.

    Attributes:
        part: The part.
    """

    part: Space

    def space(self, task: Task, machine: Machine) -> Space:
        """The part."""
        return self.part


def part_of(space: Space, default: Config, *, share: float, most: int, seed: int) -> Space:
    """A part of a space: values are dropped at random, the second last of a knob after the third of all others.

    Args:
        space: The whole space.
        default: A config that the part keeps.
        share: Share of the valid configs that the part may have.
        most: Most valid configs of the part.
        seed: Seed of what is dropped.
    """
    rng = random.Random(f"part {seed}")
    kept = {knob.name: list(knob.values) for knob in space.knobs}
    needed = {(name, value) for name, value in default.items()}
    needed |= {(condition.knob, condition.otherwise) for condition in space.conditions}
    enough = min(most, max(1, round(share * count_valid(space, kept, rng)))) if share < 1 else most
    while prod(map(len, kept.values())) > MOST_COMBINATIONS or count_valid(space, kept, rng) > enough:
        spare = {name: [v for v in values if (name, v) not in needed] for name, values in kept.items()}
        names = [name for name, values in spare.items() if values and len(kept[name]) > 2]
        names = names or [name for name, values in spare.items() if values]
        if not names:
            break
        ways = []
        for name in rng.choices(names, weights=[len(spare[name]) for name in names], k=TRIED):
            way = without(kept, name, rng.choice(spare[name]))
            ways.append((count_valid(space, way, rng), way))
            if ways[-1][0] >= LEAST * enough:
                break
        kept = max(ways, key=itemgetter(0))[1]
    knobs = tuple(Knob(name, tuple(values)) for name, values in kept.items())
    return Space(knobs, space.constraints, space.conditions)


def without(kept: Mapping[str, list[Value]], name: str, value: Value) -> dict[str, list[Value]]:
    """The values of knobs but for one of them."""
    return {**kept, name: [each for each in kept[name] if each != value]}


def count_valid(space: Space, kept: Mapping[str, Sequence[Value]], rng: random.Random) -> int:
    """Number of valid configs among combinations of some values; estimated where those are many."""
    part = Space(tuple(Knob(name, tuple(values)) for name, values in kept.items()), space.constraints, space.conditions)
    if part.size <= MOST_COUNTED:
        return sum(1 for _ in part.configs())
    drawn = ({name: rng.choice(values) for name, values in kept.items()} for _ in range(DRAWS))
    return round(part.size / DRAWS * sum(part.broken_constraint(config) is None for config in drawn))
