"""Selection of a part of a search space that is small enough to be measured exhaustively, by dropping values of knobs.

Every knob keeps two values as long as any knob has more, so that no important choice is lost by chance.

The part is itself a space with the same constraints. It contains neighbours of configs, which a random sample of
configs would not.
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

MOST_COUNTED = 20_000  # combinations up to which valid configs are counted exactly
DRAWS = 1_000  # random combinations for the estimate in a larger space
TRIED = 8  # candidate values per step, tried until dropping one leaves enough configs
LEAST = 0.7  # fraction of the wanted configs that is enough
MOST_COMBINATIONS = 200_000  # combinations of a part, which are enumerated


@dataclass(frozen=True)
class PartFamily(GuardedFamily):
    """Family restricted to a part of a task's search space.

    Attributes:
        part: Space to search.
    """

    part: Space

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the part."""
        return self.part


def part_of(space: Space, default: Config, *, share: float, most: int, seed: int) -> Space:
    """Return a part of a space, from which values of knobs were dropped at random.

    No knob is reduced to one value while another has more than two.

    Args:
        space: The whole space.
        default: Config that the part must contain.
        share: Maximum fraction of the valid configs.
        most: Maximum number of valid configs.
        seed: Seed of the random choices.
    """
    rng = random.Random(f"part {seed}")
    values_of = {knob.name: list(knob.values) for knob in space.knobs}
    needed = {(name, value) for name, value in default.items()}
    needed |= {(condition.knob, condition.otherwise) for condition in space.conditions}
    enough = min(most, max(1, round(share * count_valid(space, values_of, rng)))) if share < 1 else most
    while prod(map(len, values_of.values())) > MOST_COMBINATIONS or count_valid(space, values_of, rng) > enough:
        spare = {name: [v for v in values if (name, v) not in needed] for name, values in values_of.items()}
        names = [name for name, values in spare.items() if values and len(values_of[name]) > 2]
        names = names or [name for name, values in spare.items() if values]
        if not names:
            break
        reductions = []
        for name in rng.choices(names, weights=[len(spare[name]) for name in names], k=TRIED):
            reduced = without(values_of, name, rng.choice(spare[name]))
            reductions.append((count_valid(space, reduced, rng), reduced))
            if reductions[-1][0] >= LEAST * enough:
                break
        values_of = max(reductions, key=itemgetter(0))[1]
    knobs = tuple(Knob(name, tuple(values)) for name, values in values_of.items())
    return Space(knobs, space.constraints, space.conditions)


def without(values_of: Mapping[str, list[Value]], name: str, value: Value) -> dict[str, list[Value]]:
    """Return the values of knobs without one value of one knob."""
    return {**values_of, name: [each for each in values_of[name] if each != value]}


def count_valid(space: Space, values_of: Mapping[str, Sequence[Value]], rng: random.Random) -> int:
    """Return the number of valid configs among the combinations of some values; an estimate if there are many."""
    part = Space(
        tuple(Knob(name, tuple(values)) for name, values in values_of.items()), space.constraints, space.conditions
    )
    if part.size <= MOST_COUNTED:
        return sum(1 for _ in part.configs())
    drawn = ({name: rng.choice(values) for name, values in values_of.items()} for _ in range(DRAWS))
    return round(part.size / DRAWS * sum(part.broken_constraint(config) is None for config in drawn))
