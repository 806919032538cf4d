"""`Target`: a machine that programs are compiled for, which may differ from the host; `target_file` reads them."""

from dataclasses import dataclass

from autotune.core.host.machine import Machine

# architecture -> vector extensions, widest first, with LLVM's features; no processor has AVX2 without FMA
EXTENSIONS = {
    "x86_64": {"avx512f": "+avx512f,+fma", "avx2": "+avx2,+fma", "avx": "+avx", "sse2": "+sse2"},
    "aarch64": {"sve": "+sve", "asimd": "+neon", "neon": "+neon"},
}
TILES = "+amx-tile,+amx-bf16,+amx-int8,+avx512bf16"  # LLVM's features of machines with AMX
UNFUSED = ("avx", "sse2")  # extensions without a fused multiply-add


@dataclass(frozen=True)
class Target:
    """A machine to compile for.

    Attributes:
        name: Name of the target, for users and files.
        triple: Target triple, such as ``aarch64-linux-gnu``.
        cpu: LLVM's name of the processor.
        features: Features beyond that processor's, as LLVM's ``-mattr`` takes them; empty for none.
        machine: Description of the machine for schedules.
        source: Origin of its figures, a sentence.
        emulated_as: QEMU's name of a processor with a subset of its features; empty where QEMU has none.
    """

    name: str
    triple: str
    cpu: str
    features: str
    machine: Machine
    source: str
    emulated_as: str = ""

    @property
    def architecture(self) -> str:
        """Architecture, the first part of the triple."""
        return self.triple.partition("-")[0]

    @property
    def attributes(self) -> str:
        """Features for LLVM: the vector extension's, the matrix unit's, and those of the file, which come last."""
        tiles = TILES if self.has_tiles else ""
        return ",".join(filter(None, (EXTENSIONS[self.architecture][self.machine.isa], tiles, self.features)))

    @property
    def has_tiles(self) -> bool:
        """Whether it has a matrix unit; without one, products by tiles are emulated."""
        return self.machine.tiles == "amx"

    @property
    def is_fused(self) -> bool:
        """Whether it has fused multiply-add instructions."""
        return self.machine.isa not in UNFUSED

    @property
    def vscale(self) -> int:
        """Value of ``vscale``, the number of 128-bit parts of an SVE vector; 0 for fixed-width vectors."""
        return self.machine.vector_bits // 128 if self.machine.isa == "sve" else 0

    @property
    def summary(self) -> str:
        """One line for people."""
        m = self.machine
        caches = f"L1 {m.l1_bytes >> 10} KiB, L2 {m.l2_bytes >> 10} KiB, L3 {m.l3_bytes >> 10} KiB"
        return f"{self.triple},cpu={self.cpu}: {m.isa}, {m.vector_bits} bits, {m.vector_registers} registers; {caches}"
