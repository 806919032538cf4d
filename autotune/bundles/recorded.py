"""What an import recorded: a compiled model must give it again, before anybody calls it.

An importer may read an op otherwise than the model's own framework, and a default schedule may be wrong: one call, of a
program that is compiled anyway, tells of both.
"""

from collections.abc import Callable, Mapping
from re import search

import numpy as np

from autotune.core.errors import CompileError
from autotune.core.mismatch import FEW, LOOSE, TOLERANCE, mismatches
from autotune.core.payload import Array, Payload

DIVIDES = r"\barith\.(?:ceil|floor)?(?:div|rem)[su]i\b"  # by zero, where recorded inputs are: that ends a process
ROUNDS = r"\b(?:i8|f16|bf16)\b|roundeven"  # in a text that rounds on the way


def check_recorded(payload: Payload, function: Callable[..., Array | Mapping[str, Array]]) -> None:
    """Compare a call of an imported model with what its import recorded; nothing where nothing was.

    A model that divides whole numbers is not called: its recorded inputs may be zero where those of users never are.

    Args:
        payload: What is computed.
        function: Computes it; takes inputs by name.

    Raises:
        CompileError: A result is another one.
    """
    is_safe = not search(DIVIDES, payload.text) and not any(argument.role == "state" for argument in payload.arguments)
    if not payload.derived or payload.reference is None or payload.cases or not is_safe:
        return
    inputs = payload.make_inputs(0)
    expected = payload.reference(**inputs)
    given = {argument.name: inputs[argument.name] for argument in payload.arguments if argument.role == "input"}
    found = results_of(function(**given))
    tolerance = LOOSE if search(ROUNDS, payload.text) else TOLERANCE
    for argument, ours, theirs in zip(payload.written, found, expected, strict=True):
        for difference in mismatches(ours, np.asarray(theirs), tolerance, part=FEW):
            raise CompileError(
                "verify",
                f"{payload.name} must give what its import recorded, {argument.name} differs: {difference}; an op is "
                "read or scheduled otherwise than the model's file says; export it by other ops, or take it as it is, "
                "where rounding decides its results, with verify=False",
            )


def results_of(found: Array | Mapping[str, Array]) -> list[Array]:
    """Results of a call, in order."""
    return list(found.values()) if isinstance(found, Mapping) else [found]
