"""`Machine`: description of a host for schedules (ISA, registers, caches, cores), with a fingerprint."""

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
    """Description of a host for schedules.

    Attributes:
        cpu: Model name as the operating system gives it.
        microarchitecture: archspec's name, such as ``zen4``.
        isa: The widest vector extension in use, such as ``avx512f``.
        vector_bits: Width of a vector register in bits.
        vector_registers: Number of architectural vector registers.
        l1_bytes: Size of the L1 data cache of one core.
        l2_bytes: Size of the L2 cache.
        l3_bytes: Size of the last-level cache, usually shared; 0 where there is none.
        cores: Number of CPUs that this process may run on.
        pages: Kind of memory pages for large arrays of a run.
        threads: Number of threads of a program, each on a core of its own.
        tiles: Implementation of matrix tiles: ``amx``, ``emulated``, or empty for none.
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
        """Number of f32 elements in a vector register."""
        return self.vector_bits // 32

    def without_masks(self) -> "Machine":
        """Return the machine as seen by code that does not use masked vectors."""
        return replace(self, isa="") if self.masks else self

    def holding(self, dtype: str) -> "Machine":
        """Return the machine as seen by code for an element type, counted in f32: for f64, capacities are halved.

        Args:
            dtype: ``f32`` or ``f64``.
        """
        if dtype != "f64":
            return self
        halved = ("vector_bits", "l1_bytes", "l2_bytes", "l3_bytes")
        return replace(self, **{name: getattr(self, name) // 2 for name in halved})

    @property
    def masks(self) -> bool:
        """Whether masked loads and stores are as fast as those of whole vectors."""
        return self.isa in MASKING

    @property
    def fingerprint(self) -> str:
        """Hash, 16 hex digits, that is equal for machines whose schedules and times may be compared.

        Cores and pages are ignored; threads are included where there are several, tiles where there are any.
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
        threads: Number of threads of a program.

    Raises:
        OptionError: The number of threads is invalid.
        MachineError: No supported vector extension is present, or an environment variable has an unknown value.
    """
    check_whole("threads", threads, 1, MOST_THREADS)
    return detected_machine(threads, tiles_here())


@cache
def detected_machine(threads: int, tiles: Tiles) -> Machine:
    """Return the host with a number of threads; `tiles` is a parameter since it may change while a process runs."""
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
    """Return the size in bytes of each data cache level that sysfs lists; empty where there is no sysfs."""
    sizes = {}
    for index in sorted(directory.glob("index*")):
        try:
            cache_type, level, size = (
                (index / name).read_text(encoding="utf-8").strip() for name in ("type", "level", "size")
            )
        except OSError:
            continue
        if cache_type != "Instruction":
            sizes[f"L{level}"] = parse_size(size)
    return sizes


def parse_size(text: str) -> int:
    """Parse a size of sysfs into bytes: ``32K`` is 32768."""
    units = {"K": 1024, "M": 1024**2, "G": 1024**3}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def cpu_model() -> str:
    """Return the CPU's model name from /proc/cpuinfo, else from `platform`."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@dataclass(frozen=True)
class Roofs:
    """Measured peak rates of one core of this machine, the roofs of its roofline model.

    Attributes:
        flops: Peak f32 operations a second with vectors (FMA counts as two).
        dram_bytes: Memory bandwidth of reads, in bytes a second.
        l2_bytes: Read bandwidth of a working set of half the L2 cache, in bytes a second.
        bf16: Peak operations a second of bf16 dot products (multiply-add counts as two); 0 without such instructions.
        int16: The same for int16 with i32 accumulators.
        int8: The same for int8.
        tile_bf16: The same for bf16 in a matrix unit.
        tile_int8: The same for int8 in a matrix unit.
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
        """Rates that are not 0, by name."""
        return {name: rate for name, rate in asdict(self).items() if rate}
