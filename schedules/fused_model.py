"""The config that a group of ops gets without any search."""

from typing import Any

from autotune.core.machine import Machine
from autotune.core.space import Config, Space, Value
from schedules.fused_space import Shape, inherited, suffix, tile_of
from schedules.matmul_model import default_config as matmul_default
from schedules.matmul_space import BYTES, matmul_space, may_fetch

MOST_WHOLE_K = 1024  # of a contraction whose B is packed once for all blocks of rows
MANY_ROWS, FEW_ROWS, DEFAULT_COLUMNS = 32, 4, 256
ARRAYS = 4  # what is in L1 together: rows that are read, worked on and written, and the next ones
ROWS_A_COPY = 128  # where B is packed again for every block of rows
APART = {"fuse": False, "columns": 0, "hidden": "computed", "online": 0, "prefetch_rows": False}  # each op alone


def default_config(shape: Shape, space: Space, machine: Machine) -> Config:
    """Row groups a few rows at a time, in L1; an epilogue on blocks that stay in L2; attention in blocks of rows.

    It goes online where a block's scores would fill half of L2.
    """
    values = {knob.name: knob.values for knob in space.knobs}
    fitting_l1 = machine.l1_bytes // ARRAYS // (BYTES * shape.width)
    most = MANY_ROWS if shape.contractions else max(1, min(FEW_ROWS, fitting_l1))
    if shape.columns or shape.keys >= MOST_WHOLE_K:
        most = ROWS_A_COPY
    fused: dict[str, Any] = {
        "fuse": True,
        "rows": max((int(r) for r in values["rows"] if int(r) <= most), default=int(values["rows"][0])),
        "vectors": 4,
    }
    if shape.columns:
        fitting = [int(n) for n in values["columns"] if 0 < int(n) <= DEFAULT_COLUMNS]
        fused["columns"] = max(fitting, default=0)
    if shape.causal:
        fused["hidden"] = "skipped"
    if not shape.contractions:
        several = int(fused["rows"]) < shape.most_rows
        fused["prefetch_rows"] = several and BYTES * shape.sizes[0] * shape.width > machine.l2_bytes
        fused["prefetch_written"] = False
    if "online" in values:
        long = BYTES * int(fused["rows"]) * shape.keys > machine.l2_bytes // 2
        fused["online"] = max(values["online"], key=int) if long else 0
    apart = {**fused, **{name: value for name, value in APART.items() if name in fused}, "rows": shape.most_rows}
    for frame in (fused, apart):
        config = with_contractions(shape, frame, machine)
        if space.broken_law(config) is None and all(config[name] in values[name] for name in values):
            return config
    return next(space.configs())


def with_contractions(shape: Shape, frame: dict[str, Any], machine: Machine) -> dict[str, Value]:
    """The frame with the default of every contraction for the tile it will be."""
    config = dict(frame)
    for index in range(len(shape.contractions)):
        c = tile_of(shape, frame, index)
        chosen = matmul_default(c, matmul_space(c, machine), machine)
        if c.k < MOST_WHOLE_K and frame["fuse"] and shape.rows > 1:
            # B is packed once for all blocks of rows, not once for each
            chosen = {**chosen, "tile_k": 0}
            chosen["prefetch"] = may_fetch(c, chosen)
        config |= {name + suffix(shape, index): chosen[name] for name in inherited(c)}
    return config
