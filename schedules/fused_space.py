"""Search space of a fusion group: its knobs and the constraints between them."""

from dataclasses import replace
from functools import partial
from math import gcd, prod

from autotune.core.host.machine import Machine
from autotune.core.space import Config, Constraint, Knob, Space
from schedules.blocking import cut
from schedules.ends import knobs_of_ends
from schedules.fused_shape import (
    Shape,
    block_columns,
    contraction_config,
    inherited,
    online_columns,
    piece_of_group,
    suffix,
    tile_of,
)
from schedules.matmul_space import columns_of, constraints, matmul_space
from schedules.shares import LINE, even_counts, few_pieces, is_shared, knobs_for, pieces

MOST_ROWS = 256  # rows per block, unless a block has all rows
COLUMNS = (64, 128, 256, 512, 768, 1024)
VECTORS = (1, 2, 4, 8)
ONLINE = (64, 128, 256, 512)


def row_blocks(rows: int, period: int = 0) -> tuple[int, ...]:
    """Return the valid rows per block: divisors of all rows and of the mask's period if there is one, and all rows.

    Example:
        >>> row_blocks(196), row_blocks(196, 98)
        ((1, 2, 4, 7, 14, 28, 49, 98, 196), (1, 2, 7, 14, 49, 98, 196))
    """
    whole = gcd(rows, period)
    return (*(block for block in range(1, min(MOST_ROWS + 1, rows)) if whole % block == 0), rows)


def fused_space(shape: Shape, machine: Machine) -> Space:
    """Return the knobs whose values make sense for these sizes, with the constraints between them."""
    knobs = [
        Knob("fuse", (True, False)),
        Knob("rows", row_blocks(shape.most_rows, shape.period)),
        Knob("vectors", VECTORS),
    ]
    knobs += knobs_of_ends(shape.lengths, machine, is_tiled=bool(shape.contractions))
    if shape.causal:
        knobs.append(Knob("hidden", ("skipped", "computed")))
    if blocks := tuple(n for n in ONLINE if n < shape.keys and shape.keys % n == 0):
        knobs.append(Knob("online", (0, *blocks)))
    if not shape.contractions:
        knobs += [Knob("prefetch_rows", (False, True)), Knob("prefetch_written", (False, True))]
    if shape.columns:
        knobs.append(Knob("columns", (0, *(n for n in COLUMNS if n < shape.columns and shape.columns % n == 0))))
    for index, c in enumerate(shape.contractions):
        inner = matmul_space(replace(c, batch=1, batched=False), replace(machine, threads=1))
        values = {knob.name: knob.values for knob in inner.knobs}
        knobs += [Knob(name + suffix(shape, index), values[name]) for name in inherited(c)]
    if machine.threads == 1:
        return Space(tuple(knobs), group_constraints(shape, machine))
    return Space((*knobs, *group_knobs(shape, machine)), shared_constraints(shape, machine))


def group_knobs(shape: Shape, machine: Machine) -> tuple[Knob, ...]:
    """Return the knobs for thread pieces of the first leading dimension, rows and columns; none on a single thread."""
    lead = shape.sizes[0] if shape.rows > 1 else 1
    sizes = {"b": lead, "m": shape.most_rows, "n": shape.columns or 1}
    return knobs_for({dim: even_counts(size, machine) for dim, size in sizes.items()})


def shared_constraints(shape: Shape, machine: Machine) -> tuple[Constraint, ...]:
    """Return the constraints of a group split among threads: those of one piece, and those between pieces."""

    def of_piece(number: int, config: Config) -> bool:
        return group_constraints(piece_of_group(shape, config), machine)[number].holds(config)

    def fused(config: Config) -> bool:
        return not is_shared(config) or (bool(config["fuse"]) and not online_columns(config))

    def one_way(config: Config) -> bool:
        return pieces(config, "b") == 1 or (pieces(config, "m") == 1 and pieces(config, "n") == 1)

    def blocks(config: Config) -> bool:
        piece = piece_of_group(shape, config)
        columns = block_columns(config)
        return piece.most_rows % int(config["rows"]) == 0 and (not columns or piece.columns % columns == 0)

    def whole_lines(config: Config) -> bool:
        piece = piece_of_group(shape, config)
        row = piece.columns or shape.width
        return not is_shared(config) or (row * prod(piece.sizes[: shape.rows]) % LINE == 0 and row_ends(config, row))

    def row_ends(config: Config, row: int) -> bool:
        return pieces(config, "n") == 1 or row % LINE == 0

    inherited_constraints = [
        Constraint(constraint.sentence, partial(of_piece, i))
        for i, constraint in enumerate(group_constraints(shape, machine))
    ]
    return (
        Constraint("a group runs on several threads only where it is fused without an online softmax", fused),
        Constraint("tiles are of leading dimensions, or of rows and columns", one_way),
        few_pieces(machine),
        Constraint("blocks of rows and columns divide those of a piece", blocks),
        Constraint("a piece ends where a cache line does", whole_lines),
        *inherited_constraints,
    )


def group_constraints(shape: Shape, machine: Machine) -> tuple[Constraint, ...]:
    """Return the constraints between knobs, each described by a sentence."""

    def in_blocks(config: Config) -> bool:
        return bool(config["fuse"]) and int(config["rows"]) < shape.most_rows

    def looped(config: Config) -> bool:
        has_loop = (
            is_shared(config)
            or shape.rows > 1
            or 0 < block_columns(config) < shape.columns
            or int(config["rows"]) < shape.most_rows
        )
        return has_loop if config["fuse"] else True

    def idle(config: Config) -> bool:
        return bool(config["fuse"]) or (config["rows"] == shape.most_rows and not block_columns(config))

    def skips(config: Config) -> bool:
        if config.get("hidden") != "skipped":
            return True
        last = len(shape.contractions) - 1
        summed = cut(shape.contractions[last].k, int(config["tile_k" + suffix(shape, last)]), 1)
        whole = len(summed) == 1 or online_columns(config) > 0
        return in_blocks(config) and whole

    def online(config: Config) -> bool:
        return not online_columns(config) or in_blocks(config)

    def ahead(config: Config) -> bool:
        return not config.get("prefetch_rows") or in_blocks(config)

    def written(config: Config) -> bool:
        return not config.get("prefetch_written") or bool(config["prefetch_rows"])

    def matmuls(config: Config) -> bool:
        return all(is_valid(shape, config, i, machine) for i in range(len(shape.contractions)))

    def aligned(config: Config) -> bool:
        columns = block_columns(config)
        inner_configs = [contraction_config(shape, config, i) for i in range(len(shape.contractions))]
        return not columns or all(columns % columns_of(c) == 0 for c in inner_configs)

    return (
        Constraint("fusing needs a loop: blocks of fewer rows or columns than there are", looped),
        Constraint("rows is all of them and columns 0 where nothing is fused", idle),
        Constraint("columns is a multiple of the register tile of the contraction", aligned),
        Constraint("hidden is skipped only in blocks of rows, where tiles of the sum over columns divide it", skips),
        Constraint("a softmax goes online only in blocks of rows that are fused", online),
        Constraint("the next rows are prefetched only where blocks of them are fused", ahead),
        Constraint("what rows write is prefetched only where the next rows are", written),
        Constraint("every contraction satisfies the constraints of schedule 'matmul' for its tile", matmuls),
    )


def is_valid(shape: Shape, config: Config, index: int, machine: Machine) -> bool:
    """Return whether one contraction's config satisfies the constraints of schedule 'matmul' for its tile."""
    inner_config = contraction_config(shape, config, index)
    return all(constraint.holds(inner_config) for constraint in constraints(tile_of(shape, config, index), machine))
