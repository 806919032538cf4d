"""Row tails that whole vectors do not cover: peeled into vectors of powers of two, or one masked vector.

With 16 lanes, a tail of 13 columns is 8 + 4 + 1 when peeled, or one vector of which 13 elements are loaded and stored.
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
    """Return the knob ``ends`` for rows of these lengths; none where one vector covers the tail or masks are missing.

    Args:
        lengths: Elements of each row.
        machine: Host.
        is_tiled: Whether register tiles have two or more vectors. One tile then holds the masked tail beside the
            last whole vector, which would be alone in its tile if the number of whole vectors is odd.
    """
    parts = [divmod(length, machine.lanes) for length in lengths]
    several = any(rest & (rest - 1) or (is_tiled and rest and whole % 2) for whole, rest in parts)
    return (Knob("ends", (PEELED, MASKED)),) if machine.masks and several else ()


def is_masked(config: Config) -> bool:
    """Return whether the config masks row tails."""
    return config.get("ends") == MASKED


def lanes_of_ends(config: Config, machine: Machine) -> int:
    """Return the length of a masked vector in elements, as `blocking.cut` takes it; 0 if nothing is masked."""
    return machine.lanes if is_masked(config) else 0


def mark_ends(script: Script, config: Config, function: str = "") -> None:
    """Mark a function for masked tails if the config has them; by default the function that contains ``%op``."""
    if is_masked(config):
        moves.annotate(script, function or moves.enclosing_function(script, "%op"), marks.MASKED)


def needed_for(config: Config) -> tuple[NeededRewrite, ...]:
    """Return the rewrite that masks tails, if the config asks for it."""
    return (MASKED_ENDS,) if is_masked(config) else ()


def seen_by(task: Task, machine: Machine) -> Machine:
    """Return the machine for a task's element type; without masks if the task runs in a loop of the payload.

    A value carried by such a loop is read and written in parts. Upstream's bufferization rejects masked parts of it
    ("cannot avoid RaW conflict"), as in a recurrent network.
    """
    typed_machine = machine.holding(task.dtype)
    return typed_machine.without_masks() if task.count > task.occurrences else typed_machine
