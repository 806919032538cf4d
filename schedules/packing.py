"""Transforms that pack: copy operands into the order in which loops read them, or widen their element type once.

As in `schedules.moves`, each function appends one step of a transform script and returns the handle of its result.
"""

from schedules import moves
from schedules.blocking import cut
from schedules.moves import ANY, Script

PACKED = "autotune.packed"  # marks the pads that are copies
MOST_ROWS = 8  # of a pad copied per iteration
MOST_TRANSPOSED = 8  # side of the square that is transposed in registers
PAD = '!transform.op<"tensor.pad">'


def pad_operand(script: Script, op: str, operand: int, operands: int, dtype: str) -> str:
    """Copy an operand's tile unchanged just before the op, as a pad by zero elements; consumes `op`.

    C += A * B[k0 : k0 + kc, n0 : n0 + nc]   ->   P = B[k0 : k0 + kc, n0 : n0 + nc];  C += A * P

    `copy_pads` turns the pad into a copy.
    """
    zero, total = ("0", "i32") if dtype.startswith("i") else ("0.0", dtype)
    zeros = ", ".join([f"{zero} : {dtype}"] * (operands - 1) + [f"{zero} : {total}"])
    nofold = ", ".join("1" if i == operand else "0" for i in range(operands))
    padded, pad, copy = script.fresh("padded"), script.fresh("pad"), script.fresh("copy")
    script.emit(
        f"{padded}, {pad}, {copy} = transform.structured.pad {op} {{padding_values = [{zeros}], "
        f'padding_dimensions = [0, 1, 2], nofold_flags = [{nofold}], copy_back_op = "none"}} '
        f": ({ANY}) -> ({ANY}, {ANY}, {ANY})"
    )
    moves.annotate(script, pad, PACKED)
    return padded


def pack_operand(
    script: Script, op: str, operand: int, operands: int, loops: int, *, dtype: str = "f32", transpose: bool = False
) -> tuple[str, str]:
    """Pack an operand's tiles once, in the order they are read, outside the innermost `loops` loops; consumes `op`.

        for n0: for m0: C += A * B[:, n0 : n0 + nr]   ->   for n0: P[n0 / nr] = B[:, n0 : n0 + nr]
                                                           for n0: for m0: C += A * P[n0 / nr]

    Args:
        script: Script that ops are appended to.
        op: Handle of the register-tiled op.
        operand: Position of the operand to pack.
        operands: Number of operands of the op.
        loops: Number of enclosing loops that the copy is hoisted out of.
        dtype: Element type of the operands.
        transpose: Whether each tile is stored transposed.

    Returns:
        Handle of the op that reads the packed tiles, and of the transpose back before it (empty if not transposed).
    """
    packed = pad_operand(script, op, operand, operands, dtype)
    source, hoisted = script.fresh("source"), script.fresh("hoisted")
    script.emit(f"{source} = transform.get_producer_of_operand {packed}[{operand}] : ({ANY}) -> {PAD}")
    turn = ", transpose by [1, 0]" if transpose else ""
    script.emit(f"{hoisted} = transform.structured.hoist_pad {source} by {loops} loops{turn} : ({PAD}) -> {ANY}")
    if not transpose:
        return packed, ""
    back = script.fresh("back")
    script.emit(f"{back} = transform.get_producer_of_operand {packed}[{operand}] : ({ANY}) -> {ANY}")
    return packed, back


def copy_pads(script: Script, function: str, rows: int, columns: int) -> str:
    """Lower the pads that `pad_operand` left in a function to loops of vector copies, straight to their destination.

        P = B[k0 : k0 + kc, n0 : n0 + nr]   ->   for k in 0..kc step rows:  P[k : k + rows] = B[k0 + k : ...]

    Args:
        script: Script that ops are appended to.
        function: Handle of the function.
        rows: Rows of a pad, of which a few are copied per iteration.
        columns: Columns of a pad.

    Returns:
        Handle of the loops over rows.
    """
    pads = match_pads(script, function)
    step = step_of(rows, MOST_ROWS)
    tiled, loops, _ = tile_pairs(script, pads, step, columns)
    script.emit(f"transform.structured.vectorize {tiled} vector_sizes [{step}, {columns}] : {ANY}")
    return loops


def copy_pads_transposed(script: Script, function: str, rows: int, columns: int) -> None:
    """Lower transposed pads in a function: copy and transpose each in one loop, in registers.

    Args:
        script: Script that ops are appended to.
        function: Handle of the function.
        rows: Rows of a stored tile, of which a few are transposed per iteration.
        columns: Columns of a stored tile.
    """
    rows, pads, transposed = step_of(rows, MOST_TRANSPOSED), match_pads(script, function), script.fresh("turned")
    script.emit(f"{transposed} = transform.get_consumers_of_result {pads}[0] : ({ANY}) -> {ANY}")
    pieces = cut(columns, 0, MOST_TRANSPOSED, powers_of_two=True)
    parts = list(moves.split_into(script, transposed, 1, [piece.size for piece in pieces]))
    for piece, part in zip(pieces, parts, strict=True):
        tiled, _, inner = tile_pairs(script, part, rows, piece.register)
        pad = moves.fuse_producer(script, pads, inner)
        script.emit(f"transform.structured.vectorize {pad} vector_sizes [{piece.register}, {rows}] : {ANY}")
        moves.vectorize(script, tiled)
        pads = match_pads(script, function) if piece != pieces[-1] else ""
    script.emit(f"transform.apply_dce to {function} : {ANY}")  # erases the original of the fused pad


def widen_first(script: Script, loop: str) -> None:
    """Widen the element type of vectors in a loop before they are broadcast to all rows.

    extf(broadcast(b))   ->   broadcast(extf(b))
    """
    script.emit(f"transform.apply_patterns to {loop} {{")
    script.emit("  transform.apply_patterns.vector.transfer_permutation_patterns")
    script.emit("  transform.apply_patterns.vector.sink_ops")
    script.emit(f"}} : {ANY}")


def step_of(size: int, most: int) -> int:
    """Return the largest power of two that divides a size, at most `most`, itself a power of two."""
    return min(size & -size, most)


def match_pads(script: Script, function: str) -> str:
    """Match all pads in a function that `pad_operand` created, not those of the payload."""
    pads = script.fresh("pads")
    script.emit(
        f'{pads} = transform.structured.match ops{{["tensor.pad"]}} attributes{{{PACKED}}} in {function} '
        f": ({ANY}) -> {ANY}"
    )
    return pads


def tile_pairs(script: Script, op: str, rows: int, columns: int) -> tuple[str, str, str]:
    """Tile both loops of a two-dimensional op; consumes `op`."""
    tiled, outer, inner = script.fresh("tiled"), script.fresh("loop"), script.fresh("loop")
    script.emit(
        f"{tiled}, {outer}, {inner} = transform.structured.tile_using_for {op} tile_sizes [{rows}, {columns}] "
        f": ({ANY}) -> ({ANY}, {ANY}, {ANY})"
    )
    return tiled, outer, inner
