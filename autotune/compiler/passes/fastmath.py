"""Restore fast-math flags of maxima and minima after a script, as vectorization drops them.

If all maxima of a payload have flags such as ``fastmath<nnan,nsz>``, they are valid for every maximum that a script
derives from them. A vector reduction that handles NaN and the sign of zeros takes about seventy instructions, one that
does not, a dozen. The maximum of two vectors takes one instruction with both flags, three if it handles NaN, and six if
it handles both.
"""

import re
from collections.abc import Mapping

from mlir import ir

from autotune.compiler.ir.module import every_op

KINDS = ("maximumf", "minimumf", "maxnumf", "minnumf")
FASTMATH = "fastmath"
FLAG = re.compile(r"(?!none)\b\w+(?=[,>])")  # in `#arith.fastmath<nnan,nsz>`


def flags_of_extrema(module: ir.Module) -> dict[str, str]:
    """Return the fast-math flags common to all maxima or minima of a kind, in MLIR's syntax, by kind."""
    common: dict[str, set[str]] = {}
    for op in every_op(module):
        kind = op.name.removeprefix("arith.")
        if kind in KINDS:
            flags = flags_of(op)
            common[kind] = flags & common.get(kind, flags)
    return {kind: f"#arith.fastmath<{','.join(sorted(flags))}>" for kind, flags in common.items() if flags}


def keep_flags(module: ir.Module, flags: Mapping[str, str]) -> None:
    """Set the flags of the payload's maxima and minima on those of a scheduled module, in place."""
    for op in every_op(module):
        operation = reduced_by(op) or op.name.removeprefix("arith.")
        if flags.get(operation):
            op.attributes[FASTMATH] = ir.Attribute.parse(flags[operation])


def reduced_by(op: ir.Operation) -> str:
    """Return the combining kind of a vector.reduction, such as ``maximumf``; empty for any other op."""
    return str(op.attributes["kind"])[len("#vector.kind<") : -1] if op.name == "vector.reduction" else ""


def flags_of(op: ir.Operation) -> set[str]:
    """Return the fast-math flags of an op."""
    return set(FLAG.findall(str(op.attributes[FASTMATH]))) if FASTMATH in op.attributes else set()
