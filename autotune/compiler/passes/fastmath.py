"""Maxima and minima after a script: what a payload says of NaN and of -0, vectorization forgets.

What every maximum of a payload may ignore, such as ``fastmath<nnan,nsz>``, so may every one that a script makes of
them. To reduce a vector that may hold NaN, and to tell -0 from 0, takes some seventy instructions; without, a dozen. To
take the greater of two vectors takes one instruction without both, three with NaN alone, six with both.
"""

import re
from collections.abc import Mapping

from mlir import ir

from autotune.compiler.ir.module import every_op

KINDS = ("maximumf", "minimumf", "maxnumf", "minnumf")
FASTMATH = "fastmath"
FLAG = re.compile(r"(?!none)\b\w+(?=[,>])")  # in `#arith.fastmath<nnan,nsz>`


def flags_of_extrema(module: ir.Module) -> dict[str, str]:
    """The fast-math flags that all maxima or minima of a kind have, in MLIR's syntax, by kind; no kind without any."""
    common: dict[str, set[str]] = {}
    for op in every_op(module):
        kind = op.name.removeprefix("arith.")
        if kind in KINDS:
            flags = flags_of(op)
            common[kind] = flags & common.get(kind, flags)
    return {kind: f"#arith.fastmath<{','.join(sorted(flags))}>" for kind, flags in common.items() if flags}


def keep_flags(module: ir.Module, flags: Mapping[str, str]) -> None:
    """Give maxima and minima of a scheduled module the flags that those of its payload have, in place."""
    for op in every_op(module):
        kind = reduced_by(op) or op.name.removeprefix("arith.")
        if flags.get(kind):
            op.attributes[FASTMATH] = ir.Attribute.parse(flags[kind])


def reduced_by(op: ir.Operation) -> str:
    """What a reduction of a vector combines elements by, such as ``maximumf``; empty of another op."""
    return str(op.attributes["kind"])[len("#vector.kind<") : -1] if op.name == "vector.reduction" else ""


def flags_of(op: ir.Operation) -> set[str]:
    """The fast-math flags of an op."""
    return set(FLAG.findall(str(op.attributes[FASTMATH]))) if FASTMATH in op.attributes else set()
