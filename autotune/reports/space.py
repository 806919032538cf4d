"""Description of search spaces as text: knobs, values, constraints, and the number of configs."""

import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from autotune.core.host.machine import Machine
from autotune.core.scripts.parametric import OpenKnob, OpenScript, facts_in, facts_of
from autotune.core.space import Config, Space, Value
from autotune.reports.scheduled import Scheduled

MOST_COUNTED = 1_000_000  # combinations; in larger spaces the number of valid ones is estimated from a sample
SAMPLE = 20_000
MOST_WIDTH = 60


def describe_space(scheduled: Scheduled, machine: Machine) -> str:
    """Return the space of a task as a table of knobs and lines of constraints."""
    family, task = scheduled.family, scheduled.task
    if family is None:
        return f"{task.tag}: no family covers it: it has no knobs"
    space, default = family.space(task, machine), family.default(task, machine)
    script = family.script if family is not None else None
    declarations = {knob.name: knob for knob in script.knobs} if script is not None else {}
    title = f"{task.tag} by {script.source if script is not None else family.name}"
    constraints = constraints_of(script, machine) if script is not None else sentences_of(space)
    return "\n".join([*space_table(title, space, default, declarations), *constraints])


def space_table(
    title: str, space: Space, default: Config, opened: Mapping[str, OpenKnob] = MappingProxyType({})
) -> list[str]:
    """Return a line with the number of configs, followed by a table with one row per knob.

    Args:
        title: Name of the task and its family or script.
        space: The space.
        default: The default config.
        opened: Declarations of knobs in a user script, by name; empty without one.
    """
    rows = [("knob", "default", "values", "counts where", "line")]
    for knob in space.knobs:
        own = opened.get(knob.name)
        where, line = (conditions_of(own), lines_of(own)) if own is not None else ("", "")
        rows.append((knob.name, str(default[knob.name]), spelled(knob.values), where, line))
    return [f"{title}: {counted(space)}", *table(rows)]


def counted(space: Space) -> str:
    """Return a phrase on the number of combinations, and of those that are distinct and valid."""
    count = f", {len(space.constraints)} constraint{'s' * (len(space.constraints) != 1)}" if space.constraints else ""
    knobs = f"{len(space.knobs)} knob{'s' * (len(space.knobs) != 1)}{count}"
    if space.size <= MOST_COUNTED:
        return f"{knobs}; {space.size} combinations, {sum(1 for _ in space.configs())} distinct and valid"
    draw = random.Random(0)
    drawn = ({knob.name: draw.choice(knob.values) for knob in space.knobs} for _ in range(SAMPLE))
    share = sum(space.broken_constraint(config) is None for config in drawn) / SAMPLE
    return f"{knobs}; {space.size:.3g} combinations, about {share * space.size:.2g} distinct and valid"


def sentences_of(space: Space) -> list[str]:
    """Return one line per constraint."""
    return [f"constraint: {constraint.sentence}" for constraint in space.constraints]


def constraints_of(script: OpenScript, machine: Machine) -> list[str]:
    """Return one line per constraint of a script, with its line number and the machine's values that it refers to."""
    facts = facts_of(machine)
    lines = []
    for constraint in script.constraints:
        here = ", ".join(f"{name} is {facts[name]}" for name in sorted(facts_in(constraint)))
        lines.append(
            f"constraint: {constraint.sentence} (line {constraint.site.line}{'; here ' + here if here else ''})"
        )
    return lines


def conditions_of(knob: OpenKnob) -> str:
    """Return the conditions on other knobs under which a knob has an effect."""
    if () in knob.used:
        return "everywhere"
    return " or ".join(", ".join(f"{name}={value}" for name, value in choices) for choices in knob.used) or "nowhere"


def lines_of(knob: OpenKnob) -> str:
    """Return the line numbers of a knob's declarations."""
    return ", ".join(str(line) for line in sorted({site.line for site in knob.sites}))


def spelled(values: Sequence[Value]) -> str:
    """Format values in a row, abbreviated if it is too wide."""
    words = [str(value) for value in values]
    if len(" ".join(words)) <= MOST_WIDTH:
        return " ".join(words)
    return f"{' '.join(words[:3])} .. {words[-1]} ({len(words)})"


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Align rows in columns; columns with nothing but a heading are left out."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = zip(*columns, strict=True)
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
