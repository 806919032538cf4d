"""Default precision of models whose results have 16 bits, where the user gives no error budget.

Executed literally, such a model multiplies a bf16 weight with activations that are rounded to bf16, too. Computing in
f32 is more exact than the model's types require, and much slower than a matrix unit.
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
    """Return the machine epsilon of 16-bit results, a relative error; 0 where the results have no such type.

    Example:
        >>> import autotune as at
        >>> step_of_results(at.payload("matmul,m=8,n=8,k=8"))
        0.0
    """
    return EPSILON[payload.result_type] if payload.result_type in HALVES else 0.0


def family_as_typed(task: Task, machine: Machine) -> Family | None:
    """Return the default family of a task: a matrix unit where it rounds no coarser than the model's own types.

    Both the weights and the operands that they are multiplied with must have the type of the model's results: a model
    that widens both, such as for the scores of an expert router, requires f32.
    Without a matrix unit, only a measurement could tell whether bf16 vectors are faster than f32 vectors.

    Args:
        task: The task.
        machine: Machine that it is compiled for.
    """
    dtype, stored = task.result_type, set(stored_factors(task))
    if machine.tiles and dtype in HALVES and stored == {dtype} and task.narrow:
        for family in reversed(rounding_families()):  # the coarsest first, which are the fastest
            if family.error <= EPSILON[dtype] / 2 and fills_tiles(task, family) and family.covers(task):
                return family
    return family_for(task, machine)


def stored_factors(task: Task) -> Iterator[str]:
    """Yield the stored element type of the second operand of each product of a task; empty for f32."""
    for op in task.ops:
        if op.contraction is not None:
            yield op.contraction.stored_b
        elif op.has_products:
            yield op.operands[1].dtype if op.operands[1].dtype != "f32" else ""


def fills_tiles(task: Task, family: Family) -> bool:
    """Return whether a family uses a matrix unit, and all contractions of a task are large enough for its tiles."""
    precision = precision_of(family.name)
    if precision is None or not precision.by_tiles:
        return False
    rows, length = precision.worth
    return all(c.m >= rows and c.k >= length for c in task.contractions)
