"""`Knob`, `Space` and `Config`: what a schedule family lets the search choose."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from autotune.core.errors import SpaceError

Value = int | str | bool
Config = Mapping[str, Value]


@dataclass(frozen=True)
class Knob:
    """One choice: a name in the field's own terms, and the values it may take, in a meaningful order."""

    name: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise SpaceError(f"knob {self.name!r} must have at least one value; drop it or give it one")
        if len(set(self.values)) != len(self.values):
            raise SpaceError(f"values of knob {self.name!r} must differ; got {self.values}")


@dataclass(frozen=True)
class Constraint:
    """A law that ties knobs together, such as a register budget.

    Attributes:
        law: The sentence that is true of every valid config.
        holds: Tells whether a config obeys it.
    """

    law: str
    holds: Callable[[Config], bool]


@dataclass(frozen=True)
class Space:
    """Knobs and the joint constraints between them."""

    knobs: tuple[Knob, ...]
    constraints: tuple[Constraint, ...] = field(default=())

    def __post_init__(self) -> None:
        names = [knob.name for knob in self.knobs]
        if len(set(names)) != len(names):
            raise SpaceError(f"knob names must differ; got {', '.join(names)}")

    @property
    def size(self) -> int:
        """Number of combinations, before constraints."""
        return math.prod(len(knob.values) for knob in self.knobs)

    def check(self, config: Config) -> None:
        """Raise unless `config` gives every knob one of its values.

        Raises:
            SpaceError: A knob is missing, unknown, or has a value outside its list.
        """
        for knob in self.knobs:
            if knob.name not in config:
                raise SpaceError(f"config must set knob {knob.name!r}; try {knob.values[0]!r}")
            if config[knob.name] not in knob.values:
                values = ", ".join(map(repr, knob.values))
                raise SpaceError(f"{knob.name} must be one of {values}; got {config[knob.name]!r}")
        unknown = set(config) - {knob.name for knob in self.knobs}
        if unknown:
            raise SpaceError(f"config must set only knobs of its space; got {', '.join(sorted(unknown))}")

    def broken_law(self, config: Config) -> str | None:
        """The first constraint that `config` breaks, as a sentence; `None` if it obeys them all."""
        for constraint in self.constraints:
            if not constraint.holds(config):
                return constraint.law
        return None

    def configs(self) -> Iterator[dict[str, Value]]:
        """Every config that obeys the constraints, last knob fastest."""
        names = [knob.name for knob in self.knobs]
        for values in product(*(knob.values for knob in self.knobs)):
            config = dict(zip(names, values, strict=True))
            if self.broken_law(config) is None:
                yield config


def config_key(config: Config) -> str:
    """A short hash that is equal for equal configs, whatever the order of their knobs."""
    return hashlib.sha256(json.dumps(dict(config), sort_keys=True).encode()).hexdigest()[:16]
