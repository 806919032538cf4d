"""Sensitivity to rounding: how far the outputs of a payload's plain program move if its inputs change by one ulp.

The rounding error of a sum has a known bound (`autotune.core.stats.tolerance`), but later operations can amplify it:
the softmax of logits around 40 multiplies their rounding error by 40. With inputs perturbed by one unit in the last
place (ulp), a program rounds differently at every step, so its results differ from the unperturbed ones about as much
as those of any other correct program.
"""

from collections.abc import Sequence

import numpy as np

from autotune.compiler.lowering.program import CompiledProgram, compile_program
from autotune.compiler.lowering.row_order import in_row_order, is_quick
from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.candidate import Candidate
from autotune.core.payload import WRITTEN, Array, Payload


def plain_program(payload: Payload) -> CompiledProgram:
    """Compile a payload's plain lowering, with its sums in row order.

    Raises:
        CompileError: The compiler refuses it.
    """
    text = in_row_order(payload.text)
    return compile_program(payload, Candidate(None, PLAIN, text=text), level=0 if is_quick(text) else 3)


def moved_by_rounding(payload: Payload, arrays: Sequence[Array], seed: int) -> tuple[float, ...]:
    """Return how far each written array moves when all inputs are perturbed by one unit in the last place.

    Args:
        payload: Payload whose plain program is run.
        arrays: An array for each argument with its values before a call; not modified.
        seed: Seed of the perturbations' signs.

    Returns:
        Largest absolute difference of each state and output, in order; 0 if it is not finite.

    Raises:
        CompileError: The compiler refuses the plain program.
    """
    program, rng = plain_program(payload), np.random.default_rng(seed)
    perturbed = [
        array.copy() if argument.role == "output" else a_unit_off(array, rng)
        for argument, array in zip(payload.arguments, arrays, strict=True)
    ]
    original = [
        array.copy() if argument.role in WRITTEN else array
        for argument, array in zip(payload.arguments, arrays, strict=True)
    ]
    for bound_arrays in (perturbed, original):
        program.bind(bound_arrays).run()
    return tuple(
        largest_difference(a, b)
        for argument, a, b in zip(payload.arguments, perturbed, original, strict=True)
        if argument.role in WRITTEN
    )


def a_unit_off(array: Array, rng: np.random.Generator) -> Array:
    """Return a copy with every finite nonzero number moved to an adjacent one at random; integers are unchanged."""
    if array.dtype.kind in "iu":
        return array.copy()
    directions = np.where(rng.random(array.shape) < 0.5, -np.inf, np.inf).astype(array.dtype)
    neighbours = np.nextafter(array, directions)
    return np.where(np.isfinite(array) & np.isfinite(neighbours) & (array != 0), neighbours, array)


def largest_difference(a: Array, b: Array) -> float:
    """Return the largest absolute difference of two arrays; 0 if it is not finite."""
    difference = float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0.0))
    return difference if np.isfinite(difference) else 0.0
