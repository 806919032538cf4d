"""This host as schedules see it: ISA, registers, caches, cores; and a fingerprint that says when two hosts differ."""

import hashlib
import json
import os
import platform
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import archspec.cpu

from autotune.core.errors import MachineError
from autotune.core.host.cores import MOST_THREADS
from autotune.core.host.matrix_unit import Tiles, tiles_here
from autotune.core.host.pages import Pages, pages_of_run
from autotune.core.options import check_whole

CACHE_DIRECTORY = Path("/sys/devices/system/cpu/cpu0/cache")
TYPICAL_CACHES = {"L1": 32 * 1024, "L2": 512 * 1024, "L3": 8 * 1024 * 1024}


@dataclass(frozen=True)
class Machine:
    """What a schedule may know of the host.

    Attributes:
        cpu: Model name as the operating system gives it.
        microarchitecture: archspec's name, such as ``zen4``.
        isa: The widest vector extension in use, such as ``avx512f``.
        vector_bits: Width of one vector register.
        vector_registers: Number of architectural vector registers.
        l1_bytes: Data cache of one core, first level.
        l2_bytes: Second level.
        l3_bytes: Last level, usually shared; 0 where there is none.
        cores: CPUs this process may run on.
        pages: Kind of memory pages that large arrays of a run lie on.
        threads: Threads that a program may use, of a core each.
        tiles: What multiplies tiles of a matrix unit: ``amx``, ``emulated``, or nothing.
    """

    cpu: str
    microarchitecture: str
    isa: str
    vector_bits: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    cores: int
    pages: Pages = "huge"
    threads: int = 1
    tiles: Tiles = ""

    @property
    def lanes(self) -> int:
        """f32 elements in one vector register."""
        return self.vector_bits // 32

    def without_masks(self) -> "Machine":
        """The machine as code meets it that masks no part of a vector."""
        return replace(self, isa="") if self.masks else self

    def holding(self, dtype: str) -> "Machine":
        """The machine as code for elements of a type meets it, counted in f32: of f64, registers and caches hold half.

        Args:
            dtype: ``f32`` or ``f64``.
        """
        if dtype != "f64":
            return self
        halved = ("vector_bits", "l1_bytes", "l2_bytes", "l3_bytes")
        return replace(self, **{name: getattr(self, name) // 2 for name in halved})

    @property
    def masks(self) -> bool:
        """Loads and stores of a part of a vector take as long as those of all of it."""
        return self.isa in MASKING

    @property
    def fingerprint(self) -> str:
        """Equal for machines whose schedules and times may be compared.

        Cores and pages are left out; threads count where there are several, tiles where there are any.
        """
        alone, plain = ("threads",) if self.threads == 1 else (), () if self.tiles else ("tiles",)
        left_out = ("cores", "pages", *alone, *plain)
        facts = {key: value for key, value in asdict(self).items() if key not in left_out}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


# isa feature -> (vector bits, vector registers), widest first
VECTOR_EXTENSIONS = {
    "avx512f": (512, 32),
    "avx2": (256, 16),
    "avx": (256, 16),
    "sse2": (128, 16),
    "asimd": (128, 32),
    "neon": (128, 32),
}

MASKING = ("avx512f",)  # extensions with registers of masks


def this_machine(threads: int = 1) -> Machine:
    """Detect the host.

    Args:
        threads: Threads that programs may use.

    Raises:
        OptionError: The threads are no number of threads.
        MachineError: No vector extension this project knows is present, or the environment asks for what there is not.
    """
    check_whole("threads", threads, 1, MOST_THREADS)
    return detected_machine(threads, tiles_here())


@cache
def detected_machine(threads: int, tiles: Tiles) -> Machine:
    """The host, with so many threads; what multiplies tiles may change while a process runs."""
    target = archspec.cpu.host()
    isa = next((name for name in VECTOR_EXTENSIONS if name in target), None)
    if isa is None:
        raise MachineError(
            f"a vector extension is needed, one of {', '.join(VECTOR_EXTENSIONS)}; {target.name} shows none of them"
        )
    bits, registers = VECTOR_EXTENSIONS[isa]
    caches = TYPICAL_CACHES | read_caches(CACHE_DIRECTORY)
    return Machine(
        cpu=cpu_model(),
        microarchitecture=target.name,
        isa=isa,
        vector_bits=bits,
        vector_registers=registers,
        l1_bytes=caches["L1"],
        l2_bytes=caches["L2"],
        l3_bytes=caches["L3"],
        cores=len(os.sched_getaffinity(0)),
        pages=pages_of_run(),
        threads=threads,
        tiles=tiles,
    )


def read_caches(directory: Path) -> dict[str, int]:
    """Bytes of each data cache level that sysfs lists; empty where sysfs is not there."""
    sizes = {}
    for index in sorted(directory.glob("index*")):
        try:
            kind, level, size = (
                (index / name).read_text(encoding="utf-8").strip() for name in ("type", "level", "size")
            )
        except OSError:
            continue
        if kind != "Instruction":
            sizes[f"L{level}"] = parse_size(size)
    return sizes


def parse_size(text: str) -> int:
    """Bytes of a sysfs size: ``32K`` is 32768."""
    units = {"K": 1024, "M": 1024**2, "G": 1024**3}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def cpu_model() -> str:
    """Model name from /proc/cpuinfo, or what `platform` knows."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@dataclass(frozen=True)
class Roofs:
    """Highest rates of one core of this machine, measured now.

    Attributes:
        flops: Peak floating-point operations a second (FMA counts as two), f32 vectors.
        dram_bytes: Bytes a second read from memory.
        l2_bytes: Bytes a second read from a working set of half the L2 cache.
        bf16: Peak operations a second of dot products of bf16 (a product and an addition are two); 0 without them.
        int16: The same of int16, summed in 32 bits.
        int8: The same of int8.
        tile_bf16: The same of bf16 by a matrix unit.
        tile_int8: The same of int8 by a matrix unit.
    """

    flops: float
    dram_bytes: float
    l2_bytes: float
    bf16: float = 0.0
    int16: float = 0.0
    int8: float = 0.0
    tile_bf16: float = 0.0
    tile_int8: float = 0.0

    @property
    def known(self) -> dict[str, float]:
        """The rates that there are, by their names."""
        return {name: rate for name, rate in asdict(self).items() if rate}
