"""Knob for the implementation of math functions such as exp: vectorized polynomials, or libm calls per element."""

from autotune.core.scripts.marks import LIBM
from autotune.core.space import Config, Knob
from autotune.core.task import Task
from schedules import moves
from schedules.moves import Script

FUNCTIONS = ("math.exp", "math.tanh", "math.erf", "math.log")  # that have polynomial approximations
POLYNOMIAL, CALL = "polynomial", "libm"


def function_knobs(task: Task) -> tuple[Knob, ...]:
    """Return the knob ``math`` if the task computes one of the functions."""
    return (Knob("math", (POLYNOMIAL, CALL)),) if any(name in task.payload.text for name in FUNCTIONS) else ()


def function_defaults(task: Task) -> dict[str, str]:
    """Return the default, polynomials, if the task has the knob."""
    return {knob.name: POLYNOMIAL for knob in function_knobs(task)}


def choose_functions(script: Script, config: Config, op: str) -> None:
    """Mark the math functions inside an op for libm if the config selects it; vectorization keeps the mark."""
    if config.get("math") == CALL:
        functions = moves.match_inside(script, op, *FUNCTIONS, optional=True)  # not every op of a group has one
        moves.annotate(script, functions, LIBM)
