"""Cost of a loop nest by a simple model of a core: footprints, loads and stores, and the bottleneck.

A cycle has two multiply-adds, two loads and one store. A multiply-add waits four cycles for the previous one to the
same accumulator. Each level of the memory hierarchy has a bandwidth in bytes per cycle. Cores differ, but the order of
the bottlenecks hardly does: the share of the peak shows where to look first, and is no prediction.
"""

from dataclasses import dataclass

from autotune.core.host.machine import Machine

FMAS, LOADS, STORES, OTHER = 2.0, 2.0, 1.0, 2.0  # per cycle
LATENCY = 4  # of a multiply-add, in cycles
FEEDS = (("L2", 32.0), ("L3", 10.0), ("memory", 5.0))  # bytes per cycle into L1, L2 and L3


@dataclass(frozen=True)
class LoopCost:
    """A loop of a nest, or a structured operation.

    Attributes:
        op: Name of the operation.
        kind: Kind of the operation, such as ``scf.for``.
        depth: Number of enclosing loops in the nest.
        trips: Trip count; of a structured operation, the size of its iteration space.
        runs: Number of executions in one run of the nest.
        bytes: Footprint of one execution over all arrays, in bytes.
    """

    op: str
    kind: str
    depth: int
    trips: int
    runs: int
    bytes: int


@dataclass(frozen=True)
class NestCost:
    """The cost of a loop nest, or of a structured operation outside of loops.

    Attributes:
        op: Name of the outermost operation.
        loops: The outermost operation and its nested loops, in order.
        fmas: Multiply-add instructions, scalar or vector.
        other: Other arithmetic instructions, scalar or vector.
        loads: Loads of a register.
        stores: Stores of a register.
        flops: Operations on elements; a multiply-add counts as two.
        chains: Independent accumulators in the block with most multiply-adds; 0 if nothing is accumulated.
        exact: Whether all trip counts and sizes are known; otherwise the counts are estimates.
        around: Bytes of all arguments of the payload, which stay in a cache that holds them from call to call; 0 if
            unknown, with cold caches.
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
        """Loads per multiply-add, or per other arithmetic instruction if there is no multiply-add."""
        return self.loads / max(self.fmas or self.other, 1.0)

    @property
    def stores_each(self) -> float:
        """Stores per multiply-add, or per other arithmetic instruction if there is no multiply-add."""
        return self.stores / max(self.fmas or self.other, 1.0)

    def cycles(self, machine: Machine) -> dict[str, float]:
        """Return the cycles of each resource of a core on its own."""
        accumulation = self.fmas * LATENCY / self.chains if self.chains else 0.0
        compute = {
            "multiply-adds": self.fmas / FMAS,
            "other arithmetic": self.other / OTHER,
            "loads": self.loads / LOADS,
            "stores": self.stores / STORES,
            "waiting for sums": accumulation,
        }
        sizes = (machine.l1_bytes, machine.l2_bytes, machine.l3_bytes)
        return compute | {
            f"reading from {name}": self.fetched(size) / rate for size, (name, rate) in zip(sizes, FEEDS, strict=True)
        }

    def fetched(self, size: int) -> float:
        """Return the bytes that a cache of a size loads: footprint times executions of the outermost loops that fit."""
        if self.around and max(self.around, self.loops[0].bytes) <= size:
            return 0.0
        total, counted_depth = 0.0, -1
        for loop in self.loops:
            if 0 <= counted_depth < loop.depth:
                continue
            counted_depth = -1
            if loop.bytes <= size or not any(each.depth > loop.depth for each in self.inner(loop)):
                total += loop.bytes * loop.runs
                counted_depth = loop.depth
        return total

    def inner(self, loop: LoopCost) -> tuple[LoopCost, ...]:
        """Return the loops nested in a loop."""
        nested: list[LoopCost] = []
        for each in self.loops[self.loops.index(loop) + 1 :]:
            if each.depth <= loop.depth:
                break
            nested.append(each)
        return tuple(nested)

    def bound(self, machine: Machine) -> str:
        """Return the bottleneck."""
        cycles = self.cycles(machine)
        return max(cycles, key=lambda name: cycles[name])

    def share(self, machine: Machine) -> float:
        """Return the estimated share of the peak multiply-add throughput."""
        longest = max(self.cycles(machine).values())
        return self.flops / (2 * FMAS * machine.lanes * longest) if longest else 0.0


def cache_of(size: int, machine: Machine) -> str:
    """Return the name of the smallest cache that holds `size` bytes."""
    sizes = (("L1", machine.l1_bytes), ("L2", machine.l2_bytes), ("L3", machine.l3_bytes))
    return next((name for name, most in sizes if size <= most), "memory")
