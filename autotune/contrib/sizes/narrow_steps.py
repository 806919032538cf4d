"""Schedules whose steps along an open dimension are narrow, so that the loops of a program end at more sizes.

A step over four vectors of keys computes 64 tokens at once; a program of such serves multiples of 64. One vector is
hardly slower there, and serves multiples of 16. Which products need it is found by trying: those of two activations
take narrow steps, then each takes its own back as long as the program's loops still end at as many sizes. Whether that
is worth it is decided with the sizes, by what requests then cost.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from autotune.core.candidate import Candidate
from autotune.core.errors import PayloadError
from autotune.core.host.files import read_file
from autotune.core.host.machine import Machine
from autotune.core.partition import Partition
from autotune.core.plugs.family import Family
from autotune.core.space import Config, Space
from autotune.core.task import Task
from autotune.registry import family_for
from autotune.tuning.candidates import default_candidate

FILE = "narrow.json"  # in the folder of a size
MOST_BYTES = 1 << 20
# knobs of products: vectors that a step goes over; with a number of the product where a task has several
ACROSS = re.compile(r"(register_n|vectors)(_\d+)?")

Narrow = Mapping[str, Mapping[str, int]]  # values of knobs by name, by tag of the task


def narrow_candidate(parts: Partition, machine: Machine, narrow: Narrow) -> Candidate:
    """How a payload is compiled without any search, but for some knobs.

    Args:
        parts: The payload.
        machine: Machine that it is compiled for.
        narrow: Those knobs; one that a family does not know there keeps its default.
    """

    def narrowed(task: Task, family: Family, config: Config) -> Config:
        wanted = {**config, **{name: value for name, value in narrow.get(task.tag, {}).items() if name in config}}
        return wanted if fits(family.space(task, machine), wanted) else config

    return default_candidate(parts, machine, change=narrowed)


def fits(space: Space, config: Config) -> bool:
    """Tell whether a space has a config."""
    known = all(config[knob.name] in knob.values for knob in space.knobs)
    return known and space.broken_constraint(config) is None


def find_narrow(
    parts: Partition, machine: Machine, plain: int, grain_with: Callable[[Narrow], int]
) -> tuple[Narrow, int]:
    """The fewest knobs that let a program serve as many sizes as all of them do; and the grain that it then has.

    Args:
        parts: The payload.
        machine: Machine that it is compiled for.
        plain: What sizes of shorter requests are multiples of by default; 0 where there are none.
        grain_with: The same, given such knobs.
    """
    found = {task.tag: knobs for task in parts.tasks if (knobs := narrowest(task, machine))}
    least = grain_with(found) if found else 0
    if not least or (plain and least >= plain):
        return {}, plain
    for tag, knobs in list(found.items()):
        for name in knobs:
            fewer = {**found, tag: {each: value for each, value in found[tag].items() if each != name}}
            if grain_with(fewer) == least:
                found = fewer
    return {tag: knobs for tag, knobs in found.items() if knobs}, least


def narrowest(task: Task, machine: Machine) -> dict[str, int]:
    """Knobs by which a product of two activations takes narrower steps than by default; empty of other tasks."""
    family = family_for(task, machine)
    if family is None or all(contraction.constant_b for contraction in task.contractions):
        return {}
    default = family.default(task, machine)
    found = {}
    for knob in family.space(task, machine).knobs:
        values = [value for value in knob.values if isinstance(value, int)]
        if ACROSS.fullmatch(knob.name) and (least := min(values)) != default[knob.name]:
            found[knob.name] = least
    return found


def read_narrow(folder: Path) -> Narrow:
    """Knobs that a folder of a size has; none where it has no such file.

    Raises:
        PayloadError: The file is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        return TypeAdapter(dict[str, dict[str, int]]).validate_json(read_file(path, MOST_BYTES))
    except (OSError, ValidationError) as error:
        raise PayloadError(f"{path} must hold knobs by task, it does not; import the model again") from error


def write_narrow(folder: Path, narrow: Narrow) -> None:
    """Write them to a folder of a size, or remove those that are there."""
    (folder / FILE).unlink(missing_ok=True)
    if narrow:
        (folder / FILE).write_text(json.dumps(narrow, indent=1) + "\n", encoding="utf-8")
