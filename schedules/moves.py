"""Moves: each writes one step of a transform script and gives the handle of what it made.

A handle is the name of an SSA value of type ``!transform.any_op``. A move that says it consumes its handle
leaves it invalid, as in the transform dialect itself. Drawings show the payload before and after.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autotune.core.scripts.marks import OPTIONAL
from autotune.core.space import Config, Knob

ANY = "!transform.any_op"
PARAM = "!transform.param<i64>"


@dataclass
class Script:
    """Transform ops in the making: lines, and fresh names for handles.

    Attributes:
        knobs: The knobs it is written for; those that are tile sizes become ops of the script.
        config: Value of every knob.
        lines: Lines written so far.
        names: Number of times that each stem of a handle is taken.
        params: Handles of the knobs that are written.
    """

    knobs: Sequence[Knob] = ()
    config: Config = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)

    def fresh(self, stem: str) -> str:
        """A handle name that is not taken, such as ``%tiled_3``."""
        number = self.names.get(stem, 0)
        self.names[stem] = number + 1
        return f"%{stem}_{number}"

    def emit(self, line: str) -> None:
        """Append one operation."""
        self.lines.append(line)

    def say(self, comment: str) -> None:
        """Append a comment to the script."""
        self.lines.append(f"// {comment}")

    def knob(self, name: str, size: int) -> str | None:
        """The handle of a knob, where that is what a size is; `None` where the size is another."""
        knob = next((knob for knob in self.knobs if knob.name == name), None)
        if knob is None or self.config[name] != size:
            return None
        if name not in self.params:
            self.params[name] = self.fresh(name)
            options = ", ".join(map(str, knob.values))
            tune = f'transform.tune.knob<"{name}"> = {size} from options = [{options}]'
            self.emit(f"{self.params[name]} = {tune} -> {PARAM}")
        return self.params[name]

    @property
    def text(self) -> str:
        """The script so far."""
        return "\n".join(self.lines) + "\n"


def tile_loop(script: Script, op: str, rank: int, dim: int, size: int, *, knob: str = "") -> tuple[str, str]:
    """Put one loop of steps of `size` around an op; consumes `op`.

        C[i] = ...  for i in 0..n   ->   for i0 in 0..n step size:  C[i0 : i0 + size] = ...

    Args:
        script: Script that ops are appended to.
        op: Handle of a structured op.
        rank: Number of its loops.
        dim: Position of the loop to tile among the op's loops.
        size: Elements a step; must divide the trip count, or the tile gets a dynamic shape.
        knob: Name of the knob that the step is, unless it was rounded.

    Returns:
        Handles of the tiled op and of the loop.
    """
    param = script.knob(knob, size)
    sizes = ", ".join((param or str(size)) if d == dim else "0" for d in range(rank))
    operands = f"({ANY}, {PARAM})" if param else f"({ANY})"
    tiled, loop = script.fresh("tiled"), script.fresh("loop")
    script.emit(
        f"{tiled}, {loop} = transform.structured.tile_using_for {op} tile_sizes [{sizes}] "
        f": {operands} -> ({ANY}, {ANY})"
    )
    return tiled, loop


def match_inside(script: Script, scope: str, *names: str, stem: str = "found", optional: bool = False) -> str:
    """All ops of these names under `scope`; that there are none is an error, unless `optional`."""
    found, quoted = script.fresh(stem), ", ".join(f'"{name}"' for name in names)
    mark = f" {{{OPTIONAL}}}" if optional else ""
    script.emit(f"{found} = transform.structured.match ops{{[{quoted}]}} in {scope}{mark} : ({ANY}) -> {ANY}")
    return found


def annotate(script: Script, handle: str, name: str, value: int | None = None) -> None:
    """Mark ops or loops with an attribute, a unit or a number; it stays through later moves, and bufferization."""
    if value is None:
        script.emit(f'transform.annotate {handle} "{name}" : {ANY}')
        return
    number = script.fresh("number")
    script.emit(f"{number} = transform.param.constant {value} : i64 -> !transform.param<i64>")
    script.emit(f'transform.annotate {handle} "{name}" = {number} : {ANY}, !transform.param<i64>')


def tile_reduction(script: Script, op: str, rank: int, size: int) -> tuple[tuple[str, str, str], str]:
    """Reduce the last loop with `size` accumulators, which are reduced to one behind the loop; consumes `op`.

    s = sum(x[0:n])   ->   p[0:size] = 0;  for i in 0..n step size: p[0:size] += x[i : i + size];  s = sum(p)

    Returns:
        Handles of the fill of the accumulators, of the op inside the loop, and of the op behind it; and of the loop.
    """
    fill, inside, behind, loop = (script.fresh(stem) for stem in ("strands", "partial", "combined", "loop"))
    sizes = ", ".join("0" if d < rank - 1 else str(size) for d in range(rank))
    script.emit(
        f"{fill}, {inside}, {behind}, {loop} = transform.structured.tile_reduction_using_for {op} "
        f"by tile_sizes = [{sizes}] : ({ANY}) -> ({ANY}, {ANY}, {ANY}, {ANY})"
    )
    return (fill, inside, behind), loop


def split_at(script: Script, op: str, dim: int, point: int) -> tuple[str, str]:
    """Cut an op in two along a loop; consumes `op`.

    C[0:n] = ...   ->   C[0:point] = ... ;  C[point:n] = ...
    """
    both, first, second = script.fresh("parts"), script.fresh("main"), script.fresh("rest")
    script.emit(f"{both} = transform.structured.split {op} after {point} {{dimension = {dim}}} : {ANY}")
    script.emit(f"{first}, {second} = transform.split_handle {both} : ({ANY}) -> ({ANY}, {ANY})")
    return first, second


def split_into(script: Script, op: str, dim: int, sizes: Sequence[int]) -> Iterator[str]:
    """Cut an op along a loop into parts of these sizes, which cover it; gives their handles, and consumes `op`.

    C[0:n] = ...   ->   C[0:s0] = ... ;  C[s0 : s0 + s1] = ... ;  ...

    A part is cut off when the iterator yields it, so that ops for one come before the next cut.
    """
    for size in sizes[:-1]:
        part, op = split_at(script, op, dim, size)
        yield part
    yield op


def drop_unit_batch(script: Script, op: str, rank: int) -> tuple[str, str]:
    """Loop over the batch and turn what is inside into a plain matmul; consumes `op`, gives its handle and the loop's.

    C[b, m, n] += ...   ->   for b:  C_b[m, n] += ...
    """
    tiled, loop = tile_loop(script, op, rank, 0, 1)
    script.emit(f"transform.structured.generalize {tiled} : ({ANY}) -> {ANY}")
    script.emit(
        f"transform.apply_patterns to {loop} "
        f"{{ transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices }} : {ANY}"
    )
    return match_inside(script, loop, "linalg.generic", stem="plain"), loop


def simplify(script: Script, scope: str) -> None:
    """Make slices of slices under `scope` slices of the original; handles to ops that stay remain valid."""
    script.emit(f"transform.apply_patterns to {scope} {{")
    script.emit("  transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice")
    script.emit("  transform.apply_patterns.canonicalization")
    script.emit(f"}} : {ANY}")


def fuse_producer(script: Script, producer: str, loop: str) -> str:
    """Compute a producer tile by tile inside the loop that reads it; consumes `producer`.

    P = f(B);  for k: ... P[k]   ->   for k: p = f(B[k]); ... p
    """
    return fuse_into(script, producer, loop)[0]


def fuse_into(script: Script, producer: str, loop: str) -> tuple[str, str]:
    """Like `fuse_producer`; gives the handle of the loop too, which it consumes."""
    fused, new_loop = script.fresh("fused"), script.fresh("loop")
    script.emit(
        f"{fused}, {new_loop} = transform.structured.fuse_into_containing_op {producer} into {loop} "
        f": ({ANY}, {ANY}) -> ({ANY}, {ANY})"
    )
    return fused, new_loop


def producer(script: Script, op: str, operand: int) -> str:
    """The op that makes an operand."""
    found = script.fresh("producer")
    script.emit(f"{found} = transform.get_producer_of_operand {op}[{operand}] : ({ANY}) -> {ANY}")
    return found


def merge_equal(script: Script, scope: str) -> None:
    """Make ops and loops under `scope` that give the same one, so that it is computed, and fused, once."""
    script.emit(f"transform.apply_cse to {scope} : {ANY}")


def shrink_empties(script: Script, function: str) -> None:
    """Give each fused op a destination of its tile's size: a slice of an empty tensor is a smaller empty tensor."""
    script.emit(
        f"transform.apply_patterns to {function} {{ transform.apply_patterns.tensor.fold_tensor_empty }} : {ANY}"
    )


def generalize(script: Script, op: str) -> str:
    """Turn a named op into a linalg.generic; consumes `op`."""
    generic = script.fresh("generic")
    script.emit(f"{generic} = transform.structured.generalize {op} : ({ANY}) -> {ANY}")
    return generic


def drop_unit_dimensions(script: Script, loop: str, ops: int) -> list[str]:
    """Drop dimensions of size 1 from the linalg.generic ops in a loop; gives their handles, in program order.

    Args:
        script: Script that ops are appended to.
        loop: Handle of the loop.
        ops: Number of linalg.generic ops in the loop.
    """
    script.emit(f"transform.apply_patterns to {loop} {{")
    script.emit("  transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices")
    script.emit("  transform.apply_patterns.canonicalization")
    script.emit(f"}} : {ANY}")
    found = match_inside(script, loop, "linalg.generic", stem="plain")
    if ops == 1:
        return [found]
    parts = [script.fresh("plain") for _ in range(ops)]
    script.emit(f"{', '.join(parts)} = transform.split_handle {found} : ({ANY}) -> ({', '.join([ANY] * ops)})")
    return parts


def drop_unit_loops(script: Script, loop: str) -> str:
    """Drop loops of one step from all linalg.generic ops in a loop; gives one handle to all of them.

    Unlike `drop_unit_dimensions` it simplifies nothing else: an op that only moves elements stays one.
    """
    fold = "transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices"
    script.emit(f"transform.apply_patterns to {loop} {{ {fold} }} : {ANY}")
    return match_inside(script, loop, "linalg.generic", stem="plain")


def enclosing_function(script: Script, op: str) -> str:
    """The function an op is in; stays valid whatever happens inside."""
    function = script.fresh("function")
    script.emit(f"{function} = transform.get_parent_op {op} {{isolated_from_above}} : ({ANY}) -> {ANY}")
    return function


def vectorize(script: Script, op: str, *, gathers: bool = False) -> None:
    """Replace an op of static shape by vector operations of that shape, also one that `gathers`; consumes `op`.

    C[0:6, 0:16] += A[0:6, k] * B[k, 0:16]   ->   vector.contract : vector<6x16xf32>
    """
    script.emit(f"transform.structured.vectorize {op}{' {vectorize_nd_extract}' if gathers else ''} : {ANY}")


def unroll_loop(script: Script, loop: str, factor: int) -> None:
    """Repeat a loop's body `factor` times a step; consumes `loop`.

    for k: body(k)   ->   for k step 2: body(k); body(k + 1)
    """
    script.emit(f"transform.loop.unroll {loop} {{factor = {factor}}} : {ANY}")
