"""What the families and the compiler agree on for element-wise ops of bytes."""

from autotune.core.plugs.rewrites import NeededRewrite

BYTE_OPS = NeededRewrite("byte-ops", 2, why="element-wise ops of bytes by code of ours")
TABLE = "autotune.byte_table"  # of an op that is read from a table: how many vectors at a time
WINDOWS = "autotune.byte_windows"  # of an op that sums products of bytes: elements of a step
MARKS = (TABLE, WINDOWS)
CHOOSES, MULTIPLIES = "avx512vbmi", "avx512_vnni"  # of a CPU, as Linux lists them: bytes are chosen, are multiplied
