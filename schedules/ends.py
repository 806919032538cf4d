"""Ends of rows that whole vectors do not cover: in vectors of powers of two, or in one whose memory is masked.

13 columns on 16 lanes are 8 + 4 + 1, peeled, or one vector of which 13 elements are loaded and stored.
"""

from collections.abc import Iterable

from autotune.core.host.machine import Machine
from autotune.core.plugs.rewrites import MASKED_ENDS, NeededRewrite
from autotune.core.scripts import marks
from autotune.core.space import Config, Knob
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script

PEELED, MASKED = "peeled", "masked"


def knobs_of_ends(lengths: Iterable[int], machine: Machine, *, is_tiled: bool = False) -> tuple[Knob, ...]:
    """How rows of these lengths end; no knob where one vector covers what is left over, or where nothing is masked.

    Args:
        lengths: Elements of each.
        machine: Host.
        is_tiled: Whether register tiles are of two vectors or more: one then holds an end beside the last whole vector,
            which would be alone in its tile where their number is odd.
    """
    parts = [divmod(length, machine.lanes) for length in lengths]
    several = any(rest & (rest - 1) or (is_tiled and rest and whole % 2) for whole, rest in parts)
    return (Knob("ends", (PEELED, MASKED)),) if machine.masks and several else ()


def is_masked(config: Config) -> bool:
    """Tell whether ends are masked."""
    return config.get("ends") == MASKED


def lanes_of_ends(config: Config, machine: Machine) -> int:
    """Elements of a vector whose end is masked, for `blocking.cut`; 0 where none is."""
    return machine.lanes if is_masked(config) else 0


def mark_ends(script: Script, config: Config, function: str = "") -> None:
    """Ask for masks, where a config has them, in a function; in that around ``%op`` by default."""
    if is_masked(config):
        moves.annotate(script, function or moves.enclosing_function(script, "%op"), marks.MASKED)


def needed_for(config: Config) -> tuple[NeededRewrite, ...]:
    """The rewrite that masks ends, where a config asks for it."""
    return (MASKED_ENDS,) if is_masked(config) else ()


def seen_by(task: Task, machine: Machine) -> Machine:
    """The machine as a contraction meets it: by its element type; in a loop of the payload, without masks.

    What a loop carries is read and written by parts there. Upstream's bufferization refuses masked parts of it
    ("cannot avoid RaW conflict"), as in a recurrent network.
    """
    held = machine.holding(task.dtype)
    return held.without_masks() if task.count > task.occurrences else held
