"""Options by which a task is lowered to affine loops: chosen by `family`, passed to upstream's affine passes."""

from dataclasses import dataclass

from autotune.core.plugs.rewrites import NeededRewrite

LOOPS = NeededRewrite("affine", 1, why="loops by upstream's affine passes")
MARK, LAST = "autotune.affine", "last"  # options on each op to be lowered; LAST is set on the last op of a task
FUSIONS = ("none", "producer", "sibling", "greedy", "maximal")  # modes of loop fusion
MOST_DEPTH = 16  # of nested loops
MOST_STEP = 1 << 20
MOST_LANES = 256
MOST_JAMMED = 16


@dataclass(frozen=True)
class AffinePlan:
    """Options of upstream's affine passes for the ops of a task.

    Attributes:
        fuse: Mode of ``affine-loop-fusion``, one of `FUSIONS`; ``maximal`` is greedy without a check of profitability.
        tiles: Tile sizes of ``affine-loop-tile`` by loop depth; 0 leaves a loop untiled.
        scalars: Whether values that ops pass through memory stay in registers, by ``affine-scalrep`` and loop-carried
            sums.
        lanes: Vector length of ``affine-super-vectorize``; 0 leaves vectorization to LLVM.
        reductions: Whether reduction loops are vectorized, too.
        jam: Factor of unroll-and-jam for the loops around vectorized ones; 1 for none.
    """

    fuse: str = "none"
    tiles: tuple[int, ...] = ()
    scalars: bool = True
    lanes: int = 0
    reductions: bool = False
    jam: int = 1

    @property
    def text(self) -> str:
        """Text of the options as an MLIR attribute."""
        tiles = ", ".join(map(str, self.tiles))
        entries = [f'fuse = "{self.fuse}"', f"tiles = [{tiles}]", f"scalars = {str(self.scalars).lower()}"]
        entries += [f"lanes = {self.lanes}", f"reductions = {str(self.reductions).lower()}", f"jam = {self.jam}"]
        return f"{{{', '.join(entries)}}}"

    @property
    def fault(self) -> str:
        """First invalid option, as the end of a sentence; empty if all are valid."""
        if self.fuse not in FUSIONS:
            return f"fuse must be one of {', '.join(FUSIONS)}, is {self.fuse!r}"
        if len(self.tiles) > MOST_DEPTH or not all(0 <= step <= MOST_STEP for step in self.tiles):
            return f"tiles must be at most {MOST_DEPTH} steps from 0 to {MOST_STEP}, are {list(self.tiles)}"
        if not 0 <= self.lanes <= MOST_LANES or self.lanes == 1:
            return f"lanes must be 0 or 2 to {MOST_LANES}, are {self.lanes}"
        return "" if 1 <= self.jam <= MOST_JAMMED else f"jam must be 1 to {MOST_JAMMED}, is {self.jam}"
