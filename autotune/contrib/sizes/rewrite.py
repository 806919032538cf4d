"""Rewrite that lets loops of marked modules end at the size of a request."""

from autotune.compiler.lowering.rewrites import Rewrite
from autotune.contrib.sizes.upper_bounds import end_at_size, is_marked

REWRITE = Rewrite(
    "upper-bounds",
    1,
    lambda unit: end_at_size(unit.module, unit.function),
    behind="panel-loads",
    needed=lambda unit: is_marked(unit.module),
)
