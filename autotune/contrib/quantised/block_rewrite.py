"""Rewrite that lowers marked products with block-quantized weights."""

from autotune.compiler.lowering.rewrites import Rewrite
from autotune.contrib.quantised.block_code import write_block_code
from autotune.contrib.quantised.block_marks import BLOCK_CODE, MARK

REWRITE = Rewrite(
    BLOCK_CODE.name,
    BLOCK_CODE.version,
    lambda unit: write_block_code(unit.module, unit=unit.matrix_unit),
    before="panel-loads",
    needed=lambda unit: MARK in (unit.text or ""),
)
