"""Rounding: how far one unit in the last place of its inputs moves what a payload's plain program computes.

What a sum may be off is known beforehand (`autotune.core.stats.tolerance`). What comes after it can make more of that:
the softmax of logits around 40 multiplies their rounding by 40. A program whose inputs are off by a unit in the last
place rounds differently at every step, so that its results differ from the first ones as those of any other right
program do.
"""

from collections.abc import Sequence

import numpy as np

from autotune.compiler.lowering.program import CompiledProgram, compile_program
from autotune.compiler.lowering.row_order import in_row_order, is_quick
from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.candidate import Candidate
from autotune.core.payload import WRITTEN, Array, Payload


def plain_program(payload: Payload) -> CompiledProgram:
    """A payload's plain lowering, its sums in row order.

    Raises:
        CompileError: The compiler refuses it.
    """
    text = in_row_order(payload.text)
    return compile_program(payload, Candidate(None, PLAIN, text=text), level=0 if is_quick(text) else 3)


def moved_by_rounding(payload: Payload, arrays: Sequence[Array], seed: int) -> tuple[float, ...]:
    """How far each array that a payload writes moves when its inputs are off by a unit in the last place.

    Args:
        payload: What is computed, by its plain program.
        arrays: An array for each argument, as before a call; left as they are.
        seed: Seed of the signs.

    Returns:
        A difference for each state and output, in order; 0 where it is not finite.

    Raises:
        CompileError: The compiler refuses the plain program.
    """
    program, rng = plain_program(payload), np.random.default_rng(seed)
    near = [
        array.copy() if argument.role == "output" else a_unit_off(array, rng)
        for argument, array in zip(payload.arguments, arrays, strict=True)
    ]
    same = [
        array.copy() if argument.role in WRITTEN else array
        for argument, array in zip(payload.arguments, arrays, strict=True)
    ]
    for each in (near, same):
        program.bind(each).run()
    return tuple(
        largest_difference(a, b)
        for argument, a, b in zip(payload.arguments, near, same, strict=True)
        if argument.role in WRITTEN
    )


def a_unit_off(array: Array, rng: np.random.Generator) -> Array:
    """A copy whose finite numbers other than zero are the next larger or smaller one; integers stay."""
    if array.dtype.kind in "iu":
        return array.copy()
    ways = np.where(rng.random(array.shape) < 0.5, -np.inf, np.inf).astype(array.dtype)
    near = np.nextafter(array, ways)
    return np.where(np.isfinite(array) & np.isfinite(near) & (array != 0), near, array)


def largest_difference(a: Array, b: Array) -> float:
    """Largest absolute difference of two arrays; 0 where there is none that is finite."""
    difference = float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0.0))
    return difference if np.isfinite(difference) else 0.0
