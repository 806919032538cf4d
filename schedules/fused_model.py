"""Default config of a fusion group, chosen without any search."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from autotune.core.host.machine import Machine
from autotune.core.space import Config, Space, Value
from schedules.ends import MASKED, PEELED
from schedules.fused_shape import Shape, inherited, piece_of_group, suffix, tile_of
from schedules.fused_space import fused_space, group_knobs
from schedules.matmul_model import default_config as matmul_default
from schedules.matmul_model import packing
from schedules.matmul_space import BYTES, ends_of, matmul_space, may_fetch
from schedules.shares import pays

MOST_WHOLE_K = 1024  # of a contraction whose B is packed once for all blocks of rows
MANY_ROWS, FEW_ROWS, DEFAULT_COLUMNS = 48, 4, 256  # FEW_ROWS counts f32 rows: of i8, as many as have the same bytes
FLOPS_A_ELEMENT = 32  # of a row-wise group, counting its exponentials and its passes over the row
ARRAYS = 4  # arrays in L1 at the same time: rows read, intermediate rows, rows written, and the next rows
ROWS_A_COPY = 128  # rows per block where B is packed again for every block
LEAST_ROWS = 8  # per block of a contraction: with fewer rows its B is read too often
WHOLE = {"hidden": "computed", "online": 0, "prefetch_rows": False}  # of a group with a single block of rows
APART = {"fuse": False, "columns": 0}  # in addition to `WHOLE`, if nothing is fused


def default_config(shape: Shape, space: Space, machine: Machine) -> Config:
    """Return the default: row groups in small blocks in L1, epilogues in blocks that stay in L2, attention by rows.

    The softmax is online where a block's scores would fill half of L2. On several threads this applies to each piece.
    """
    if machine.threads > 1:
        return shared_default(shape, space, machine)
    values = {knob.name: knob.values for knob in space.knobs}
    fitting_l1 = machine.l1_bytes // ARRAYS // (BYTES * shape.width)
    few_rows = FEW_ROWS * max(1, BYTES // shape.written)
    most = MANY_ROWS if shape.contractions else max(1, min(few_rows, fitting_l1))
    if shape.columns or shape.keys >= MOST_WHOLE_K:
        most = ROWS_A_COPY
    fused: dict[str, Any] = {
        "fuse": True,
        "rows": default_rows([int(rows) for rows in values["rows"]], most, LEAST_ROWS if shape.contractions else 1),
        "vectors": 4,
    }
    if shape.columns:
        fitting = [int(n) for n in values["columns"] if 0 < int(n) <= DEFAULT_COLUMNS]
        fused["columns"] = max(fitting, default=0)
    if "ends" in values:
        fused["ends"] = PEELED
    if shape.causal:
        fused["hidden"] = "skipped"
    if not shape.contractions:
        has_several_blocks = int(fused["rows"]) < shape.most_rows
        fused["prefetch_rows"] = has_several_blocks and BYTES * shape.sizes[0] * shape.width > machine.l2_bytes
        fused["prefetch_written"] = False
    if "online" in values:
        long = BYTES * int(fused["rows"]) * shape.keys > machine.l2_bytes // 2
        fused["online"] = max(values["online"], key=int) if long else 0
    whole = {**fused, **{name: value for name, value in WHOLE.items() if name in fused}, "rows": shape.most_rows}
    for frame in (fused, whole, {**whole, **{name: value for name, value in APART.items() if name in fused}}):
        config = with_contractions(shape, frame, machine)
        if space.broken_constraint(config) is None and all(config[name] in values[name] for name in values):
            return config
    return next(space.configs())


def default_rows(blocks: Sequence[int], most: int, least: int) -> int:
    """Return the largest block that is not too large, or the next larger one if all such blocks are too small.

    Example:
        >>> default_rows([1, 2, 4, 49, 98, 196], 32, 8), default_rows([1, 197], 128, 8)
        (49, 197)
    """
    small = [rows for rows in blocks if rows <= most]
    large = [rows for rows in blocks if rows > most]
    return max(small) if small and (max(small) >= least or not large) else min(large)


def shared_default(shape: Shape, space: Space, machine: Machine) -> Config:
    """Return the config of a group whose threads compute equal pieces; of a single thread if the work is too small.

    The pieces are of a leading dimension, else of a contraction's columns, each with its part of B, else of rows.
    """
    single_threaded = replace(machine, threads=1)
    work = sum(2 * c.batch * c.m * c.n * c.k for c in shape.contractions)
    size = prod(shape.sizes[: shape.rows]) * shape.width
    traffic = BYTES * (2 * size + sum(c.batch * c.k * c.n for c in shape.contractions))
    knobs = {knob.name: knob.values for knob in space.knobs}
    unshared: Config = {knob.name: 1 for knob in group_knobs(shape, machine)}
    order = "bnm" if shape.columns >= shape.most_rows else "bmn"
    for dim in order if pays(work or FLOPS_A_ELEMENT * size, traffic, machine) else "":
        name = f"pieces_{dim}"
        if machine.threads not in knobs.get(name, ()):
            continue
        pieces = {**unshared, name: machine.threads}
        piece = piece_of_group(shape, pieces)
        config = {**default_config(piece, fused_space(piece, single_threaded), single_threaded), **pieces}
        if all(config[each] in values for each, values in knobs.items()) and space.broken_constraint(config) is None:
            return config
    return {**default_config(shape, fused_space(shape, single_threaded), single_threaded), **unshared}


def with_contractions(shape: Shape, frame: dict[str, Any], machine: Machine) -> dict[str, Value]:
    """Return the frame with the default config of every contraction for the tile it has inside the fused loops."""
    config, ends = dict(frame), list[str]()
    for index, whole in enumerate(shape.contractions):
        c = tile_of(shape, frame, index)
        # B is packed once for all blocks of rows, not once for each
        shared = c.k < MOST_WHOLE_K and frame["fuse"] and shape.rows > 1
        pack_b = packing(whole if shared else c, machine)
        defaults = matmul_default(c, matmul_space(c, machine), machine, copied=shared and pack_b == "panels")
        if shared:
            defaults = {**defaults, "tile_k": 0, "pack_b": pack_b}
            defaults["prefetch"] = may_fetch(c, defaults)
        config |= {name + suffix(shape, index): defaults[name] for name in inherited(c)}
        panels = int(defaults["register_n"]) if defaults["pack_b"] == "panels" else 0
        ends.append(ends_of(c, panels))
    if "ends" in frame:
        config["ends"] = PEELED if PEELED in ends else MASKED
    return config
