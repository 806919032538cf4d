"""Features of a config that determine its speed, for cost models that learn from measured configs.

Footprints are log2 of the ratio of bytes to a cache's size, so that a model carries over to other machines and sizes.
The nest is the one of `schedules.matmul`: blocks of B in L2, strips of A in L1, register tiles.
"""

from math import log2

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction
from autotune.core.space import Config
from schedules.blocking import DIMS, Region, regions, register_loops
from schedules.fused_shape import Shape, block_columns, contraction_config, suffix, tile_of
from schedules.matmul_model import RegisterTile, flow, score
from schedules.matmul_space import BYTES, cut_all
from schedules.predicted import least_cycles, row_delay, whole_cycles


def contraction_features(c: Contraction, config: Config, machine: Machine) -> dict[str, float]:
    """Return the features of one contraction's nest; all are finite, and none depends on measured times.

    Args:
        c: Contraction, of the size at which the nest begins.
        config: Value of every knob of `schedules.matmul`.
        machine: Host that the script is for.
    """
    parts = list(regions(cut_all(c, config)))
    main, lanes = parts[0], machine.lanes
    rows, columns = main["m"].register, main["n"].register
    vectors = -(-columns // lanes)
    fmas = [p["m"].register * -(-p["n"].register // lanes) for p in parts]
    tile = RegisterTile(rows, int(config["register_n"]), int(config["vector_width"]))
    return {
        "accumulators": rows * vectors,
        "fmas_a_load": rows * vectors / (rows + vectors),
        "filled_lanes": columns / (vectors * lanes),
        "left_over": 1 - volume(main) / (c.m * c.n * c.k),
        "regions": log2(len(parts)),
        "unrolled": log2(sum(fmas) * int(config["unroll_k"])),
        "delay": log2(whole_cycles(c, config, machine) / least_cycles(c, machine)),
        "model": score(c, tile, machine) * flow(c, config, machine),
        **footprints(main, machine),
        **traffic(main, str(config["order"])),
        "copied": float(config["pack_b"] == "panels") / c.m,
        "strided": float(config["pack_b"] == "none") * log2(1 + BYTES * (c.k if c.transposed_b else c.n)),
        "register_loops": len(register_loops(main, "nm")),
    }


def volume(region: Region) -> int:
    """Return the multiply-adds of a region."""
    return region["m"].size * region["n"].size * region["k"].size


def footprints(main: Region, machine: Machine) -> dict[str, float]:
    """Return log2 of the footprints that a region's loops reuse, relative to the size of the intended cache."""
    m, n, k = (main[dim] for dim in DIMS)
    l1, l2, l3 = machine.l1_bytes, machine.l2_bytes, max(machine.l3_bytes, machine.l2_bytes)
    return {
        "strip_in_l1": log2(BYTES * m.register * k.cache / l1),
        "panel_in_l1": log2(BYTES * k.cache * n.register / l1),
        "block_in_l2": log2(BYTES * k.cache * n.cache / l2),
        "rows_in_l2": log2(BYTES * m.cache * k.cache / l2),
        "sums_in_l2": log2(BYTES * m.cache * n.cache / l2),
        "weight_in_l3": log2(BYTES * n.size * k.size / l3),
    }


def traffic(main: Region, order: str) -> dict[str, float]:
    """Return log2 of the passes over each operand, and the position of each dimension's cache loop in the nest."""
    passes = {dim: log2(main[dim].size / main[dim].cache) for dim in DIMS}
    positions = {f"place_{dim}": float(order.index(dim)) if main[dim].looped else 3.0 for dim in DIMS}
    return {"passes_a": passes["n"], "passes_b": passes["m"], "passes_c": passes["k"], **positions}


def group_features(shape: Shape, config: Config, machine: Machine) -> dict[str, float]:
    """Return the features of a group's loops and of each of its contractions, sized as inside those loops."""
    rows = int(config["rows"])
    columns = block_columns(config) or shape.columns or shape.width
    features = {
        "blocks": log2(max(1, shape.most_rows // rows)),
        "row_block_in_l1": log2(BYTES * rows * columns / machine.l1_bytes),
        "row_block_in_l2": log2(BYTES * rows * columns / machine.l2_bytes),
    }
    for index in range(len(shape.contractions)):
        tile, chosen = tile_of(shape, config, index), contraction_config(shape, config, index)
        inner = contraction_features(tile, chosen, machine)
        features |= {name + suffix(shape, index): value for name, value in inner.items()}
    if len(shape.contractions) < 2:
        features["delay"] = log2(row_delay(shape, config, machine))
    return features
