"""Parametric scripts: a user's transform script with open knobs, as plain data.

A reader extracts knobs and constraints from the text. This module turns them into a `Space`, and a config into the
values that a writer substitutes in the script.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice, product
from math import prod

from autotune.core.errors import SpaceError
from autotune.core.host.machine import Machine
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.scripts.technique import repair
from autotune.core.scripts.terms import Term, evaluate, names_in, spell
from autotune.core.space import Condition, Config, Constraint, Knob, Space, Value

FACT = "autotune."  # prefix of the names of machine parameters
FACTS = ("vector_registers", "lanes", "l1_bytes", "l2_bytes", "l3_bytes")
MOST_TRIED = 200_000  # configs that are tried before the constraints are reported as unsatisfiable
Choices = tuple[tuple[str, Value], ...]  # knobs of enclosing alternatives, with the values that select a position


@dataclass(frozen=True)
class Site:
    """A position in a script.

    Attributes:
        line: Line in the user's file, from 1.
        column: Column, from 1.
        choices: Knobs with the values for which the position is reached, the outermost first.
    """

    line: int
    column: int
    choices: Choices = ()


@dataclass(frozen=True)
class OpenKnob:
    """An open knob of a script.

    Attributes:
        name: Name in the script.
        values: Possible values; other attributes than numbers, booleans and strings are kept as MLIR's text.
        attributes: MLIR's text of the attribute for each value.
        selected: Value that the script selects; `None` if it selects none.
        sites: Positions of its declarations.
        used: Knobs with the values for which a use of its value is reached, for each use.
        regions: Whether it selects a region of ``transform.tune.alternatives``, numbered from 0.
    """

    name: str
    values: tuple[Value, ...]
    attributes: tuple[str, ...]
    selected: Value | None
    sites: tuple[Site, ...]
    used: tuple[Choices, ...] = ()
    regions: bool = False

    @property
    def first(self) -> Value:
        """Selected value; the first one if none is selected."""
        return self.selected if self.selected is not None else self.values[0]

    @property
    def condition(self) -> Condition | None:
        """Condition under which it is active, that is, its value is used; `None` if it always is."""
        return None if () in self.used else Condition(self.name, self.used, self.first)


@dataclass(frozen=True)
class ScriptConstraint:
    """A ``transform.smt.constrain_params`` op.

    Attributes:
        number: Position among those ops of the script, in the order of the text.
        asserted: Asserted terms.
        results: Terms of the op's results.
        site: Position of the op.
    """

    number: int
    asserted: tuple[Term, ...]
    results: tuple[Term, ...]
    site: Site

    @property
    def sentence(self) -> str:
        """Constraint in infix notation; for one without assertions, its results."""
        return " and ".join(map(spell, self.asserted)) or f"gives {', '.join(map(spell, self.results)) or 'nothing'}"


@dataclass(frozen=True)
class ChosenScript:
    """A parametric script with a value for every knob, from which the compiler instantiates a script.

    Attributes:
        source: Name of the user's file, which begins messages.
        text: Text of the file.
        attributes: MLIR's text of the selected attribute, by the name of the knob.
        results: Values of each constraint's results, by the number of the constraint.
        tag: Tag of the task whose ops the script is applied to, one at a time; empty for the whole payload.
        ops: Number of ops of the module that carry the tag.
        lowers: Whether the lowering that all schedules share follows, where the script does not lower itself.
    """

    source: str
    text: str
    attributes: tuple[tuple[str, str], ...]
    results: tuple[tuple[int, tuple[int, ...]], ...] = ()
    tag: str = ""
    ops: int = 1
    lowers: bool = True


@dataclass(frozen=True)
class OpenScript:
    """A user's parametric script, as read from a file.

    Attributes:
        source: Name of the file.
        text: Text of the file.
        digest: Hash of the script, without comments, layout, and a payload in the same file.
        entry: Name of the entry: ``__transform_main`` for a script of the whole payload, another for one of one op.
        knobs: Open knobs, in the order of the text.
        constraints: Constraints between them.
        notes: Notes for the user, a sentence each.
        rewrites: Rewrites of an op before the script, from the attributes of the entry.
        matcher: Name of the sequence that matches the ops of a script of one op; empty for all ops.
    """

    source: str
    text: str
    digest: str
    entry: str
    knobs: tuple[OpenKnob, ...]
    constraints: tuple[ScriptConstraint, ...] = ()
    notes: tuple[str, ...] = field(default=())
    rewrites: Rewrites = field(default_factory=Rewrites)
    matcher: str = ""

    @property
    def whole(self) -> bool:
        """Whether it transforms the whole payload instead of one op at a time."""
        return self.entry == "__transform_main"

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """Conditions of the knobs that are not always active."""
        return tuple(knob.condition for knob in self.knobs if knob.condition is not None)

    def space(self, machine: Machine) -> Space:
        """Return the search space, with the constraints for the parameters of a machine."""
        facts = facts_of(machine)
        constraints = tuple(
            Constraint(constraint.sentence, partial(satisfies, constraint, facts)) for constraint in self.constraints
        )
        return Space(tuple(Knob(knob.name, knob.values) for knob in self.knobs), constraints, self.conditions)

    def default(self, machine: Machine) -> dict[str, Value]:
        """Return the default config: selected values, and for other knobs the first values that satisfy constraints.

        Raises:
            SpaceError: No config with the selected values satisfies the constraints.
        """
        space = self.space(machine)
        first = space.settled({knob.name: knob.first for knob in self.knobs})
        constraint = space.broken_constraint(first)
        if constraint is None:
            return first
        repaired = repair(first, space, [knob.name for knob in self.knobs if knob.selected is None])
        if repaired is not None:
            return repaired
        for config in islice(self._from_the_first(), MOST_TRIED):
            if space.broken_constraint(settled := space.settled(config)) is None:
                return settled
        which = "selected" if any(knob.selected is not None for knob in self.knobs) else "some"
        raise SpaceError(
            f"{self.source}: {which} values must satisfy the constraints, they violate: {constraint}; select others"
        )

    def _from_the_first(self) -> Iterator[dict[str, Value]]:
        """Yield the configs with the selected values, in lexicographic order from the first values."""
        values = [(knob.selected,) if knob.selected is not None else knob.values for knob in self.knobs]
        names = [knob.name for knob in self.knobs]
        for chosen in product(*values):
            yield {name: value for name, value in zip(names, chosen, strict=True) if value is not None}

    def choose(self, config: Config, machine: Machine, *, tag: str = "", ops: int = 1) -> ChosenScript:
        """Return the script with the values of a config."""
        environment = {**config, **facts_of(machine)}
        attributes = tuple((k.name, k.attributes[k.values.index(config[k.name])]) for k in self.knobs)
        results = tuple(
            (constraint.number, tuple(evaluate(term, environment) for term in constraint.results))
            for constraint in self.constraints
            if constraint.results and is_reached(constraint.site.choices, config)
        )
        return ChosenScript(self.source, self.text, attributes, results, tag, ops)

    @property
    def combinations(self) -> int:
        """Number of combinations of values, before constraints and conditions."""
        return prod(len(knob.values) for knob in self.knobs)


def facts_of(machine: Machine) -> dict[str, Value]:
    """Return the parameters of a machine that constraints may use, by name."""
    return {FACT + name: int(getattr(machine, name)) for name in FACTS}


def is_reached(choices: Choices, config: Config) -> bool:
    """Return whether a position is reached in a config."""
    return all(config[name] == value for name, value in choices)


def satisfies(constraint: ScriptConstraint, facts: Mapping[str, Value], config: Config) -> bool:
    """Return whether a config satisfies a constraint, or does not reach it. A division by zero violates it."""
    if not is_reached(constraint.site.choices, config):
        return True
    environment = {**config, **facts}
    try:
        for term in constraint.results:
            evaluate(term, environment)
        return all(evaluate(term, environment) for term in constraint.asserted)
    except ZeroDivisionError:
        return False


def facts_in(constraint: ScriptConstraint) -> set[str]:
    """Return the names of the machine parameters that a constraint uses."""
    names = set().union(*(names_in(term) for term in (*constraint.asserted, *constraint.results)))
    return {name for name in names if name.startswith(FACT)}
