"""Which knobs of a family can be parameters of its script, where they stand in it, and what constrains them.

The family is asked, not rewritten. It builds the script of a config, and those of configs near it. Where only numbers
differ, and each is a multiple of knobs, knobs can replace the numbers; where ops differ, a knob is a choice
of structure, and stays as it is. What knobs may not be together is found by asking as well: a config is allowed if it
satisfies the family's constraints and the family writes for it what the open script becomes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import prod

from autotune.contrib.parametric.alternatives import BooleanAlternative, hunks_between, with_alternatives
from autotune.contrib.parametric.lines import ScriptLine, ops_in, read_lines
from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.plugs.guarded_family import GuardedFamily
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Config, Knob, Space, Value
from autotune.core.task import Task

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Size:
    """What a number in a script is: a multiple of the product of knobs; a constant where it names none."""

    factor: int
    knobs: tuple[str, ...] = ()

    def of(self, config: Config) -> int:
        """The number for a config."""
        return self.factor * prod(int(config[name]) for name in self.knobs)


@dataclass(frozen=True)
class FamilyScript:
    """A family that is asked what it writes for configs near one.

    Attributes:
        family: The family.
        task: Task that it covers.
        machine: Host that scripts are written for.
        shown: Config that the others are near to.
    """

    family: Family
    task: Task
    machine: Machine
    shown: Config

    @cached_property
    def space(self) -> Space:
        """The family's knobs and constraints."""
        return self.family.space(self.task, self.machine)

    @cached_property
    def rewrites(self) -> Rewrites:
        """What happens to the task's op before the script."""
        return self.family.rewrites(self.task, self.shown)

    @cached_property
    def lines(self) -> tuple[ScriptLine, ...]:
        """The script for the config that is shown."""
        return tuple(read_lines(self.family.build(self.task, self.shown, self.machine)))

    @cached_property
    def ops(self) -> list[ScriptLine]:
        """The same without comments."""
        return ops_in(self.lines)

    def write(self, changed: Config) -> list[ScriptLine] | None:
        """The ops of the script for a config; `None` if something else happens before it.

        That is so, too, where a family cannot write a script for a config that breaks its constraints.
        """
        config = {**self.shown, **changed}
        family = GuardedFamily(self.family)
        try:
            if family.rewrites(self.task, config) != self.rewrites:
                return None
            return ops_in(read_lines(family.build(self.task, config, self.machine)))
        except ScheduleError:
            return None

    def numbers(self, changed: Config) -> Numbers | None:
        """The numbers in the script for a config, where it has the ops of the one that is shown; else `None`."""
        lines = self.write(changed)
        if lines is None or [line.kind for line in lines] != [line.kind for line in self.ops]:
            return None
        return tuple(number for line in lines for number in line.numbers)

    def is_valid(self, changed: Config) -> bool:
        """Return whether a config satisfies the family's constraints."""
        return self.space.broken_constraint({**self.shown, **changed}) is None


@dataclass(frozen=True)
class ScriptParameters:
    """The knobs of a family that can stay open in its script for a config.

    Attributes:
        written: The family, and the config that the open knobs select.
        sizes: What each number of each op of the script is.
        knobs: Knobs of numbers that stay open, with the values that they may take.
        alternatives: Knobs that add ops or leave some out: 0 is the value that is shown, 1 the other.
    """

    written: FamilyScript
    sizes: tuple[tuple[Size, ...], ...]
    knobs: tuple[Knob, ...]
    alternatives: tuple[BooleanAlternative, ...]

    def config(self, chosen: Config) -> dict[str, Value]:
        """The family's config for values of the open knobs."""
        others = {
            alternative.knob: alternative.values[int(chosen.get(alternative.knob, 0))]
            for alternative in self.alternatives
        }
        return {**self.written.shown, **chosen, **others}

    def allows(self, chosen: Config) -> bool:
        """Return whether a config is valid, and the family writes for it what the open script becomes."""
        config = self.config(chosen)
        if not self.written.is_valid(config):
            return False
        return self.written.write(config) == list(self.becomes(chosen))

    def becomes(self, chosen: Config) -> Iterator[ScriptLine]:
        """The ops of the open script for values of its knobs."""
        ops, shown = self.written.ops, {**self.written.shown, **chosen}
        taken = [bool(chosen.get(alternative.knob, 0)) for alternative in self.alternatives]
        for found in with_alternatives(len(ops), self.alternatives, taken):
            if isinstance(found, int):
                yield replace(ops[found], numbers=tuple(size.of(shown) for size in self.sizes[found]))
            else:
                yield found

    def selected(self, knob: Knob) -> int:
        """The value of an open knob for the config that is shown."""
        return (
            0
            if any(alternative.knob == knob.name for alternative in self.alternatives)
            else int(self.written.shown[knob.name])
        )

    @property
    def open_knobs(self) -> tuple[Knob, ...]:
        """All knobs of the open script, in the order of the family's."""
        opened = {knob.name: knob for knob in self.knobs} | {s.knob: Knob(s.knob, (0, 1)) for s in self.alternatives}
        return tuple(opened[knob.name] for knob in self.written.space.knobs if knob.name in opened)


def parameters_of(family: Family, task: Task, machine: Machine, config: Config) -> ScriptParameters:
    """Open the script that a family writes for a config.

    Args:
        family: Covers the task.
        task: Task that the script is for.
        machine: Host that the script is written for.
        config: Config to show.
    """
    written = FamilyScript(family, task, machine, config)
    near = {knob.name: ask(written, knob) for knob in written.space.knobs}
    first = written.numbers({}) or ()
    given = [bool(line.attribute) for line in written.ops for _ in line.numbers]
    sizes = [fit(index, first, near, written.shown, is_attribute=is_set) for index, is_set in enumerate(given)]
    knobs = []
    for knob in written.space.knobs:
        values = [v for v, numbers in near[knob.name].items() if fits(sizes, numbers, {**written.shown, knob.name: v})]
        if len(values) > 1:
            knobs.append(Knob(knob.name, tuple(v for v in knob.values if v in values)))
    opened = {knob.name for knob in knobs}
    flat = iter([settled(size, opened, written.shown) for size in sizes])
    by_op = tuple(tuple(next(flat) for _ in line.numbers) for line in written.ops)
    return ScriptParameters(written, by_op, tuple(knobs), tuple(find_alternatives(written, opened)))


def find_alternatives(written: FamilyScript, opened: set[str]) -> Iterator[BooleanAlternative]:
    """Alternatives among the knobs that are not open; of two that meet at an op that one leaves out, the first."""
    covered, begun = set[int](), set[int]()
    for knob in written.space.knobs:
        for alternative in alternatives_of(written, knob) if knob.name not in opened else ():
            begins = {hunk.at for hunk in alternative.hunks}
            if not (alternative.covered & (covered | begun) or begins & covered):
                covered, begun = covered | alternative.covered, begun | begins
                yield alternative
                break


def alternatives_of(written: FamilyScript, knob: Knob) -> Iterator[BooleanAlternative]:
    """Alternatives between the value of a knob that is shown and each other one that is valid."""
    shown = written.shown[knob.name]
    for value in knob.values:
        if value != shown and written.is_valid({knob.name: value}):
            other = written.write({knob.name: value})
            hunks = hunks_between(written.ops, other) if other is not None else None
            if hunks:
                yield BooleanAlternative(knob.name, (shown, value), hunks)


def ask(written: FamilyScript, knob: Knob) -> dict[Value, Numbers]:
    """The numbers in the script for values of a knob, if they are all that moves; those of the shown value first."""
    first = written.numbers({}) or ()
    found: dict[Value, Numbers] = {written.shown[knob.name]: first}
    for value in knob.values:
        if type(value) is int and value and value not in found:
            numbers = written.numbers({knob.name: value})
            if numbers is not None and numbers != first:
                found[value] = numbers
    return found


def fit(
    index: int,
    first: Numbers,
    near: Mapping[str, Mapping[Value, Numbers]],
    shown: Config,
    *,
    is_attribute: bool,
) -> Size:
    """What a number is: the product of knobs that explains it in most of the scripts near the one that is shown."""
    moving = [name for name, found in near.items() if any(n[index] != first[index] for n in found.values())]
    best, most = Size(first[index]), -1
    for names in (names for count in range(len(moving) + 1) for names in combinations(moving, count)):
        whole = Size(1, names).of(shown)
        if first[index] % whole or (is_attribute and names and (len(names) > 1 or first[index] != whole)):
            continue
        size = Size(first[index] // whole, names)
        right = sum(size.of({**shown, n: v}) == at[index] for n in moving for v, at in near[n].items())
        if right > most:
            best, most = size, right
    return best


def fits(sizes: list[Size], numbers: Numbers, config: Config) -> bool:
    """Return whether the numbers of a script are the sizes for its config."""
    return all(size.of(config) == number for size, number in zip(sizes, numbers, strict=True))


def settled(size: Size, opened: set[str], shown: Config) -> Size:
    """A size with the value that is shown of knobs that are not open."""
    closed = [name for name in size.knobs if name not in opened]
    return Size(size.factor * Size(1, tuple(closed)).of(shown), tuple(n for n in size.knobs if n in opened))
