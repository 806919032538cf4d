"""The techniques of these families, in the order in which one builds on another."""

from autotune.core.scripts.technique import Technique
from schedules.functions import CALL

TECHNIQUES = (
    Technique("register tile", {"register_m": 1, "register_n": 1, "unroll_k": 1, "vectors": 1}),
    Technique("cache tile", {"tile_m": 0, "tile_n": 0, "tile_k": 0, "columns": 0, "order": "mnk"}),
    Technique("pack", {"pack_b": "none", "prefetch": False}),
    Technique("fuse", {"fuse": False, "columns": 0, "online": 0, "prefetch_rows": False, "prefetch_written": False}),
    Technique("vector math", {"math": CALL}),
    Technique("threads", {"pieces_b": 1, "pieces_m": 1, "pieces_n": 1}),
)
