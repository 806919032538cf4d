"""Moves: each writes one step of a transform script and gives the handle of what it made.

A handle is the name of an SSA value of type ``!transform.any_op``. A move that says it consumes its handle
leaves it invalid, as in the transform dialect itself. Drawings show the payload before and after.
"""

from dataclasses import dataclass, field

ANY = "!transform.any_op"
PACKED = "autotune.packed"  # marks the pads that are copies
PAD = '!transform.op<"tensor.pad">'


@dataclass
class Script:
    """Transform ops in the making: lines, and fresh names for handles."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)

    def fresh(self, stem: str) -> str:
        """A handle name that is not taken, such as ``%tiled_3``."""
        number = self.names.get(stem, 0)
        self.names[stem] = number + 1
        return f"%{stem}_{number}"

    def emit(self, line: str) -> None:
        """Append one operation."""
        self.lines.append(line)

    def say(self, comment: str) -> None:
        """Append a comment for whoever reads the script."""
        self.lines.append(f"// {comment}")

    @property
    def text(self) -> str:
        """The script so far."""
        return "\n".join(self.lines) + "\n"


def tile_loop(script: Script, op: str, rank: int, dim: int, size: int) -> tuple[str, str]:
    """Put one loop of steps of `size` around an op; consumes `op`.

        C[i] = ...  for i in 0..n   ->   for i0 in 0..n step size:  C[i0 : i0 + size] = ...

    Args:
        script: Where to write.
        op: Handle of a structured op.
        rank: Number of its loops.
        dim: Which of them.
        size: Elements a step; must divide the trip count, or the tile gets a dynamic shape.

    Returns:
        Handles of the tiled op and of the loop.
    """
    sizes = ", ".join(str(size if d == dim else 0) for d in range(rank))
    tiled, loop = script.fresh("tiled"), script.fresh("loop")
    script.emit(
        f"{tiled}, {loop} = transform.structured.tile_using_for {op} tile_sizes [{sizes}] : ({ANY}) -> ({ANY}, {ANY})"
    )
    return tiled, loop


def split_at(script: Script, op: str, dim: int, point: int) -> tuple[str, str]:
    """Cut an op in two along a loop; consumes `op`.

    C[0:n] = ...   ->   C[0:point] = ... ;  C[point:n] = ...
    """
    both, first, second = script.fresh("parts"), script.fresh("main"), script.fresh("rest")
    script.emit(f"{both} = transform.structured.split {op} after {point} {{dimension = {dim}}} : {ANY}")
    script.emit(f"{first}, {second} = transform.split_handle {both} : ({ANY}) -> ({ANY}, {ANY})")
    return first, second


def drop_unit_batch(script: Script, op: str, rank: int) -> str:
    """Loop over the batch and turn what is inside into a plain matmul; consumes `op`.

    C[b, m, n] += ...   ->   for b:  C_b[m, n] += ...
    """
    tiled, loop = tile_loop(script, op, rank, 0, 1)
    script.emit(f"transform.structured.generalize {tiled} : ({ANY}) -> {ANY}")
    script.emit(
        f"transform.apply_patterns to {loop} "
        f"{{ transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices }} : {ANY}"
    )
    plain = script.fresh("plain")
    script.emit(f'{plain} = transform.structured.match ops{{["linalg.generic"]}} in {loop} : ({ANY}) -> {ANY}')
    return plain


def simplify(script: Script, scope: str) -> None:
    """Make slices of slices under `scope` slices of the original; handles to ops that stay remain valid."""
    script.emit(f"transform.apply_patterns to {scope} {{")
    script.emit("  transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice")
    script.emit("  transform.apply_patterns.canonicalization")
    script.emit(f"}} : {ANY}")


def pad_operand(script: Script, op: str, operand: int, operands: int) -> str:
    """Copy an operand's tile as it is, just before the op: a pad of no elements; consumes `op`.

    C += A * B[k0 : k0 + kc, n0 : n0 + nc]   ->   P = B[k0 : k0 + kc, n0 : n0 + nc];  C += A * P

    The pad becomes a copy by `copy_pads`.
    """
    zeros = ", ".join(["0.0 : f32"] * operands)
    nofold = ", ".join("1" if i == operand else "0" for i in range(operands))
    padded, pad, copy = script.fresh("padded"), script.fresh("pad"), script.fresh("copy")
    script.emit(
        f"{padded}, {pad}, {copy} = transform.structured.pad {op} {{padding_values = [{zeros}], "
        f'padding_dimensions = [0, 1, 2], nofold_flags = [{nofold}], copy_back_op = "none"}} '
        f": ({ANY}) -> ({ANY}, {ANY}, {ANY})"
    )
    script.emit(f'transform.annotate {pad} "{PACKED}" : {ANY}')
    return padded


def pack_operand(
    script: Script, op: str, operand: int, operands: int, loops: int, *, transpose: bool = False
) -> tuple[str, str]:
    """Copy an operand's tiles once, in the order they are read, outside of the innermost `loops` loops; consumes `op`.

        for n0: for m0: C += A * B[:, n0 : n0 + nr]   ->   for n0: P[n0 / nr] = B[:, n0 : n0 + nr]
                                                           for n0: for m0: C += A * P[n0 / nr]

    Args:
        script: Where to write.
        op: Handle of the register-tiled op.
        operand: Which operand to pack.
        operands: How many operands the op has.
        loops: How many enclosing loops the copy moves out of.
        transpose: Store each tile transposed.

    Returns:
        Handle of the op that now reads the packed tiles, and of the transpose back before it (empty without one).
    """
    packed = pad_operand(script, op, operand, operands)
    source, hoisted = script.fresh("source"), script.fresh("hoisted")
    script.emit(f"{source} = transform.get_producer_of_operand {packed}[{operand}] : ({ANY}) -> {PAD}")
    turn = ", transpose by [1, 0]" if transpose else ""
    script.emit(f"{hoisted} = transform.structured.hoist_pad {source} by {loops} loops{turn} : ({PAD}) -> {ANY}")
    if not transpose:
        return packed, ""
    back = script.fresh("back")
    script.emit(f"{back} = transform.get_producer_of_operand {packed}[{operand}] : ({ANY}) -> {ANY}")
    return packed, back


def fuse_producer(script: Script, producer: str, loop: str) -> str:
    """Compute a producer tile by tile inside the loop that reads it; consumes `producer`.

    P = f(B);  for k: ... P[k]   ->   for k: p = f(B[k]); ... p
    """
    fused, new_loop = script.fresh("fused"), script.fresh("loop")
    script.emit(
        f"{fused}, {new_loop} = transform.structured.fuse_into_containing_op {producer} into {loop} "
        f": ({ANY}, {ANY}) -> ({ANY}, {ANY})"
    )
    return fused


def enclosing_function(script: Script, op: str) -> str:
    """The function an op is in; stays valid whatever happens inside."""
    function = script.fresh("function")
    script.emit(f"{function} = transform.get_parent_op {op} {{isolated_from_above}} : ({ANY}) -> {ANY}")
    return function


def copy_pads(script: Script, function: str, rows: int, columns: int) -> None:
    """Turn the pads `pad_operand` left in a function into loops of vector copies, straight to where they are stored.

        P = B[k0 : k0 + kc, n0 : n0 + nr]   ->   for k in 0..kc step rows:  P[k : k + rows] = B[k0 + k : ...]

    Args:
        script: Where to write.
        function: Handle of the function.
        rows: Rows of the tile a step; must divide them.
        columns: Columns of the tile a step; must divide them.
    """
    pads = match_pads(script, function)
    tiled, _, _ = tile_pairs(script, pads, rows, columns)
    script.emit(f"transform.structured.vectorize {tiled} vector_sizes [{rows}, {columns}] : {ANY}")


def copy_pads_transposed(script: Script, function: str, rows: int, columns: int) -> None:
    """The same for pads that are stored transposed: copied and turned in one loop, in registers.

    Args:
        script: Where to write.
        function: Handle of the function.
        rows: Rows of the stored tile a step; must divide them.
        columns: Columns of the stored tile a step; must divide them.
    """
    pads, turned = match_pads(script, function), script.fresh("turned")
    script.emit(f"{turned} = transform.get_consumers_of_result {pads}[0] : ({ANY}) -> {ANY}")
    tiled, _, inner = tile_pairs(script, turned, rows, columns)
    pad = fuse_producer(script, pads, inner)
    script.emit(f"transform.structured.vectorize {pad} vector_sizes [{columns}, {rows}] : {ANY}")
    vectorize(script, tiled)
    script.emit(f"transform.apply_dce to {function} : {ANY}")  # the pad that was fused stays behind, unused


def match_pads(script: Script, function: str) -> str:
    """All pads in a function that `pad_operand` made; others are the payload's."""
    pads = script.fresh("pads")
    script.emit(
        f'{pads} = transform.structured.match ops{{["tensor.pad"]}} attributes{{{PACKED}}} in {function} '
        f": ({ANY}) -> {ANY}"
    )
    return pads


def tile_pairs(script: Script, op: str, rows: int, columns: int) -> tuple[str, str, str]:
    """Two loops around an op of two dimensions; consumes `op`."""
    tiled, outer, inner = script.fresh("tiled"), script.fresh("loop"), script.fresh("loop")
    script.emit(
        f"{tiled}, {outer}, {inner} = transform.structured.tile_using_for {op} tile_sizes [{rows}, {columns}] "
        f": ({ANY}) -> ({ANY}, {ANY}, {ANY})"
    )
    return tiled, outer, inner


def vectorize(script: Script, op: str) -> None:
    """Replace an op of static shape by vector operations of that shape; consumes `op`.

    C[0:6, 0:16] += A[0:6, k] * B[k, 0:16]   ->   vector.contract : vector<6x16xf32>
    """
    script.emit(f"transform.structured.vectorize {op} : {ANY}")


def unroll_loop(script: Script, loop: str, factor: int) -> None:
    """Repeat a loop's body `factor` times a step; consumes `loop`.

    for k: body(k)   ->   for k step 2: body(k); body(k + 1)
    """
    script.emit(f"transform.loop.unroll {loop} {{factor = {factor}}} : {ANY}")
