"""Schedules with narrow steps along an open dimension, so that a program's loops can end at more sizes.

A step over four vectors of keys computes 64 tokens at once, and its program serves multiples of 64. A step of one
vector is hardly slower there and serves multiples of 16. Which products need narrow steps is found by trial: all
products of two activations take them, then each is reset to its default as long as the program's grain stays the same.
Whether narrow steps pay is decided when sizes are chosen, by the cost of requests.
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
# Knobs for the vectors that a product's step covers, with the index of the product if a task has several.
ACROSS = re.compile(r"(register_n|vectors)(_\d+)?")

Narrow = Mapping[str, Mapping[str, int]]  # values of knobs by name, for each tag of a task


def narrow_candidate(parts: Partition, machine: Machine, narrow: Narrow) -> Candidate:
    """Return a payload's default candidate with some knobs changed.

    Args:
        parts: Partition of the payload.
        machine: Machine to compile for.
        narrow: Values of the changed knobs; those that do not give a valid config are ignored.
    """

    def narrowed(task: Task, family: Family, config: Config) -> Config:
        changed = {**config, **{name: value for name, value in narrow.get(task.tag, {}).items() if name in config}}
        return changed if fits(family.space(task, machine), changed) else config

    return default_candidate(parts, machine, change=narrowed)


def fits(space: Space, config: Config) -> bool:
    """Return whether a config is valid in a space."""
    in_space = all(config[knob.name] in knob.values for knob in space.knobs)
    return in_space and space.broken_constraint(config) is None


def find_narrow(
    parts: Partition, machine: Machine, plain: int, grain_with: Callable[[Narrow], int]
) -> tuple[Narrow, int]:
    """Return the fewest changed knobs that achieve the grain of changing all of them, and that grain.

    Args:
        parts: Partition of the payload.
        machine: Machine to compile for.
        plain: Grain of default schedules; 0 if loops cannot end early.
        grain_with: Function from changed knobs to the grain.
    """
    narrow = {task.tag: knobs for task in parts.tasks if (knobs := narrowest(task, machine))}
    least = grain_with(narrow) if narrow else 0
    if not least or (plain and least >= plain):
        return {}, plain
    for tag, knobs in list(narrow.items()):
        for name in knobs:
            fewer = {**narrow, tag: {each: value for each, value in narrow[tag].items() if each != name}}
            if grain_with(fewer) == least:
                narrow = fewer
    return {tag: knobs for tag, knobs in narrow.items() if knobs}, least


def narrowest(task: Task, machine: Machine) -> dict[str, int]:
    """Return the knobs by which a product of two activations takes narrower steps; empty for other tasks."""
    family = family_for(task, machine)
    if family is None or all(contraction.constant_b for contraction in task.contractions):
        return {}
    default = family.default(task, machine)
    knobs = {}
    for knob in family.space(task, machine).knobs:
        values = [value for value in knob.values if isinstance(value, int)]
        if ACROSS.fullmatch(knob.name) and (least := min(values)) != default[knob.name]:
            knobs[knob.name] = least
    return knobs


def read_narrow(folder: Path) -> Narrow:
    """Read the changed knobs of a size's folder; empty if it has no such file.

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
    """Write the changed knobs to a size's folder, or remove the file if there are none."""
    (folder / FILE).unlink(missing_ok=True)
    if narrow:
        (folder / FILE).write_text(json.dumps(narrow, indent=1) + "\n", encoding="utf-8")
