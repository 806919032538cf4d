"""Attributes and CPU flags shared by the schedule families and the rewrite of ops on i8."""

from autotune.core.plugs.rewrites import NeededRewrite

BYTE_OPS = NeededRewrite("byte-ops", 2, why="ops of bytes by code of ours")
TABLE = "autotune.byte_table"  # on an op replaced by a table lookup: vectors per iteration
WINDOWS = "autotune.byte_windows"  # on an op that sums products of i8: elements per iteration
EXP = "autotune.byte_exp"  # on a math.exp of a difference of bytes, replaced by lookups in two tables
SUMS = "autotune.byte_sums"  # on an arith.extsi of bytes that are summed, replaced by dot products
PACKS = "autotune.byte_packs"  # on an arith.fptosi that rounds to bytes, replaced by saturating packs
MARKS = (TABLE, WINDOWS, EXP, SUMS, PACKS)
CHOOSES, MULTIPLIES = "avx512vbmi", "avx512_vnni"  # CPU flags: byte permutations, byte dot products
PERMUTES = "avx512f"  # CPU flag: permutations of words
PACKS_BYTES = "avx512bw"  # CPU flag: packs of 64 bytes
