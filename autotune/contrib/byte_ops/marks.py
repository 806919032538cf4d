"""Attributes and CPU flags shared by the schedule families and the rewrite of element-wise ops on i8."""

from autotune.core.plugs.rewrites import NeededRewrite

BYTE_OPS = NeededRewrite("byte-ops", 2, why="element-wise ops of bytes by code of ours")
TABLE = "autotune.byte_table"  # on an op replaced by a table lookup: vectors per iteration
WINDOWS = "autotune.byte_windows"  # on an op that sums products of i8: elements per iteration
MARKS = (TABLE, WINDOWS)
CHOOSES, MULTIPLIES = "avx512vbmi", "avx512_vnni"  # CPU flags: byte permutations, byte dot products
