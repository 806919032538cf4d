"""Attributes by which schedules and stand-in ops describe convolutions of words, and the rewrite they need."""

from autotune.core.plugs.rewrites import NeededRewrite

SUMS = "autotune.window_sums"  # precision, on the stand-in op of a convolution of words
ROUNDED = "autotune.window_rounded"  # precision, on the stand-in op of the rounding of its inputs
SHARED = "autotune.window_shared"  # dimensions of the inputs that share a scale, on the latter
ROWS = "autotune.window_rows"  # rows of a register tile
WIDTH = "autotune.window_width"  # columns of a panel and of a register tile
NARROW_WINDOWS = NeededRewrite("narrow-windows", 1, why="convolutions of rounded words")
