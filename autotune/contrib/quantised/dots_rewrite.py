"""Products of bytes in blocks as the compiler knows them: a rewrite that scripts ask for by a mark."""

from autotune.compiler.lowering.rewrites import Rewrite
from autotune.contrib.quantised.dots_code import write_block_dots
from autotune.contrib.quantised.dots_mark import DOTS_OF_BLOCKS, MARK

REWRITE = Rewrite(
    DOTS_OF_BLOCKS.name,
    DOTS_OF_BLOCKS.version,
    lambda unit: write_block_dots(unit.module),
    before="panel-loads",
    needed=lambda unit: MARK in (unit.text or ""),
)
