"""What schedules and the compiler agree on for products with weights in blocks that code of ours computes."""

from autotune.core.plugs.rewrites import NeededRewrite

BLOCK_CODE = NeededRewrite("block-code", 6, why="weights in blocks by code of ours")
MARK = "autotune.blocks_by_"  # beginning of the attributes of an op that is computed so
DOTS, ROWS, UNROLL, AHEAD = (f"{MARK}{name}" for name in ("dots", "rows", "unroll", "ahead"))
FLOATS, LOOKUP = f"{MARK}floats", f"{MARK}lookup"
TILES, WIDENED_TILES, BYTE_PANELS = f"{MARK}tiles", f"{MARK}widened_tiles", f"{MARK}byte_panels"
PANELS, VECTORS, LANES, PIECE = (f"{MARK}{name}" for name in ("panels", "vectors", "lanes", "piece"))
FROM_ZERO = f"{MARK}from_zero"  # sums start from zero, in the first block of k
DEPTH, STREAMS = f"{MARK}depth", f"{MARK}streams"  # results are written past the caches
