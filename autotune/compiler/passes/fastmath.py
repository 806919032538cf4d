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
            flags = set(FLAG.findall(str(op.attributes[FASTMATH])))
            common[kind] = flags & common.get(kind, flags)
    return {kind: f"#arith.fastmath<{','.join(sorted(flags))}>" for kind, flags in common.items() if flags}


def keep_flags(module: ir.Module, flags: Mapping[str, str]) -> None:
    """Give maxima and minima of a scheduled module the flags that those of its payload have, in place."""
    for op in every_op(module):
        kind = op.name.removeprefix("arith.")
        if op.name == "vector.reduction":
            kind = str(op.attributes["kind"]).removeprefix("#vector.kind<").removesuffix(">")
        if flags.get(kind):
            op.attributes[FASTMATH] = ir.Attribute.parse(flags[kind])
