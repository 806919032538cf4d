"""Plugin of the compiler: a rewrite that scripts request by an attribute."""

from autotune.compiler.lowering.rewrites import Rewrite, Unit
from autotune.contrib.byte_ops.exp_code import write_byte_exps
from autotune.contrib.byte_ops.marks import BYTE_OPS, MARKS
from autotune.contrib.byte_ops.packs_code import write_byte_packs
from autotune.contrib.byte_ops.sums_code import write_byte_sums
from autotune.contrib.byte_ops.table_code import write_byte_tables
from autotune.contrib.byte_ops.windows_code import write_byte_windows


def write_byte_ops(unit: Unit) -> None:
    """Replace marked ops by generated code."""
    write_byte_tables(unit.module)
    write_byte_windows(unit.module)
    write_byte_exps(unit.module)
    write_byte_sums(unit.module)
    write_byte_packs(unit.module)


REWRITE = Rewrite(
    BYTE_OPS.name,
    BYTE_OPS.version,
    write_byte_ops,
    before="vector-math",
    needed=lambda unit: any(mark in (unit.text or "") for mark in MARKS),
)
