"""Inference of the knobs of a family that can be parameters of its script, and of the numbers that they determine.

The family is treated as a black box. It builds the scripts of a config and of its neighbours. If only numbers differ,
and each is a multiple of knobs, the knobs can replace the numbers; if operations differ, the knob is structural and
stays fixed. A config is allowed if it satisfies the family's constraints and the family writes the same script for
it as the instantiated parametric script.
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
    """Number in a script as a multiple of a product of knobs; a constant if there are no knobs."""

    factor: int
    knobs: tuple[str, ...] = ()

    def of(self, config: Config) -> int:
        """Return the number for a config."""
        return self.factor * prod(int(config[name]) for name in self.knobs)


@dataclass(frozen=True)
class FamilyScript:
    """Scripts of a family for a config and its neighbours.

    Attributes:
        family: The family.
        task: Task that it covers.
        machine: Host for which scripts are written.
        shown: Config whose script is made parametric.
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
        """Rewrites of the task's operation that precede the script."""
        return self.family.rewrites(self.task, self.shown)

    @cached_property
    def lines(self) -> tuple[ScriptLine, ...]:
        """Lines of the script for the shown config."""
        return tuple(read_lines(self.family.build(self.task, self.shown, self.machine)))

    @cached_property
    def ops(self) -> list[ScriptLine]:
        """Lines of the script without comments."""
        return ops_in(self.lines)

    def write(self, changed: Config) -> list[ScriptLine] | None:
        """Return the operations of the script for a config.

        Return `None` if the config needs other rewrites, or the family cannot write a script for it because it violates
        constraints.
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
        """Return the numbers in the script for a config; `None` if its operations differ from the shown ones."""
        lines = self.write(changed)
        if lines is None or [line.kind for line in lines] != [line.kind for line in self.ops]:
            return None
        return tuple(number for line in lines for number in line.numbers)

    def is_valid(self, changed: Config) -> bool:
        """Return whether a config satisfies the family's constraints."""
        return self.space.broken_constraint({**self.shown, **changed}) is None


@dataclass(frozen=True)
class ScriptParameters:
    """Knobs of a family that can be parameters of its script for a config.

    Attributes:
        written: Family with the shown config, which is the default of the parameters.
        sizes: Numbers of each operation, as functions of the knobs.
        knobs: Numeric knobs that are open, with their possible values.
        alternatives: Knobs that add or remove operations; as a parameter, 0 is the shown value and 1 the other.
    """

    written: FamilyScript
    sizes: tuple[tuple[Size, ...], ...]
    knobs: tuple[Knob, ...]
    alternatives: tuple[BooleanAlternative, ...]

    def config(self, chosen: Config) -> dict[str, Value]:
        """Return the family's config for values of the open knobs."""
        others = {
            alternative.knob: alternative.values[int(chosen.get(alternative.knob, 0))]
            for alternative in self.alternatives
        }
        return {**self.written.shown, **chosen, **others}

    def allows(self, chosen: Config) -> bool:
        """Return whether a config is valid and the family's script for it equals the instantiated one."""
        config = self.config(chosen)
        if not self.written.is_valid(config):
            return False
        return self.written.write(config) == list(self.becomes(chosen))

    def becomes(self, chosen: Config) -> Iterator[ScriptLine]:
        """Yield the operations of the parametric script, instantiated for values of its knobs."""
        ops, shown = self.written.ops, {**self.written.shown, **chosen}
        selected = [bool(chosen.get(alternative.knob, 0)) for alternative in self.alternatives]
        for item in with_alternatives(len(ops), self.alternatives, selected):
            if isinstance(item, int):
                yield replace(ops[item], numbers=tuple(size.of(shown) for size in self.sizes[item]))
            else:
                yield item

    def selected(self, knob: Knob) -> int:
        """Return the value of an open knob in the shown config."""
        return (
            0
            if any(alternative.knob == knob.name for alternative in self.alternatives)
            else int(self.written.shown[knob.name])
        )

    @property
    def open_knobs(self) -> tuple[Knob, ...]:
        """All knobs of the parametric script, in the order of the family's."""
        opened = {knob.name: knob for knob in self.knobs} | {s.knob: Knob(s.knob, (0, 1)) for s in self.alternatives}
        return tuple(opened[knob.name] for knob in self.written.space.knobs if knob.name in opened)


def parameters_of(family: Family, task: Task, machine: Machine, config: Config) -> ScriptParameters:
    """Infer the parameters of the script that a family writes for a config.

    Args:
        family: Family that covers the task.
        task: Task to schedule.
        machine: Host for which the script is written.
        config: Config whose script is made parametric.
    """
    written = FamilyScript(family, task, machine, config)
    near = {knob.name: ask(written, knob) for knob in written.space.knobs}
    first = written.numbers({}) or ()
    are_attributes = [bool(line.attribute) for line in written.ops for _ in line.numbers]
    sizes = [fit(index, first, near, written.shown, is_attribute=is_set) for index, is_set in enumerate(are_attributes)]
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
    """Yield alternatives among the knobs that are not open; of two that overlap at a removed operation, the first."""
    covered, begun = set[int](), set[int]()
    for knob in written.space.knobs:
        for alternative in alternatives_of(written, knob) if knob.name not in opened else ():
            begins = {hunk.at for hunk in alternative.hunks}
            if not (alternative.covered & (covered | begun) or begins & covered):
                covered, begun = covered | alternative.covered, begun | begins
                yield alternative
                break


def alternatives_of(written: FamilyScript, knob: Knob) -> Iterator[BooleanAlternative]:
    """Yield the alternatives between the shown value of a knob and each other valid one."""
    shown = written.shown[knob.name]
    for value in knob.values:
        if value != shown and written.is_valid({knob.name: value}):
            other = written.write({knob.name: value})
            hunks = hunks_between(written.ops, other) if other is not None else None
            if hunks:
                yield BooleanAlternative(knob.name, (shown, value), hunks)


def ask(written: FamilyScript, knob: Knob) -> dict[Value, Numbers]:
    """Return the numbers in the script by value of a knob, as far as only numbers change, the shown value first."""
    first = written.numbers({}) or ()
    numbers_by_value: dict[Value, Numbers] = {written.shown[knob.name]: first}
    for value in knob.values:
        if type(value) is int and value and value not in numbers_by_value:
            numbers = written.numbers({knob.name: value})
            if numbers is not None and numbers != first:
                numbers_by_value[value] = numbers
    return numbers_by_value


def fit(
    index: int,
    first: Numbers,
    near: Mapping[str, Mapping[Value, Numbers]],
    shown: Config,
    *,
    is_attribute: bool,
) -> Size:
    """Fit a number as a multiple of the product of knobs that explains it in most of the neighbouring scripts.

    Args:
        index: Index of the number.
        first: Numbers of the shown script.
        near: Numbers of the neighbouring scripts, by knob and value.
        shown: Config of the shown script.
        is_attribute: Whether the number is an attribute, which only a single knob can set.
    """
    moving = [name for name, numbers in near.items() if any(n[index] != first[index] for n in numbers.values())]
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
    """Return whether sizes, evaluated for a config, are the numbers of its script."""
    return all(size.of(config) == number for size, number in zip(sizes, numbers, strict=True))


def settled(size: Size, opened: set[str], shown: Config) -> Size:
    """Substitute the shown values of the knobs that are not open in a size."""
    closed = [name for name in size.knobs if name not in opened]
    return Size(size.factor * Size(1, tuple(closed)).of(shown), tuple(n for n in size.knobs if n in opened))
