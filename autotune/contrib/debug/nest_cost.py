"""What a loop nest costs by a simple model of a core: what it touches, loads and stores, and what bounds it.

The model knows two multiply-adds, two loads and one store a cycle, multiply-adds that wait four cycles for the last one
to the same accumulator, and the bytes a cycle that each memory feeds the next with. Cores differ; the order of what
binds hardly does, and a share of the roof is meant to be read so: what to look at first.
"""

from dataclasses import dataclass

from autotune.core.host.machine import Machine

FMAS, LOADS, STORES, OTHER = 2.0, 2.0, 1.0, 2.0  # a cycle
LATENCY = 4  # cycles from a multiply-add to the next one of the same sum
FEEDS = (("L2", 32.0), ("L3", 10.0), ("memory", 5.0))  # bytes a cycle from beyond L1, L2 and L3


@dataclass(frozen=True)
class LoopCost:
    """A loop of a nest, or an op that computes.

    Attributes:
        op: Name of the op.
        kind: Kind of the op, ``scf.for``.
        depth: Loops around it in the nest.
        trips: Iterations of one run; those of all its dimensions, of an op.
        runs: How often the nest runs it.
        bytes: What one run touches, of all arrays together.
    """

    op: str
    kind: str
    depth: int
    trips: int
    runs: int
    bytes: int


@dataclass(frozen=True)
class NestCost:
    """A loop nest, or an op outside of any, as it stands after a step.

    Attributes:
        op: Name of the outermost op.
        loops: The outermost op and what is in it, in order.
        fmas: Multiply-adds, of vectors where they are vectors.
        other: Other arithmetic, likewise.
        loads: Loads of a register.
        stores: Stores of a register.
        flops: Operations on elements; a multiply-add is two.
        chains: Sums that go on side by side where most multiply-adds are; 0 where nothing is summed.
        exact: Whether all trip counts and sizes are known; else it is about that much.
        around: Bytes of all arguments of the payload, which a cache keeps from call to call that holds them; 0 where
            they are not known, and all is read anew.
    """

    op: str
    loops: tuple[LoopCost, ...]
    fmas: float
    other: float
    loads: float
    stores: float
    flops: float
    chains: int
    exact: bool = True
    around: int = 0

    @property
    def loads_each(self) -> float:
        """Loads a multiply-add; of other arithmetic where there is no multiply-add."""
        return self.loads / max(self.fmas or self.other, 1.0)

    @property
    def stores_each(self) -> float:
        """Stores a multiply-add; of other arithmetic where there is no multiply-add."""
        return self.stores / max(self.fmas or self.other, 1.0)

    def cycles(self, machine: Machine) -> dict[str, float]:
        """Cycles that each part of a core would take alone."""
        sums = self.fmas * LATENCY / self.chains if self.chains else 0.0
        found = {
            "multiply-adds": self.fmas / FMAS,
            "other arithmetic": self.other / OTHER,
            "loads": self.loads / LOADS,
            "stores": self.stores / STORES,
            "waiting for sums": sums,
        }
        sizes = (machine.l1_bytes, machine.l2_bytes, machine.l3_bytes)
        return found | {
            f"reading from {name}": self.fetched(size) / rate for size, (name, rate) in zip(sizes, FEEDS, strict=True)
        }

    def fetched(self, size: int) -> float:
        """Bytes that a cache of a size has to bring in: what outermost loops touch that fit, for every run."""
        if self.around and max(self.around, self.loops[0].bytes) <= size:
            return 0.0
        total, inside = 0.0, -1
        for loop in self.loops:
            if 0 <= inside < loop.depth:
                continue
            inside = -1
            if loop.bytes <= size or not any(each.depth > loop.depth for each in self.inner(loop)):
                total += loop.bytes * loop.runs
                inside = loop.depth
        return total

    def inner(self, loop: LoopCost) -> tuple[LoopCost, ...]:
        """What is inside a loop."""
        found: list[LoopCost] = []
        for each in self.loops[self.loops.index(loop) + 1 :]:
            if each.depth <= loop.depth:
                break
            found.append(each)
        return tuple(found)

    def bound(self, machine: Machine) -> str:
        """What binds it."""
        cycles = self.cycles(machine)
        return max(cycles, key=lambda name: cycles[name])

    def share(self, machine: Machine) -> float:
        """Share of the peak rate of multiply-adds that the model expects."""
        longest = max(self.cycles(machine).values())
        return self.flops / (2 * FMAS * machine.lanes * longest) if longest else 0.0


def cache_of(size: int, machine: Machine) -> str:
    """The smallest cache that so many bytes fit in."""
    sizes = (("L1", machine.l1_bytes), ("L2", machine.l2_bytes), ("L3", machine.l3_bytes))
    return next((name for name, most in sizes if size <= most), "memory")
