"""Transform scripts for GPUs: tile and fuse on tensors, distribute and vectorize on buffers, end in one `gpu.launch`.

Bufferization comes early, so that the handles of loops stay valid to the end, where the loops are unrolled.
"""

from autotune.core.scripts.marks import TAG
from schedules.moves import ANY, Script, annotate, shrink_empties

MARK = "autotune.gpu_member"  # attribute: index of a fused operation in its group, to match it after bufferization
WORKGROUP = 3  # memory space of workgroup memory, for Vulkan and NVIDIA
VECTORS = (4, 3, 2, 1)  # vector lengths that SPIR-V supports

SCALAR_FORM = f"""\
transform.apply_patterns to %f {{
  transform.apply_patterns.canonicalization
  transform.apply_patterns.memref.fold_memref_alias_ops
  transform.apply_patterns.vector.cast_away_vector_leading_one_dim
}} : {ANY}
transform.apply_cse to %f : {ANY}
%fors = transform.structured.match interface{{LoopLikeInterface}} in %f : ({ANY}) -> {ANY}
transform.apply_licm to %fors : {ANY}
// C stays in registers while k goes on.
%g = transform.structured.hoist_redundant_vector_transfers %f {{ verify_non_zero_trip }} : ({ANY}) -> {ANY}
// Stages: all of these patterns together come to no end.
transform.apply_patterns to %g {{
  transform.apply_patterns.vector.lower_contraction lowering_strategy = "outerproduct"
  transform.apply_patterns.vector.lower_transfer max_transfer_rank = 1
}} : {ANY}
transform.apply_patterns to %g {{
  transform.apply_patterns.vector.lower_outerproduct
  transform.apply_patterns.vector.lower_transpose
  transform.apply_patterns.canonicalization
}} : {ANY}
transform.apply_patterns to %g {{
  transform.apply_patterns.vector.transfer_to_scf max_transfer_rank = 1 full_unroll = true
  transform.apply_patterns.canonicalization
}} : {ANY}
transform.apply_patterns to %g {{
  transform.apply_patterns.vector.lower_transfer max_transfer_rank = 1
  transform.apply_patterns.canonicalization
}} : {ANY}
transform.apply_cse to %g : {ANY}"""


class GpuScript(Script):
    """A builder of transform scripts that end in a kernel; `%m` is the module, and `%b` the bufferized module.

    Attributes:
        unrolled: Handles of loops to unroll at the end, with their trip counts, inner ones first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unrolled: list[tuple[str, int]] = []

    @property
    def text(self) -> str:
        """Text of the script's module."""
        body = "\n".join(f"    {line}" for each in self.lines for line in each.splitlines())
        return (
            "module attributes {transform.with_named_sequence} {\n"
            f"  transform.named_sequence @__transform_main(%m: {ANY} {{transform.consumed}}) {{\n"
            f"{body}\n    transform.yield\n  }}\n}}\n"
        )

    def result(self, stem: str, line: str, operands: int = 1) -> str:
        """Emit an operation from handles to a handle, and return that handle."""
        handle = self.fresh(stem)
        self.emit(f"{handle} = {line} : ({', '.join([ANY] * operands)}) -> {ANY}")
        return handle

    def match(self, tag: str) -> str:
        """Match the operation of a task by its tag."""
        return self.result("op", f'transform.structured.match attributes{{{TAG} = "{tag}"}} in %m')

    def ops(self, name: str) -> str:
        """Match all operations of a name, after bufferization."""
        return self.result("ops", f'transform.structured.match ops{{["{name}"]}} in %b')

    def split(self, handle: str, count: int) -> list[str]:
        """Split a handle into one for each of `count` operations."""
        parts = [self.fresh("part") for _ in range(count)]
        self.emit(f"{', '.join(parts)} = transform.split_handle {handle} : ({ANY}) -> ({', '.join([ANY] * count)})")
        return parts

    def tile_forall(self, op: str, sizes: list[int], kind: str) -> tuple[str, str]:
        """Tile the outer loops for blocks or threads; return the tile and the loop. Consumes `op`."""
        axes = ("z", "y", "x")[-len(sizes) :]
        mapping = ", ".join(f"#gpu.{kind}<{axis}>" for axis in axes)
        tile, loop = self.fresh("tile"), self.fresh("all")
        self.emit(
            f"{tile}, {loop} = transform.structured.tile_using_forall {op} tile_sizes {sizes} (mapping = [{mapping}]) "
            f": ({ANY}) -> ({ANY}, {ANY})"
        )
        return tile, loop

    def tile_blocks(self, op: str, sizes: list[int]) -> tuple[str, str]:
        """Tile for blocks; return the tile and the loop over blocks. Consumes `op`."""
        return self.tile_forall(op, sizes, "block")

    def tile_threads(self, op: str, sizes: list[int]) -> str:
        """Tile for the threads of a block; return the tile. Consumes `op`."""
        return self.tile_forall(op, sizes, "thread")[0]

    def tile_for(self, op: str, sizes: list[int]) -> str:
        """Tile by sequential loops; return the tile. Consumes `op`."""
        return self.tile_loops(op, sizes)[0]

    def tile_loops(self, op: str, sizes: list[int]) -> tuple[str, list[str]]:
        """Tile by sequential loops, 0 for none; return the tile and the loops, outermost first. Consumes `op`."""
        tile, loops = self.fresh("tile"), [self.fresh("loop") for size in sizes if size]
        self.emit(
            f"{', '.join((tile, *loops))} = transform.structured.tile_using_for {op} tile_sizes {sizes} "
            f": ({ANY}) -> ({', '.join([ANY] * (1 + len(loops)))})"
        )
        return tile, loops

    def fuse(self, producer: str, loop: str) -> None:
        """Fuse a producer into a loop over blocks."""
        self.emit(
            f"{self.fresh('fused')}, {self.fresh('all')} = transform.structured.fuse_into_containing_op {producer} "
            f"into {loop} : ({ANY}, {ANY}) -> ({ANY}, {ANY})"
        )

    def stage(self, op: str, dtype: str, operands: int, keep: int) -> None:
        """Copy all but one operand of a tile to workgroup memory.

        Args:
            op: Handle of the tile, which is consumed.
            dtype: Element type of all operands.
            operands: Number of operands.
            keep: Index of the operand that is not copied.
        """
        zeros = ", ".join([f"0.0 : {dtype}"] * operands)
        flags = ", ".join("0" if number == keep else "1" for number in range(operands))
        padded = [self.fresh("padded") for _ in range(3)]
        self.emit(
            f"{', '.join(padded)} = transform.structured.pad {op} {{padding_values = [{zeros}], "
            f'padding_dimensions = [0, 1, 2], nofold_flags = [{flags}], copy_back_op = "none"}} '
            f": ({ANY}) -> ({ANY}, {ANY}, {ANY})"
        )
        pads = self.result("pads", 'transform.structured.match ops{["tensor.pad"]} in %m')
        self.emit(
            f"{self.fresh('buffer')}, {self.fresh('alloc')} = transform.structured.bufferize_to_allocation {pads} "
            f'{{memory_space = {WORKGROUP} : i64, memcpy_op = "linalg.copy", alloc_op = "memref.alloc"}} : {ANY}'
        )

    def marked(self, attribute: str, number: int) -> str:
        """Match the operation that was annotated with a number, after bufferization."""
        return self.result("op", f"transform.structured.match attributes{{{attribute} = {number} : i64}} in %b")

    def keep_in_workgroup(self) -> None:
        """Allocate the intermediates of a block in workgroup memory."""
        shrink_empties(self, "%m")
        self.tidy("%m")
        empties, allocs, same = (self.fresh(stem) for stem in ("empties", "allocs", "allocs"))
        empty, alloc = ('!transform.op<"tensor.empty">', '!transform.op<"bufferization.alloc_tensor">')
        self.emit(f'{empties} = transform.structured.match ops{{["tensor.empty"]}} in %m : ({ANY}) -> {empty}')
        move = "transform.bufferization.empty_tensor_to_alloc_tensor"
        self.emit(f"{allocs} = {move} {empties} : ({empty}) -> {alloc}")
        self.emit(f"{same} = transform.cast {allocs} : {alloc} to {ANY}")
        annotate(self, same, "memory_space", WORKGROUP)

    def share(self, op: str, tile: list[int]) -> None:
        """Distribute an operation over the linearized threads of a block; surplus threads are idle.

        Args:
            op: Handle of the operation, which is consumed.
            tile: Sizes of a thread's tile; 0 for a dimension that is not distributed.
        """
        count = sum(size > 0 for size in tile)
        mapping = ", ".join(f"#gpu.thread<linear_dim_{number}>" for number in reversed(range(count)))
        self.emit(
            f"{self.fresh('tile')}, {self.fresh('all')} = transform.structured.tile_using_forall {op} "
            f"tile_sizes {tile} (mapping = [{mapping}]) : ({ANY}) -> ({ANY}, {ANY})"
        )

    def bufferize(self, *, in_place: bool = True) -> None:
        """Bufferize the module, to `%b`.

        Args:
            in_place: Whether to eliminate empty tensors, so that operations write directly to their destination.
        """
        if in_place:
            self.emit(f"transform.bufferization.eliminate_empty_tensors %m : {ANY}")
        self.tidy("%m")
        self.emit(
            "%b = transform.bufferization.one_shot_bufferize layout{IdentityLayoutMap} %m "
            f"{{bufferize_function_boundaries = true}} : ({ANY}) -> {ANY}"
        )
        self.tidy("%b")

    def tidy(self, handle: str) -> None:
        """Canonicalize and eliminate common subexpressions."""
        self.emit(f"transform.apply_patterns to {handle} {{ transform.apply_patterns.canonicalization }} : {ANY}")
        self.emit(f"transform.apply_cse to {handle} : {ANY}")

    def spread(self, op: str, tile: list[int], width: int = 0) -> None:
        """Tile an operation for threads, and vectorize each tile along its rows.

        Args:
            op: Handle of the operation, which is consumed.
            tile: Sizes of a thread's tile.
            width: Length of a vector; by default the longest that divides a row.
        """
        tile_handle = self.tile_threads(op, tile)
        self.vectorize(tile_handle, tile, [*[1] * (len(tile) - 1), width or widest_vector(tile[-1])])

    def vectorize(self, op: str, sizes: list[int], steps: list[int], *, named: bool = False) -> None:
        """Vectorize an operation, in loops that are unrolled at the end.

        Args:
            op: Handle of the operation, which is consumed.
            sizes: Trip counts of its loops.
            steps: Vector sizes, which divide the trip counts.
            named: Whether to create named contractions.
        """
        trips = [size // step for size, step in zip(sizes, steps, strict=True)]
        if any(trip > 1 for trip in trips):
            tiles = [step if trip > 1 else 0 for step, trip in zip(steps, trips, strict=True)]
            op, loops = self.tile_loops(op, tiles)
            self.unrolled += reversed(list(zip(loops, (trip for trip in trips if trip > 1), strict=True)))
        attributes = " {create_named_contraction}" if named else ""
        self.emit(f"transform.structured.vectorize {op}{attributes} : {ANY}")

    def launch(self, threads: list[int]) -> None:
        """Unroll the vector loops and map loops to blocks and threads, with a barrier after each distributed loop.

        Args:
            threads: Threads of a block along x, y and z.
        """
        for loop, trips in self.unrolled:
            self.emit(f"transform.loop.unroll {loop} {{factor = {trips}}} : {ANY}")
        function = self.result("function", 'transform.structured.match ops{["func.func"]} in %b')
        launch = self.result("launch", f"transform.gpu.map_forall_to_blocks {function} generate_gpu_launch")
        self.result(
            "launch",
            f"transform.gpu.map_nested_forall_to_threads {launch} block_dims = {threads} "
            "sync_after_distribute = true warp_size = 1",
        )
        self.emit(f'%f = transform.structured.match ops{{["func.func"]}} in %b : ({ANY}) -> {ANY}')
        self.emit(SCALAR_FORM)


def widest_vector(size: int, most: int = VECTORS[0]) -> int:
    """Return the longest vector length that divides a size.

    Example:
        >>> widest_vector(12), widest_vector(9), widest_vector(10), widest_vector(7)
        (4, 3, 2, 1)
    """
    return next(length for length in VECTORS if length <= most and size % length == 0)
