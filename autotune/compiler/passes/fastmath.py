"""Maxima and minima after a script: what a payload says of NaN and of -0, vectorization forgets.

Where every maximum of a payload is ``fastmath<nnan,nsz>``, so is every one that a script makes of them. To reduce a
vector that may hold NaN, and to tell -0 from 0, takes some seventy instructions; without, a dozen.
"""

from collections.abc import Mapping

from mlir import ir

from autotune.compiler.ir.module import every_op

KINDS = ("maximumf", "minimumf", "maxnumf", "minnumf")
FASTMATH = "fastmath"


def flags_of_extrema(module: ir.Module) -> dict[str, str]:
    """The fast-math flags that all maxima or minima of a kind have, in MLIR's syntax; none where some have others."""
    found: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for op in every_op(module):
        kind = op.name.removeprefix("arith.")
        if kind in found:
            found[kind].add(str(op.attributes[FASTMATH]) if FASTMATH in op.attributes else "")
    return {kind: flags.pop() for kind, flags in found.items() if len(flags) == 1}


def keep_flags(module: ir.Module, flags: Mapping[str, str]) -> None:
    """Give maxima and minima of a scheduled module the flags that those of its payload have, in place."""
    for op in every_op(module):
        kind = op.name.removeprefix("arith.")
        if op.name == "vector.reduction":
            kind = str(op.attributes["kind"]).removeprefix("#vector.kind<").removesuffix(">")
        if flags.get(kind):
            op.attributes[FASTMATH] = ir.Attribute.parse(flags[kind])
