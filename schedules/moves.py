"""Builders of transform scripts: each function appends one step and returns the handle of its result.

A handle is the name of an SSA value of type ``!transform.any_op``. A function that consumes its handle invalidates
it, as in the transform dialect itself. Drawings show the payload before and after.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autotune.core.scripts.marks import OPTIONAL
from autotune.core.space import Config, Knob

ANY = "!transform.any_op"
PARAM = "!transform.param<i64>"


@dataclass
class Script:
    """A transform script under construction: its lines, and a generator of fresh handle names.

    Attributes:
        knobs: Knobs of the space; those that are tile sizes become ``transform.tune.knob`` ops.
        config: Value of every knob.
        lines: Lines written so far.
        names: Number of handles that use each stem.
        params: Handles of the knobs written so far.
    """

    knobs: Sequence[Knob] = ()
    config: Config = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)

    def fresh(self, stem: str) -> str:
        """Return an unused handle name, such as ``%tiled_3``."""
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
        """Return the handle of a knob whose value is `size`, emitting the knob once; `None` if its value differs."""
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
        """Text of the script so far."""
        return "\n".join(self.lines) + "\n"


def tile_loop(script: Script, op: str, rank: int, dim: int, size: int, *, knob: str = "") -> tuple[str, str]:
    """Tile one loop of an op by `size`; consumes `op`.

        C[i] = ...  for i in 0..n   ->   for i0 in 0..n step size:  C[i0 : i0 + size] = ...

    Args:
        script: Script that ops are appended to.
        op: Handle of a structured op.
        rank: Number of its loops.
        dim: Position of the loop to tile among the op's loops.
        size: Tile size in elements; must divide the trip count, or the tile has a dynamic shape.
        knob: Name of the knob whose value is the tile size, unless it was rounded.

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
    """Match all ops of these names under `scope`; it is an error if there are none, unless `optional`."""
    matches, quoted = script.fresh(stem), ", ".join(f'"{name}"' for name in names)
    mark = f" {{{OPTIONAL}}}" if optional else ""
    script.emit(f"{matches} = transform.structured.match ops{{[{quoted}]}} in {scope}{mark} : ({ANY}) -> {ANY}")
    return matches


def annotate(script: Script, handle: str, name: str, value: int | None = None) -> None:
    """Set a unit or integer attribute on ops or loops; it survives later transforms and bufferization."""
    if value is None:
        script.emit(f'transform.annotate {handle} "{name}" : {ANY}')
        return
    number = script.fresh("number")
    script.emit(f"{number} = transform.param.constant {value} : i64 -> !transform.param<i64>")
    script.emit(f'transform.annotate {handle} "{name}" = {number} : {ANY}, !transform.param<i64>')


def tile_reduction(script: Script, op: str, rank: int, size: int) -> tuple[tuple[str, str, str], str]:
    """Tile the last loop, a reduction, into `size` partial sums that are combined after it; consumes `op`.

    s = sum(x[0:n])   ->   p[0:size] = 0;  for i in 0..n step size: p[0:size] += x[i : i + size];  s = sum(p)

    Returns:
        Handles of the fill of the partial sums, of the op inside the loop, and of the op after it; and of the loop.
    """
    fill, partial, combined, loop = (script.fresh(stem) for stem in ("strands", "partial", "combined", "loop"))
    sizes = ", ".join("0" if d < rank - 1 else str(size) for d in range(rank))
    script.emit(
        f"{fill}, {partial}, {combined}, {loop} = transform.structured.tile_reduction_using_for {op} "
        f"by tile_sizes = [{sizes}] : ({ANY}) -> ({ANY}, {ANY}, {ANY}, {ANY})"
    )
    return (fill, partial, combined), loop


def split_at(script: Script, op: str, dim: int, point: int) -> tuple[str, str]:
    """Split an op in two along a loop; consumes `op`.

    C[0:n] = ...   ->   C[0:point] = ... ;  C[point:n] = ...
    """
    both, first, second = script.fresh("parts"), script.fresh("main"), script.fresh("rest")
    script.emit(f"{both} = transform.structured.split {op} after {point} {{dimension = {dim}}} : {ANY}")
    script.emit(f"{first}, {second} = transform.split_handle {both} : ({ANY}) -> ({ANY}, {ANY})")
    return first, second


def split_into(script: Script, op: str, dim: int, sizes: Sequence[int]) -> Iterator[str]:
    """Split an op along a loop into parts of these sizes, which cover it; yield their handles and consume `op`.

    C[0:n] = ...   ->   C[0:s0] = ... ;  C[s0 : s0 + s1] = ... ;  ...

    Each part is split off when the iterator yields it, so that the ops emitted for one part precede the next split.
    """
    for size in sizes[:-1]:
        part, op = split_at(script, op, dim, size)
        yield part
    yield op


def drop_unit_batch(script: Script, op: str, rank: int) -> tuple[str, str]:
    """Tile the batch dimension by 1 and drop it, leaving a plain matmul; consumes `op`.

    C[b, m, n] += ...   ->   for b:  C_b[m, n] += ...

    Returns:
        Handles of the matmul and of the loop.
    """
    tiled, loop = tile_loop(script, op, rank, 0, 1)
    script.emit(f"transform.structured.generalize {tiled} : ({ANY}) -> {ANY}")
    script.emit(
        f"transform.apply_patterns to {loop} "
        f"{{ transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices }} : {ANY}"
    )
    return match_inside(script, loop, "linalg.generic", stem="plain"), loop


def simplify(script: Script, scope: str) -> None:
    """Fold slices of slices under `scope` and canonicalize; handles to surviving ops stay valid."""
    script.emit(f"transform.apply_patterns to {scope} {{")
    script.emit("  transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice")
    script.emit("  transform.apply_patterns.canonicalization")
    script.emit(f"}} : {ANY}")


def fuse_producer(script: Script, producer: str, loop: str) -> str:
    """Fuse a producer into the loop that reads it, tile by tile; consumes `producer`.

    P = f(B);  for k: ... P[k]   ->   for k: p = f(B[k]); ... p
    """
    return fuse_into(script, producer, loop)[0]


def fuse_into(script: Script, producer: str, loop: str) -> tuple[str, str]:
    """Fuse a producer as `fuse_producer` does, and return the new loop's handle too; consumes both handles."""
    fused, new_loop = script.fresh("fused"), script.fresh("loop")
    script.emit(
        f"{fused}, {new_loop} = transform.structured.fuse_into_containing_op {producer} into {loop} "
        f": ({ANY}, {ANY}) -> ({ANY}, {ANY})"
    )
    return fused, new_loop


def producer(script: Script, op: str, operand: int) -> str:
    """Return the handle of the op that defines an operand."""
    handle = script.fresh("producer")
    script.emit(f"{handle} = transform.get_producer_of_operand {op}[{operand}] : ({ANY}) -> {ANY}")
    return handle


def merge_equal(script: Script, scope: str) -> None:
    """Run CSE under `scope`, so that equal ops and loops are computed, and fused, once."""
    script.emit(f"transform.apply_cse to {scope} : {ANY}")


def shrink_empties(script: Script, function: str) -> None:
    """Fold slices of ``tensor.empty`` so that each fused op has a destination of its tile's size."""
    script.emit(
        f"transform.apply_patterns to {function} {{ transform.apply_patterns.tensor.fold_tensor_empty }} : {ANY}"
    )


def generalize(script: Script, op: str) -> str:
    """Generalize a named op to linalg.generic; consumes `op`."""
    generic = script.fresh("generic")
    script.emit(f"{generic} = transform.structured.generalize {op} : ({ANY}) -> {ANY}")
    return generic


def drop_unit_dimensions(script: Script, loop: str, ops: int) -> list[str]:
    """Drop unit dimensions from the linalg.generic ops in a loop; return their handles in program order.

    Args:
        script: Script that ops are appended to.
        loop: Handle of the loop.
        ops: Number of linalg.generic ops in the loop.
    """
    script.emit(f"transform.apply_patterns to {loop} {{")
    script.emit("  transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices")
    script.emit("  transform.apply_patterns.canonicalization")
    script.emit(f"}} : {ANY}")
    matches = match_inside(script, loop, "linalg.generic", stem="plain")
    if ops == 1:
        return [matches]
    parts = [script.fresh("plain") for _ in range(ops)]
    script.emit(f"{', '.join(parts)} = transform.split_handle {matches} : ({ANY}) -> ({', '.join([ANY] * ops)})")
    return parts


def drop_unit_loops(script: Script, loop: str) -> str:
    """Drop unit dimensions from all linalg.generic ops in a loop; return one handle to all of them.

    Unlike `drop_unit_dimensions` it does not canonicalize: an op that only moves data stays an op.
    """
    fold = "transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices"
    script.emit(f"transform.apply_patterns to {loop} {{ {fold} }} : {ANY}")
    return match_inside(script, loop, "linalg.generic", stem="plain")


def enclosing_function(script: Script, op: str) -> str:
    """Return the handle of the function that contains an op; it stays valid when the body is transformed."""
    function = script.fresh("function")
    script.emit(f"{function} = transform.get_parent_op {op} {{isolated_from_above}} : ({ANY}) -> {ANY}")
    return function


def vectorize(script: Script, op: str, *, gathers: bool = False) -> None:
    """Vectorize an op of static shape, including gathers if `gathers`; consumes `op`.

    C[0:6, 0:16] += A[0:6, k] * B[k, 0:16]   ->   vector.contract : vector<6x16xf32>
    """
    script.emit(f"transform.structured.vectorize {op}{' {vectorize_nd_extract}' if gathers else ''} : {ANY}")


def unroll_loop(script: Script, loop: str, factor: int) -> None:
    """Unroll a loop by `factor`; consumes `loop`.

    for k: body(k)   ->   for k step 2: body(k); body(k + 1)
    """
    script.emit(f"transform.loop.unroll {loop} {{factor = {factor}}} : {ANY}")
