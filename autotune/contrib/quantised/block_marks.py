"""Attributes by which schedules tell the compiler how to lower products with block-quantized weights."""

from autotune.core.plugs.rewrites import NeededRewrite

BLOCK_CODE = NeededRewrite("block-code", 6, why="weights in blocks by code of ours")
MARK = "autotune.blocks_by_"  # prefix of the attributes of a marked op
DOTS, ROWS, UNROLL, AHEAD = (f"{MARK}{name}" for name in ("dots", "rows", "unroll", "ahead"))
FLOATS, LOOKUP = f"{MARK}floats", f"{MARK}lookup"
TILES, WIDENED_TILES, BYTE_PANELS = f"{MARK}tiles", f"{MARK}widened_tiles", f"{MARK}byte_panels"
PANELS, VECTORS, LANES, PIECE = (f"{MARK}{name}" for name in ("panels", "vectors", "lanes", "piece"))
FROM_ZERO = f"{MARK}from_zero"  # sums start from zero in the first block of k
DEPTH, STREAMS = f"{MARK}depth", f"{MARK}streams"  # STREAMS: results are stored non-temporally
