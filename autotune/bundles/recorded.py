"""Check of a compiled model against results that its import recorded, before it is called by users.

An importer may interpret an op differently from the model's framework, and a default schedule may be wrong: one call of
the compiled program detects both.
"""

from collections.abc import Callable, Mapping
from re import search

import numpy as np

from autotune.core.errors import CompileError
from autotune.core.mismatch import FEW, LOOSE, TOLERANCE, mismatches
from autotune.core.payload import Array, Payload

DIVIDES = r"\barith\.(?:ceil|floor)?(?:div|rem)[su]i\b"  # division by a zero input would kill the process
ROUNDS = r"\b(?:i8|f16|bf16)\b|roundeven"  # in the text of a payload with intermediate rounding


def check_recorded(payload: Payload, function: Callable[..., Array | Mapping[str, Array]]) -> None:
    """Compare a call of an imported model with the results that its import recorded, if there are any.

    A model with integer division is not called: its recorded inputs may contain zeros that real inputs never do.

    Args:
        payload: The imported model.
        function: Compiled model; takes inputs by name.

    Raises:
        CompileError: A result differs.
    """
    is_safe = not search(DIVIDES, payload.text) and not any(argument.role == "state" for argument in payload.arguments)
    if not payload.derived or payload.reference is None or payload.cases or not is_safe:
        return
    inputs = payload.make_inputs(0)
    expected = payload.reference(**inputs)
    operands = {argument.name: inputs[argument.name] for argument in payload.arguments if argument.role == "input"}
    results = results_of(function(**operands))
    tolerance = LOOSE if search(ROUNDS, payload.text) else TOLERANCE
    for argument, ours, theirs in zip(payload.written, results, expected, strict=True):
        for difference in mismatches(ours, np.asarray(theirs), tolerance, part=FEW):
            raise CompileError(
                "verify",
                f"{payload.name} must give what its import recorded, {argument.name} differs: {difference}; an op is "
                "read or scheduled otherwise than the model's file says; export it by other ops, or take it as it is, "
                "where rounding decides its results, with verify=False",
            )


def results_of(result: Array | Mapping[str, Array]) -> list[Array]:
    """Return the results of a call as a list, in order."""
    return list(result.values()) if isinstance(result, Mapping) else [result]
