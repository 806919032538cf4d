"""Models whose results have 16 bits: what their own types allow, where nobody says what outputs may be off.

Wherever such a model runs as its types say, a weight of bf16 is multiplied with what has been rounded to bf16, too.
In f32, everything is more exact than was asked for, and much slower than on a matrix unit.
"""

from autotune.core.host.machine import Machine
from autotune.core.payload import Payload
from autotune.core.plugs.family import Family
from autotune.core.precision import precision_of
from autotune.core.stats import EPSILON, HALVES
from autotune.core.task import Task
from autotune.registry import family_for, rounding_families

STEPS = {kind: EPSILON[kind] for kind in HALVES}


def step_of_results(payload: Payload) -> float:
    """One step of the largest value of a result, relative to it; 0 where a float among results has not 16 bits.

    Example:
        >>> import autotune as at
        >>> step_of_results(at.payload("matmul,m=8,n=8,k=8"))
        0.0
    """
    return min((STEPS.get(kind, 0.0) for kind in kinds_of_results(payload)), default=0.0)


def kinds_of_results(payload: Payload) -> set[str]:
    """Element types of results that are floats."""
    return {argument.dtype for argument in payload.written if not argument.dtype.startswith("i")}


def family_as_typed(payload: Payload, task: Task, machine: Machine) -> Family | None:
    """The family that a task of a payload has by default: by tiles where those round no coarser than its own types.

    Its weights must be stored in the type of the results, so that what they are multiplied with had it, too. Where no
    matrix unit is, nobody knows before it is measured whether vectors of bf16 are faster than those of f32.

    Args:
        payload: The whole.
        task: The task.
        machine: Machine that it is compiled for.
    """
    kinds, stored = kinds_of_results(payload), {c.stored_b for c in task.contractions}
    if machine.tiles and len(kinds) == 1 and stored == kinds <= STEPS.keys():
        half = STEPS[kinds.pop()] / 2
        for family in reversed(rounding_families()):  # the coarsest first, which are the fastest
            if family.error <= half and fills_tiles(task, family) and family.covers(task):
                return family
    return family_for(task, machine)


def fills_tiles(task: Task, family: Family) -> bool:
    """Tell whether a family multiplies by tiles, and a task's products have rows and sums that are worth them."""
    precision = precision_of(family.name)
    if precision is None or not precision.by_tiles:
        return False
    rows, length = precision.worth
    return all(c.m >= rows and c.k >= length for c in task.contractions)
