"""`Knob`, `Space` and `Config`: the search space that a schedule family defines."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from autotune.core.errors import SpaceError
from autotune.core.html import html_table

Value = int | str | bool
Config = Mapping[str, Value]


@dataclass(frozen=True)
class Knob:
    """A parameter of a schedule: its name, and the values it may take, in a meaningful order."""

    name: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise SpaceError(f"knob {self.name!r} must have at least one value; drop it or give it one")
        if len(set(self.values)) != len(self.values):
            raise SpaceError(f"values of knob {self.name!r} must differ; got {self.values}")


def largest_up_to(most: int, values: Iterable[Value]) -> int:
    """Return the largest of a knob's integer values that is at most `most`."""
    return max(int(v) for v in values if int(v) <= most)


@dataclass(frozen=True)
class Constraint:
    """A constraint that ties knobs together, such as a register budget.

    Attributes:
        sentence: Sentence that is true of every valid config.
        holds: Predicate that returns whether a config satisfies it.
    """

    sentence: str
    holds: Callable[[Config], bool]


@dataclass(frozen=True)
class Condition:
    """Condition under which a knob is active; an inactive knob has no effect, and is fixed to one value.

    Attributes:
        knob: Name of the knob.
        cases: Alternatives under which the knob is active: each is a conjunction of knob names with required values.
        otherwise: Value of the knob where it is inactive.
    """

    knob: str
    cases: tuple[tuple[tuple[str, Value], ...], ...]
    otherwise: Value

    def counts(self, config: Config) -> bool:
        """Return whether the knob is active in a config."""
        return any(all(config[name] == value for name, value in case) for case in self.cases)

    @property
    def sentence(self) -> str:
        """Sentence that is true of every config whose inactive knobs have their fixed values."""
        cases = " or where ".join(" and ".join(f"{name} is {value}" for name, value in p) for p in self.cases)
        where = f"counts only where {cases}" if cases else "is read nowhere"
        return f"{self.knob} must be {self.otherwise}, as it {where}"


MOST_SHOWN = 6  # values of a knob, in a line


def short_list(values: Sequence[Value]) -> str:
    """Return the values of a knob in a line: all where they are few, else the first ones and the last."""
    shown = list(map(str, values))
    if len(shown) > MOST_SHOWN:
        shown = [*shown[: MOST_SHOWN - 2], "..", shown[-1]]
    return ", ".join(shown)


@dataclass(frozen=True)
class Space:
    """Search space: knobs, the joint constraints between them, and conditions under which knobs are active."""

    knobs: tuple[Knob, ...]
    constraints: tuple[Constraint, ...] = field(default=())
    conditions: tuple[Condition, ...] = field(default=())

    def __repr__(self) -> str:
        knobs = "; ".join(f"{knob.name} in {short_list(knob.values)}" for knob in self.knobs)
        return f"<Space of {len(self.knobs)} knobs, {len(self.constraints)} constraints: {knobs}>"

    def _repr_html_(self) -> str:
        caption = f"{len(self.knobs)} knobs, {len(self.constraints)} constraints between them"
        return html_table(caption, ("knob", "values"), ((k.name, ", ".join(map(str, k.values))) for k in self.knobs))

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

    def settled(self, config: Config) -> dict[str, Value]:
        """Return the canonical config of the same program: inactive knobs have their fixed values."""
        settled = dict(config)
        for condition in self.conditions:
            if not condition.counts(settled):
                settled[condition.knob] = condition.otherwise
        return settled

    def broken_constraint(self, config: Config) -> str | None:
        """Return the first violated constraint as a sentence; `None` if `config` satisfies all of them."""
        for condition in self.conditions:
            if config[condition.knob] != condition.otherwise and not condition.counts(config):
                return condition.sentence
        for constraint in self.constraints:
            if not constraint.holds(config):
                return constraint.sentence
        return None

    def configs(self) -> Iterator[dict[str, Value]]:
        """Yield every config that satisfies the constraints, last knob fastest; inactive knobs are fixed."""
        conditions = {condition.knob: condition for condition in self.conditions}
        names = [knob.name for knob in self.knobs]
        free = [knob for knob in self.knobs if knob.name not in conditions]
        conditional = [knob for knob in self.knobs if knob.name in conditions]
        for values in product(*(knob.values for knob in free)):
            chosen = dict(zip((knob.name for knob in free), values, strict=True))
            for whole in expand(chosen, conditional, conditions):
                config = {name: whole[name] for name in names}
                if self.broken_constraint(config) is None:
                    yield config


def expand(
    chosen: dict[str, Value], others: Sequence[Knob], conditions: Mapping[str, Condition]
) -> Iterator[dict[str, Value]]:
    """Yield the extensions of a config by values of the conditional knobs `others`, in the order of dependence."""
    if not others:
        yield chosen
        return
    names = {knob.name for knob in others}
    ready = [k for k in others if names.isdisjoint(name for case in conditions[k.name].cases for name, _ in case)]
    knob = (ready or others)[0]
    rest = [each for each in others if each is not knob]
    condition = conditions[knob.name]
    for value in knob.values if not ready or condition.counts(chosen) else (condition.otherwise,):
        yield from expand({**chosen, knob.name: value}, rest, conditions)


def config_key(config: Config) -> str:
    """Return a hash of a config, 16 hex digits, that does not depend on the order of the knobs."""
    return hashlib.sha256(json.dumps(dict(config), sort_keys=True).encode()).hexdigest()[:16]
