"""Targets: machines that programs are compiled for, and that need not be this one; `target_file` reads them."""

from dataclasses import dataclass

from autotune.core.host.machine import Machine

# architecture -> vector extensions, widest first, and what they are to LLVM; no processor has AVX2 without FMA
EXTENSIONS = {
    "x86_64": {"avx512f": "+avx512f,+fma", "avx2": "+avx2,+fma", "avx": "+avx", "sse2": "+sse2"},
    "aarch64": {"sve": "+sve", "asimd": "+neon", "neon": "+neon"},
}
TILES = "+amx-tile,+amx-bf16,+amx-int8,+avx512bf16"  # to LLVM, of machines whose tiles are AMX's
UNFUSED = ("avx", "sse2")  # extensions without a fused multiply-add


@dataclass(frozen=True)
class Target:
    """A machine to compile for.

    Attributes:
        name: Name that people and files know it by.
        triple: Architecture, system and ABI, such as ``aarch64-linux-gnu``.
        cpu: Processor as LLVM names it.
        features: Features beyond that processor's, as LLVM's ``-mattr`` takes them; empty for none.
        machine: What schedules may know of it.
        source: Origin of its figures, a sentence.
        emulated_as: Processor as QEMU names it, which has no more than this one; empty where QEMU has none such.
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
        """The first part of the triple."""
        return self.triple.partition("-")[0]

    @property
    def attributes(self) -> str:
        """Features for LLVM: the vector extension's, the matrix unit's, and those of the file, which come last."""
        tiles = TILES if self.has_tiles else ""
        return ",".join(filter(None, (EXTENSIONS[self.architecture][self.machine.isa], tiles, self.features)))

    @property
    def has_tiles(self) -> bool:
        """Whether it has a matrix unit; elsewhere products by tiles are emulated."""
        return self.machine.tiles == "amx"

    @property
    def is_fused(self) -> bool:
        """Whether it multiplies and adds in one instruction."""
        return self.machine.isa not in UNFUSED

    @property
    def vscale(self) -> int:
        """Vectors of 128 bits in one of SVE's; 0 where vectors are not of a scalable kind."""
        return self.machine.vector_bits // 128 if self.machine.isa == "sve" else 0

    @property
    def summary(self) -> str:
        """One line for people."""
        m = self.machine
        caches = f"L1 {m.l1_bytes >> 10} KiB, L2 {m.l2_bytes >> 10} KiB, L3 {m.l3_bytes >> 10} KiB"
        return f"{self.triple},cpu={self.cpu}: {m.isa}, {m.vector_bits} bits, {m.vector_registers} registers; {caches}"
