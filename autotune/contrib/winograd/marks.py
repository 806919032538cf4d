"""Attributes by which schedules tell the compiler how to lower Winograd convolutions, and the rewrite they need."""

from autotune.core.plugs.rewrites import NeededRewrite

MARK = "autotune.winograd"  # outputs per tile, on the stand-in op of a convolution
ROWS = "autotune.winograd_rows"  # tiles per register tile
WIDTH = "autotune.winograd_width"  # filters per panel
LINES = "autotune.winograd_lines"  # rows of tiles transformed together
LANES = "autotune.winograd_lanes"  # elements of a vector
WINOGRAD = NeededRewrite("winograd", 2, why="convolutions by Winograd's transform")
