"""What schedules and the compiler agree on for products of bytes in blocks."""

from autotune.core.plugs.rewrites import NeededRewrite

DOTS_OF_BLOCKS = NeededRewrite("block-dots", 1, why="activations rounded to 8 bits, a step a block")
MARK = "autotune.block_dots"  # beginning of the attributes of an op that code of ours computes so
