"""Suspected causes of a slowdown, and schedules of the tasks that avoid them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autotune.core.host.machine import Machine
from autotune.core.space import Config, Knob, Space, Value
from autotune.core.task import Task
from autotune.reports.scheduled import Scheduled
from autotune.tuning.half_results import family_as_typed

TAIL, COPY, LAYOUT, FUSION = "tail", "copy", "layout", "fusion"
CALLS, HIDDEN, REGISTERS, BLOCKS = "function calls", "hidden work", "register tile", "blocks"
AHEAD, LOOPS, THREADS = "prefetch", "loop overhead", "threads"
PLAIN, MOVES, CALL = "no schedule", "moved elements", "call"
SENTENCES = {  # in order of priority: a change that removes several causes is named after the first
    TAIL: "ends of rows are computed in other vectors than the rest",
    COPY: "an operand is copied in every call",
    LAYOUT: "an operand is read in the order that it came in",
    FUSION: "ops are fused otherwise: an intermediate goes through memory, or is computed again",
    CALLS: "functions are called for every element",
    HIDDEN: "columns that a causal mask hides are computed",
    REGISTERS: "register tiles leave multiply-adds waiting for loads, for each other, or for spills",
    BLOCKS: "blocks are too small to be read again often, or too large for the caches",
    AHEAD: "memory is waited for",
    LOOPS: "loops count more often than they need to",
    THREADS: "threads wait for each other",
    PLAIN: "a task has plain loops",
    MOVES: "elements are moved, and nothing is computed",
    CALL: "the call from Python",
}
KNOBS = {
    TAIL: ("ends",),
    FUSION: ("fuse", "online"),
    CALLS: ("math",),
    HIDDEN: ("hidden",),
    REGISTERS: ("register_m", "register_n", "vector_width", "vectors", "width", "strands", "side"),
    BLOCKS: ("tile_m", "tile_n", "tile_k", "order", "register_order", "outside", "columns", "rows"),
    AHEAD: ("prefetch", "prefetch_rows", "prefetch_written"),
    LOOPS: ("unroll_k", "unroll"),
    THREADS: ("pieces_b", "pieces_m", "pieces_n"),
}
PACK, IN_PLACE, EACH_CALL = "pack_b", "none", "panels"
NUMBERED = re.compile(r"_\d+$")


@dataclass(frozen=True)
class Suspect:
    """Suspected cause, and the task without it.

    Attributes:
        cause: Name of the cause, a key of `SENTENCES`.
        change: Knob values that remove it, such as ``ends=masked``.
        without: Task with a schedule without the cause.
    """

    cause: str
    change: str
    without: Scheduled


def suspects_of(task: Scheduled, machine: Machine) -> Iterator[Suspect]:
    """Yield the suspected causes in a task: knob values that have alternatives, or the lack of a schedule.

    Args:
        task: The task with its schedule.
        machine: The host.
    """
    family = task.family or family_as_typed(task.task, machine)
    if family is None or task.kernel is not None or task.has_own_script:
        return
    default = family.default(task.task, machine)
    if task.config is None:
        yield Suspect(PLAIN, f"schedule {family.name}", replace(task, family=family, config=default))
        return
    config, space, tried = task.config, family.space(task.task, machine), list[Config]()
    for wanted in changes(config, default, space):
        without = nearest({**config, **wanted}, space, wanted)
        if without is not None and without not in (config, *tried):
            tried.append(without)
            changed = {name: value for name, value in without.items() if value != config[name]}
            causes = {cause_of(name, config[name]) for name in changed}
            cause = next(cause for cause in SENTENCES if cause in causes)
            yield Suspect(cause, spelled(changed), replace(task, config=without))


def changes(config: Config, default: Config, space: Space) -> Iterator[dict[str, Value]]:
    """Yield changes to a config: first all knobs of a cause to their defaults, then each knob alone."""
    causes: dict[str, dict[str, Value]] = {}
    for knob in space.knobs:
        if default[knob.name] != config[knob.name] and (cause := cause_of(knob.name, config[knob.name])):
            causes.setdefault(cause, {})[knob.name] = default[knob.name]
    yield from causes.values()
    for knob in space.knobs:
        if cause_of(knob.name, config[knob.name]):
            yield from ({knob.name: value} for value in near(knob, config[knob.name]))


def spelled(values: Mapping[str, Value]) -> str:
    """Format knob values as ``--config`` accepts them."""
    return ",".join(f"{name}={value}" for name, value in values.items())


def cause_of(knob: str, value: Value) -> str:
    """Return the cause that a knob with a given value stands for; empty if it is no suspect."""
    name = NUMBERED.sub("", knob)
    if name == PACK:
        return COPY if value == EACH_CALL else LAYOUT if value == IN_PLACE else ""
    return next((cause for cause, knobs in KNOBS.items() if name in knobs), "")


def near(knob: Knob, value: Value) -> list[Value]:
    """Return the neighbours of a knob's value: the next smaller and larger integer, or all other values of a choice."""
    at = knob.values.index(value)
    if all(isinstance(each, int) and not isinstance(each, bool) for each in knob.values):
        return [*knob.values[max(0, at - 1) : at], *knob.values[at + 1 : at + 2]]
    return [each for each in knob.values if each != value]


def nearest(config: Mapping[str, Value], space: Space, fixed: Mapping[str, Value]) -> Config | None:
    """Return a valid config that keeps the fixed knobs and changes at most one other; `None` if there is none."""
    first = space.settled(config)
    if space.broken_constraint(first) is None:
        return first
    for knob in space.knobs:
        for value in () if knob.name in fixed else knob.values:
            tried = space.settled({**config, knob.name: value})
            if space.broken_constraint(tried) is None and all(tried[name] == wanted for name, wanted in fixed.items()):
                return tried
    return None


def only_moves(task: Task) -> bool:
    """Return whether a task only moves elements: a transpose, a copy, a concatenation."""
    return not any(op.arithmetic or op.has_products for op in task.ops)


def costly(shares: Mapping[str, float], tasks: Sequence[Scheduled], most: int) -> list[Scheduled]:
    """Return the tasks with the largest shares of the time, at most `most`."""
    known = [task for task in tasks if shares.get(task.task.tag, 0.0) > 0.0]
    return sorted(known, key=lambda task: -shares[task.task.tag])[:most]
