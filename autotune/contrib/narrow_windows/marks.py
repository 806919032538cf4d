"""What scripts and stand-ins say of convolutions of words, and which rewrite they ask for by it."""

from autotune.core.plugs.rewrites import NeededRewrite

SUMS = "autotune.window_sums"  # on the op that stands for a convolution of words: its precision
ROUNDED = "autotune.window_rounded"  # on the op that stands for the rounding of its inputs: the precision
SHARED = "autotune.window_shared"  # on the latter: dimensions of the inputs along which a scale is shared
ROWS = "autotune.window_rows"  # rows of a register tile
WIDTH = "autotune.window_width"  # columns of a panel, and of a register tile
NARROW_WINDOWS = NeededRewrite("narrow-windows", 1, why="convolutions of rounded words")
