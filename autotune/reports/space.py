"""Spaces as text: what may be chosen for a task, by which constraints, and how many configs that makes."""

import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from autotune.core.host.machine import Machine
from autotune.core.scripts.parametric import OpenKnob, OpenScript, facts_in, facts_of
from autotune.core.space import Config, Space, Value
from autotune.reports.scheduled import Scheduled

MOST_COUNTED = 1_000_000  # combinations; beyond, a sample tells how many are distinct and valid
SAMPLE = 20_000
MOST_WIDTH = 60


def describe_space(scheduled: Scheduled, machine: Machine) -> str:
    """The space of a task, as a table and sentences."""
    family, task = scheduled.family, scheduled.task
    if family is None:
        return f"{task.tag}: no family covers it: it has no knobs"
    space, default = family.space(task, machine), family.default(task, machine)
    script = family.script if family is not None else None
    opened = {knob.name: knob for knob in script.knobs} if script is not None else {}
    title = f"{task.tag} by {script.source if script is not None else family.name}"
    constraints = constraints_of(script, machine) if script is not None else sentences_of(space)
    return "\n".join([*space_table(title, space, default, opened), *constraints])


def space_table(
    title: str, space: Space, default: Config, opened: Mapping[str, OpenKnob] = MappingProxyType({})
) -> list[str]:
    """A line with the number of configs, and a row a knob.

    Args:
        title: What the space is of.
        space: The space.
        default: The default config.
        opened: Declarations of knobs by name, of a script that has them.
    """
    rows = [("knob", "default", "values", "counts where", "line")]
    for knob in space.knobs:
        own = opened.get(knob.name)
        where, line = (conditions_of(own), lines_of(own)) if own is not None else ("", "")
        rows.append((knob.name, str(default[knob.name]), spelled(knob.values), where, line))
    return [f"{title}: {counted(space)}", *table(rows)]


def counted(space: Space) -> str:
    """How many combinations there are, and how many of them are distinct and valid."""
    count = f", {len(space.constraints)} constraint{'s' * (len(space.constraints) != 1)}" if space.constraints else ""
    knobs = f"{len(space.knobs)} knob{'s' * (len(space.knobs) != 1)}{count}"
    if space.size <= MOST_COUNTED:
        return f"{knobs}; {space.size} combinations, {sum(1 for _ in space.configs())} distinct and valid"
    draw = random.Random(0)
    drawn = ({knob.name: draw.choice(knob.values) for knob in space.knobs} for _ in range(SAMPLE))
    share = sum(space.broken_constraint(config) is None for config in drawn) / SAMPLE
    return f"{knobs}; {space.size:.3g} combinations, about {share * space.size:.2g} distinct and valid"


def sentences_of(space: Space) -> list[str]:
    """A line a constraint."""
    return [f"constraint: {constraint.sentence}" for constraint in space.constraints]


def constraints_of(script: OpenScript, machine: Machine) -> list[str]:
    """A line a constraint of a script, with where it is and what it asks of the machine."""
    facts = facts_of(machine)
    lines = []
    for constraint in script.constraints:
        here = ", ".join(f"{name} is {facts[name]}" for name in sorted(facts_in(constraint)))
        lines.append(
            f"constraint: {constraint.sentence} (line {constraint.site.line}{'; here ' + here if here else ''})"
        )
    return lines


def conditions_of(knob: OpenKnob) -> str:
    """Where a knob counts."""
    if () in knob.used:
        return "everywhere"
    return " or ".join(", ".join(f"{name}={value}" for name, value in taken) for taken in knob.used) or "nowhere"


def lines_of(knob: OpenKnob) -> str:
    """Lines that a knob is declared at."""
    return ", ".join(str(line) for line in sorted({site.line for site in knob.sites}))


def spelled(values: Sequence[Value]) -> str:
    """Values in a row, the middle ones left out where they are many."""
    words = [str(value) for value in values]
    if len(" ".join(words)) <= MOST_WIDTH:
        return " ".join(words)
    return f"{' '.join(words[:3])} .. {words[-1]} ({len(words)})"


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows in columns; columns that hold nothing but their head are left out."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = zip(*columns, strict=True)
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
