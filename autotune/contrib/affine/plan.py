"""How a task becomes affine loops: what `family` chooses, and upstream's affine passes are given."""

from dataclasses import dataclass

from autotune.core.plugs.rewrites import NeededRewrite

LOOPS = NeededRewrite("affine", 1, why="loops by upstream's affine passes")
MARK, LAST = "autotune.affine", "last"  # on ops that become affine loops: how; the last of a task says so
FUSIONS = ("none", "producer", "sibling", "greedy", "maximal")  # how loops of several ops become one
MOST_DEPTH = 16  # loops one in another
MOST_STEP = 1 << 20
MOST_LANES = 256
MOST_JAMMED = 16


@dataclass(frozen=True)
class AffinePlan:
    """Options of upstream's affine passes for the ops of a task.

    Attributes:
        fuse: One of `FUSIONS`: how ``affine-loop-fusion`` makes loops of several ops one; ``maximal`` is greedy, and
            asks for no gain.
        tiles: Steps of ``affine-loop-tile`` by the depth of a loop; 0 leaves one whole.
        scalars: Values that memory would hand from one op to the next stay in registers: ``affine-scalrep``, and sums
            become what a loop carries.
        lanes: Elements of the vectors of ``affine-super-vectorize``; 0 leaves loops to LLVM.
        reductions: Loops that sum become vectors, too.
        jam: Steps that loops around those that become vectors are unrolled and jammed by; 1 leaves them.
    """

    fuse: str = "none"
    tiles: tuple[int, ...] = ()
    scalars: bool = True
    lanes: int = 0
    reductions: bool = False
    jam: int = 1

    @property
    def text(self) -> str:
        """The attribute that says so in a script."""
        tiles = ", ".join(map(str, self.tiles))
        entries = [f'fuse = "{self.fuse}"', f"tiles = [{tiles}]", f"scalars = {str(self.scalars).lower()}"]
        entries += [f"lanes = {self.lanes}", f"reductions = {str(self.reductions).lower()}", f"jam = {self.jam}"]
        return f"{{{', '.join(entries)}}}"

    @property
    def fault(self) -> str:
        """What no pass takes, a sentence's end; empty if there is nothing."""
        if self.fuse not in FUSIONS:
            return f"fuse must be one of {', '.join(FUSIONS)}, is {self.fuse!r}"
        if len(self.tiles) > MOST_DEPTH or not all(0 <= step <= MOST_STEP for step in self.tiles):
            return f"tiles must be at most {MOST_DEPTH} steps from 0 to {MOST_STEP}, are {list(self.tiles)}"
        if not 0 <= self.lanes <= MOST_LANES or self.lanes == 1:
            return f"lanes must be 0 or 2 to {MOST_LANES}, are {self.lanes}"
        return "" if 1 <= self.jam <= MOST_JAMMED else f"jam must be 1 to {MOST_JAMMED}, is {self.jam}"
