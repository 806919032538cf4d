"""Models whose results have 16 bits: what their own types allow, where nobody says what outputs may be off.

Wherever such a model runs as its types say, a weight of bf16 is multiplied with what has been rounded to bf16, too.
In f32, everything is more exact than was asked for, and much slower than on a matrix unit.
"""

from collections.abc import Iterator

from autotune.core.host.machine import Machine
from autotune.core.payload import Payload
from autotune.core.plugs.family import Family
from autotune.core.precision import precision_of
from autotune.core.stats import EPSILON, HALVES
from autotune.core.task import Task
from autotune.registry import family_for, rounding_families


def step_of_results(payload: Payload) -> float:
    """One step of the largest value of a result, relative to it; 0 where floats among results have no such type.

    Example:
        >>> import autotune as at
        >>> step_of_results(at.payload("matmul,m=8,n=8,k=8"))
        0.0
    """
    return EPSILON[payload.result_type] if payload.result_type in HALVES else 0.0


def family_as_typed(task: Task, machine: Machine) -> Family | None:
    """The family that a task has by default: by tiles where those round no coarser than the model's own types.

    Its weights must be stored in the type of the model's results, and what they are multiplied with must have it, too:
    a model that widens both, such as for the scores of a router of experts, asks for f32.
    Where no matrix unit is, nobody knows before it is measured whether vectors of bf16 are faster than those of f32.

    Args:
        task: The task.
        machine: Machine that it is compiled for.
    """
    kind, stored = task.result_type, set(stored_factors(task))
    if machine.tiles and kind in HALVES and stored == {kind} and task.narrow:
        for family in reversed(rounding_families()):  # the coarsest first, which are the fastest
            if family.error <= EPSILON[kind] / 2 and fills_tiles(task, family) and family.covers(task):
                return family
    return family_for(task, machine)


def stored_factors(task: Task) -> Iterator[str]:
    """Element types of what a task multiplies by, where that is another one than f32, else empty: matrices, kernels."""
    for op in task.ops:
        if op.contraction is not None:
            yield op.contraction.stored_b
        elif op.has_products:
            yield op.operands[1].dtype if op.operands[1].dtype != "f32" else ""


def fills_tiles(task: Task, family: Family) -> bool:
    """Tell whether a family multiplies by tiles, and a task's products have rows and sums that are worth them."""
    precision = precision_of(family.name)
    if precision is None or not precision.by_tiles:
        return False
    rows, length = precision.worth
    return all(c.m >= rows and c.k >= length for c in task.contractions)
