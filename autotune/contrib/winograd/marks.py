"""What scripts say of convolutions by Winograd's transform, and which rewrite they ask for by it."""

from autotune.core.plugs.rewrites import NeededRewrite

MARK = "autotune.winograd"  # outputs of a tile, on the op that stands for a convolution
ROWS = "autotune.winograd_rows"  # tiles of a register tile
WIDTH = "autotune.winograd_width"  # filters of a panel
LINES = "autotune.winograd_lines"  # rows of tiles that are transformed at a time
LANES = "autotune.winograd_lanes"  # elements of a vector
WINOGRAD = NeededRewrite("winograd", 2, why="convolutions by Winograd's transform")
