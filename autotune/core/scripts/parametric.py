"""Open scripts: a transform script of a user's own with knobs that are still to be chosen, as plain data.

A reader finds knobs and constraints in the text; what is here turns them into a `Space`, and a
config back into what a writer sets in the script.
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

FACT = "autotune."  # what the names of facts about the machine begin with
FACTS = ("vector_registers", "lanes", "l1_bytes", "l2_bytes", "l3_bytes")
MOST_TRIED = 200_000  # configs, before a message says that none satisfies the constraints
Taken = tuple[tuple[str, Value], ...]  # choices with the value that leads to a position in a script


@dataclass(frozen=True)
class Site:
    """A position in a script.

    Attributes:
        line: Line in the user's file, from 1.
        column: Column there, from 1.
        taken: Choices that must be made so for the position to be reached, the outermost first.
    """

    line: int
    column: int
    taken: Taken = ()


@dataclass(frozen=True)
class OpenKnob:
    """A choice that a script leaves open.

    Attributes:
        name: Name in the script.
        values: Values it may take; what is no number, truth value or string is spelled as in MLIR.
        attributes: The same as MLIR's text of the attribute that is selected.
        selected: Value that the script selects; `None` if it selects none.
        sites: Positions of its declarations.
        used: Choices that lead to a use of its value.
        regions: Whether it chooses between regions of ``transform.tune.alternatives``, which are numbered from 0.
    """

    name: str
    values: tuple[Value, ...]
    attributes: tuple[str, ...]
    selected: Value | None
    sites: tuple[Site, ...]
    used: tuple[Taken, ...] = ()
    regions: bool = False

    @property
    def first(self) -> Value:
        """The selected value; without one, the first."""
        return self.selected if self.selected is not None else self.values[0]

    @property
    def condition(self) -> Condition | None:
        """Where it counts, which is where its value is read; `None` for everywhere."""
        return None if () in self.used else Condition(self.name, self.used, self.first)


@dataclass(frozen=True)
class ScriptConstraint:
    """A ``transform.smt.constrain_params``.

    Attributes:
        number: Position among those of the script, in the order of the text.
        asserted: What must hold.
        results: What the op gives to the script.
        site: Position of the op.
    """

    number: int
    asserted: tuple[Term, ...]
    results: tuple[Term, ...]
    site: Site

    @property
    def sentence(self) -> str:
        """The constraint as people write it; of one that only gives values, these."""
        return " and ".join(map(spell, self.asserted)) or f"gives {', '.join(map(spell, self.results)) or 'nothing'}"


@dataclass(frozen=True)
class ChosenScript:
    """An open script with a value for every knob: what a compiler makes a concrete script of.

    Attributes:
        source: Name of the user's file, which begins messages.
        text: The file.
        attributes: MLIR's text of what is selected, by the name of the knob.
        results: Values of each constraint's results, by the number of the constraint.
        tag: Tag of the task whose ops the script is given one at a time; empty for the whole payload at once.
        ops: Number of ops of the module that carry the tag.
        lowers: Whether the lowering that all schedules share follows, where the script leaves it to do.
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
    """A user's script, as it was read.

    Attributes:
        source: Name of the file.
        text: The file as it is.
        digest: Hash of what it does: comments, layout and a payload in the same file have no part in it.
        entry: Name of the entry: ``__transform_main`` for a script of the whole payload, another for one of one op.
        knobs: Open choices, in the order of the text.
        constraints: Constraints between them.
        notes: Notes for the user, a sentence each.
        rewrites: What happens to an op before the script, as the entry says.
        matcher: Name of the sequence that says which ops a script of one op is for; empty for all.
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
        """Whether it transforms the whole payload, not one op at a time."""
        return self.entry == "__transform_main"

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """Where knobs count that do not count everywhere."""
        return tuple(knob.condition for knob in self.knobs if knob.condition is not None)

    def space(self, machine: Machine) -> Space:
        """Its knobs, and its constraints with the facts of a machine."""
        facts = facts_of(machine)
        constraints = tuple(
            Constraint(constraint.sentence, partial(obeys, constraint, facts)) for constraint in self.constraints
        )
        return Space(tuple(Knob(knob.name, knob.values) for knob in self.knobs), constraints, self.conditions)

    def default(self, machine: Machine) -> dict[str, Value]:
        """What the script selects, and the first value of every other knob; others if a constraint wants it.

        Raises:
            SpaceError: No config with what is selected satisfies the constraints.
        """
        space = self.space(machine)
        first = space.settled({knob.name: knob.first for knob in self.knobs})
        constraint = space.broken_constraint(first)
        if constraint is None:
            return first
        near = repair(first, space, [knob.name for knob in self.knobs if knob.selected is None])
        if near is not None:
            return near
        for config in islice(self._from_the_first(), MOST_TRIED):
            if space.broken_constraint(settled := space.settled(config)) is None:
                return settled
        which = "selected" if any(knob.selected is not None for knob in self.knobs) else "some"
        raise SpaceError(
            f"{self.source}: {which} values must satisfy the constraints, they violate: {constraint}; select others"
        )

    def _from_the_first(self) -> Iterator[dict[str, Value]]:
        """Configs with what is selected, those first that differ least from the first values."""
        values = [(knob.selected,) if knob.selected is not None else knob.values for knob in self.knobs]
        names = [knob.name for knob in self.knobs]
        for chosen in product(*values):
            yield {name: value for name, value in zip(names, chosen, strict=True) if value is not None}

    def choose(self, config: Config, machine: Machine, *, tag: str = "", ops: int = 1) -> ChosenScript:
        """The script of a config."""
        given = {**config, **facts_of(machine)}
        attributes = tuple((k.name, k.attributes[k.values.index(config[k.name])]) for k in self.knobs)
        results = tuple(
            (constraint.number, tuple(evaluate(term, given) for term in constraint.results))
            for constraint in self.constraints
            if constraint.results and is_taken(constraint.site.taken, config)
        )
        return ChosenScript(self.source, self.text, attributes, results, tag, ops)

    @property
    def combinations(self) -> int:
        """Number of combinations of values, before constraints and conditions."""
        return prod(len(knob.values) for knob in self.knobs)


def facts_of(machine: Machine) -> dict[str, Value]:
    """What constraints may say of a machine, by name."""
    return {FACT + name: int(getattr(machine, name)) for name in FACTS}


def is_taken(taken: Taken, config: Config) -> bool:
    """Return whether a config leads to a position."""
    return all(config[name] == value for name, value in taken)


def obeys(constraint: ScriptConstraint, facts: Mapping[str, Value], config: Config) -> bool:
    """Return whether a config satisfies a constraint, or does not reach it. Division by zero breaks any."""
    if not is_taken(constraint.site.taken, config):
        return True
    given = {**config, **facts}
    try:
        for term in constraint.results:
            evaluate(term, given)
        return all(evaluate(term, given) for term in constraint.asserted)
    except ZeroDivisionError:
        return False


def facts_in(constraint: ScriptConstraint) -> set[str]:
    """Names of the facts that a constraint mentions."""
    names = set().union(*(names_in(term) for term in (*constraint.asserted, *constraint.results)))
    return {name for name in names if name.startswith(FACT)}
