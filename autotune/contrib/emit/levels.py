"""Levels of x86-64 that a library is compiled for, and what a processor must have to run each.

A library holds one variant for each level, and picks the best that the processor can run when it is opened. Features
are read by CPUID, as the ABI's levels name them.

Source: x86-64 psABI, section 3.1.1 "Processor Architecture"; Intel 64 and IA-32 Architectures Software Developer's
Manual, volume 2, CPUID.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from autotune.compiler.lowering.emit import features_needed
from autotune.core.errors import MachineError
from autotune.core.host.machine import VECTOR_EXTENSIONS, Machine
from autotune.core.precision import is_by_tiles
from autotune.core.target import Target

EAX, EBX, ECX, EDX = range(4)
EXTENDED = 0x80000001
# feature, as LLVM names it -> CPUID's leaf, subleaf, register and bit
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
}
V2 = ("sse3", "ssse3", "cx16", "sse4.1", "sse4.2", "popcnt", "sahf")
V3 = (*V2, "fma", "movbe", "osxsave", "avx", "f16c", "bmi", "avx2", "bmi2", "lzcnt")
V4 = (*V3, "avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl")
SAVED_AVX, SAVED_AVX512 = 0x6, 0xE6  # registers that the system must save, bits of XCR0


@dataclass(frozen=True)
class Level:
    """A level of the ABI.

    Attributes:
        name: Name of the level, which is a processor to LLVM.
        isa: Widest vector extension that it has.
        features: Features that a processor must have.
        saved: Registers that its system must save, as bits of XCR0; 0 where every system does.
    """

    name: str
    isa: str
    features: tuple[str, ...]
    saved: int

    def machine(self, like: Machine) -> Machine:
        """What schedules may know of a machine of this level: vectors of its own, all else as of another machine.

        It has no matrix unit, whatever the other has: code for one may use vectors that the level has not.
        """
        bits, registers = VECTOR_EXTENSIONS[self.isa]
        mine = replace(like, isa=self.isa, vector_bits=bits, vector_registers=registers)
        return replace(mine, microarchitecture=self.name, tiles="")

    def target(self, like: Machine, more: Iterable[str]) -> Target:
        """What LLVM compiles for, with more features than the level's."""
        features = ",".join(f"+{feature}" for feature in more)
        return Target(self.name, "x86_64-linux-gnu", self.name, features, self.machine(like), "x86-64 psABI")


LEVELS = {
    level.name: level
    for level in (
        Level("x86-64-v4", "avx512f", V4, SAVED_AVX512),
        Level("x86-64-v3", "avx2", V3, SAVED_AVX),
        Level("x86-64-v2", "sse2", V2, 0),
        Level("x86-64", "sse2", (), 0),
    )
}
# what a program calls -> feature that it then needs besides its level's
INTRINSICS = {
    "x86.avx512.vpdp": "avx512vnni",
    "x86.avx512.vpermi2var.qi": "avx512vbmi",
    "x86.avx512bf16.": "avx512bf16",
}
AMX = ("x86.tdp", "x86.tile", "x86.ldtile", "x86.sttile", "x86.cast.")


def find_level(name: str) -> Level:
    """The level that a user names.

    Raises:
        MachineError: There is no such level.
    """
    if name not in LEVELS:
        raise MachineError(
            f"--target of a library must be one of {', '.join(LEVELS)}, got {name!r:.80}; other machines are apart: "
            "autotune replay BUNDLE --emit object --target NAME"
        )
    return LEVELS[name]


def level_of(machine: Machine) -> Level:
    """The level whose vectors a machine has.

    Raises:
        MachineError: The machine is no x86-64.
    """
    for level in LEVELS.values():
        if level.isa == machine.isa:
            return level
    raise MachineError(
        f"a library is made for {', '.join(LEVELS)}, the bundle is of {machine.isa}; "
        "use autotune replay BUNDLE --emit object, which is linked on that machine"
    )


def features_for(intrinsics: Iterable[str]) -> tuple[str, ...]:
    """Features that a program needs besides its level's, by LLVM's intrinsics that it calls.

    Raises:
        MachineError: A program needs what no library can ask for.
    """
    called = tuple(intrinsics)
    for name in called:
        if name.startswith(AMX):
            raise needs_tiles(f"calls {name}")
    return features_needed(called, INTRINSICS.items())


def check_schedules(names: Iterable[str]) -> None:
    """Refuse products that are for a matrix unit: a level has none.

    Args:
        names: Names of families, or of the precisions of weights; empty for weights as they are.

    Raises:
        MachineError: One is for tiles.
    """
    for name in filter(is_by_tiles, names):
        raise needs_tiles(f"has products in {name}")


def needs_tiles(why: str) -> MachineError:
    """The error of a program that needs a matrix unit."""
    return MachineError(
        f"a library must not need AMX, which a system gives a process on request alone, this one {why}; "
        "tune without tiles"
    )
