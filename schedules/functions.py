"""The choice of how functions such as exp are computed: polynomials on vectors, or a call of libm for every element."""

from autotune.core.scripts.marks import LIBM
from autotune.core.space import Config, Knob
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script

FUNCTIONS = ("math.exp", "math.tanh", "math.erf", "math.log")  # of which there are polynomials
POLYNOMIAL, CALL = "polynomial", "libm"


def function_knobs(task: Task) -> tuple[Knob, ...]:
    """The knob ``math``, for a task that computes one of the functions."""
    return (Knob("math", (POLYNOMIAL, CALL)),) if any(name in task.payload.text for name in FUNCTIONS) else ()


def function_defaults(task: Task) -> dict[str, str]:
    """Polynomials, where there is something to choose."""
    return {knob.name: POLYNOMIAL for knob in function_knobs(task)}


def choose_functions(script: Script, config: Config, op: str) -> None:
    """Mark the functions inside an op, if the config wants libm; they keep the mark when they become vectors."""
    if config.get("math") == CALL:
        found = moves.match_inside(script, op, *FUNCTIONS, optional=True)  # a group has ops without
        moves.annotate(script, found, LIBM)
