"""Levels of x86-64 that a library is compiled for, and the CPU features that each needs.

A library holds one variant per level and selects the best that the processor supports when it is opened. Features are
read by CPUID, as defined by the ABI's levels; Linux reports whether a process may use a matrix unit.

Source: x86-64 psABI, section 3.1.1 "Processor Architecture"; Intel 64 and IA-32 Architectures Software Developer's
Manual, volume 2, CPUID.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from autotune.compiler.lowering.emit import features_needed
from autotune.core.candidate import Script
from autotune.core.errors import MachineError
from autotune.core.host.machine import VECTOR_EXTENSIONS, Machine
from autotune.core.host.matrix_unit import Tiles
from autotune.core.scripts.assembly import multiplies_by_tiles
from autotune.core.target import Target

EAX, EBX, ECX, EDX = range(4)
EXTENDED = 0x80000001
# LLVM's name of a feature -> CPUID leaf, subleaf, register and bit
FEATURES = {
    "sse3": (1, 0, ECX, 0),
    "ssse3": (1, 0, ECX, 9),
    "cx16": (1, 0, ECX, 13),
    "sse4.1": (1, 0, ECX, 19),
    "sse4.2": (1, 0, ECX, 20),
    "popcnt": (1, 0, ECX, 23),
    "sahf": (EXTENDED, 0, ECX, 0),
    "fma": (1, 0, ECX, 12),
    "movbe": (1, 0, ECX, 22),
    "osxsave": (1, 0, ECX, 27),
    "avx": (1, 0, ECX, 28),
    "f16c": (1, 0, ECX, 29),
    "bmi": (7, 0, EBX, 3),
    "avx2": (7, 0, EBX, 5),
    "bmi2": (7, 0, EBX, 8),
    "lzcnt": (EXTENDED, 0, ECX, 5),
    "avx512f": (7, 0, EBX, 16),
    "avx512dq": (7, 0, EBX, 17),
    "avx512cd": (7, 0, EBX, 28),
    "avx512bw": (7, 0, EBX, 30),
    "avx512vl": (7, 0, EBX, 31),
    "avx512vbmi": (7, 0, ECX, 1),
    "avx512vnni": (7, 0, ECX, 11),
    "avx512bf16": (7, 1, EAX, 5),
    "amx-bf16": (7, 0, EDX, 22),
    "amx-tile": (7, 0, EDX, 24),
    "amx-int8": (7, 0, EDX, 25),
}
V2 = ("sse3", "ssse3", "cx16", "sse4.1", "sse4.2", "popcnt", "sahf")
V3 = (*V2, "fma", "movbe", "osxsave", "avx", "f16c", "bmi", "avx2", "bmi2", "lzcnt")
V4 = (*V3, "avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl")
TILES = (*V4, "avx512bf16", "amx-tile", "amx-bf16", "amx-int8")
SAVED_AVX, SAVED_AVX512, SAVED_TILES = 0x6, 0xE6, 0x600E6  # register state that the OS must save, as bits of XCR0


@dataclass(frozen=True)
class Level:
    """A level of the ABI, possibly with a matrix unit.

    Attributes:
        name: Name of the level.
        isa: Widest vector extension.
        features: CPU features that are required.
        saved: Register state that the OS must save, as bits of XCR0; 0 if every OS does.
        abi: Name of the ABI's level, which LLVM accepts as a CPU.
        tiles: Kind of matrix unit.
    """

    name: str
    isa: str
    features: tuple[str, ...]
    saved: int
    abi: str
    tiles: Tiles = ""

    def machine(self, like: Machine) -> Machine:
        """Return a machine with the vectors and matrix unit of this level, and all else as in another machine."""
        bits, registers = VECTOR_EXTENSIONS[self.isa]
        machine = replace(like, isa=self.isa, vector_bits=bits, vector_registers=registers)
        return replace(machine, microarchitecture=self.abi, tiles=self.tiles)

    def target(self, like: Machine, more: Iterable[str]) -> Target:
        """Return the LLVM target of the level with additional features."""
        features = ",".join(f"+{feature}" for feature in more)
        return Target(self.name, "x86_64-linux-gnu", self.abi, features, self.machine(like), "x86-64 psABI")


LEVELS = {
    level.name: level
    for level in (
        Level("x86-64-v4-amx", "avx512f", TILES, SAVED_TILES, "x86-64-v4", tiles="amx"),
        Level("x86-64-v4", "avx512f", V4, SAVED_AVX512, "x86-64-v4"),
        Level("x86-64-v3", "avx2", V3, SAVED_AVX, "x86-64-v3"),
        Level("x86-64-v2", "sse2", V2, 0, "x86-64-v2"),
        Level("x86-64", "sse2", (), 0, "x86-64"),
    )
}
# prefix of an intrinsic -> feature that it needs in addition to the level's
INTRINSICS = {
    "x86.avx512.vpdp": "avx512vnni",
    "x86.avx512.vpermi2var.qi": "avx512vbmi",
    "x86.avx512bf16.": "avx512bf16",
}


def find_level(name: str) -> Level:
    """Return the level of a name.

    Raises:
        MachineError: There is no such level.
    """
    if name not in LEVELS:
        raise MachineError(
            f"--target of a library must be one of {', '.join(LEVELS)}, got {name!r:.80}; other machines are apart: "
            "autotune replay BUNDLE --emit object --target NAME"
        )
    return LEVELS[name]


def level_of(machine: Machine, script: Script | None = None) -> Level:
    """Return the level with a machine's vectors, and with its matrix unit if a script uses it.

    Raises:
        MachineError: The machine is not x86-64.
    """
    by_tiles = machine.tiles == "amx" and isinstance(script, str) and multiplies_by_tiles(script)
    for level in LEVELS.values():
        if level.isa == machine.isa and bool(level.tiles) == by_tiles:
            return level
    raise MachineError(
        f"a library is made for {', '.join(LEVELS)}, the bundle is of {machine.isa}; "
        "use autotune replay BUNDLE --emit object, which is linked on that machine"
    )


def features_for(intrinsics: Iterable[str]) -> tuple[str, ...]:
    """Return the features that a program's LLVM intrinsics need in addition to the level's."""
    return features_needed(intrinsics, INTRINSICS.items())
