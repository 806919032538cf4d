"""Rewrite that lowers marked ops to affine loops."""

from autotune.compiler.lowering.rewrites import Rewrite
from autotune.contrib.affine.passes import write_affine_loops
from autotune.contrib.affine.plan import LOOPS, MARK

REWRITE = Rewrite(
    LOOPS.name,
    LOOPS.version,
    lambda unit: write_affine_loops(unit.module),
    before="stencil",
    needed=lambda unit: MARK in (unit.text or ""),
)
