"""The matrix unit of a processor: AMX, with eight tile registers of 16 rows of 64 bytes.

Linux grants its registers on request (`arch_prctl(2)`, ``ARCH_REQ_XCOMP_PERM``). The permission is inherited by forks
and threads, and lost by exec. It is refused to a process with an alternate signal stack that is too small for the
registers, so it is requested before any is installed, and before a filter of system calls is.

Without a matrix unit, tiles can be emulated by loops over vectors: bit-exact, and slow. ``AUTOTUNE_TILES=emulate`` in
the environment selects that.
"""

import ctypes
import os
import platform
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

from autotune.core.errors import MachineError

ROWS = 16  # rows of a tile, and 32-bit words of a row
FLAGS = ("amx_tile", "amx_bf16", "amx_int8")  # names of Linux
VECTORS = ("avx512f", "avx512bw", "avx512_bf16")  # extensions of every processor with the unit
VARIABLE, EMULATE = "AUTOTUNE_TILES", "emulate"
ARCH_PRCTL, REQUEST, TILE_DATA = 158, 0x1023, 18  # asm/prctl.h, asm/fpu/types.h of Linux

Tiles = Literal["", "amx", "emulated"]


@cache
def cpu_flags() -> frozenset[str]:
    """Return the instruction set extensions of this CPU, as Linux lists them; empty where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), frozenset())


def has_unit() -> bool:
    """Return whether this processor has a matrix unit for bf16 and int8."""
    return cpu_flags().issuperset(FLAGS)


@cache
def ask_for_tiles() -> bool:
    """Request the unit's registers for this process and its forks; return whether they are granted.

    A process that runs programs calls this first. Without a matrix unit nothing is requested.
    """
    if not has_unit() or platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    refused: int = ctypes.CDLL(None, use_errno=True).syscall(ARCH_PRCTL, REQUEST, TILE_DATA)
    return refused == 0


def are_emulated() -> bool:
    """Return whether the environment selects emulated tiles.

    Raises:
        MachineError: The environment variable has an unknown value.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", EMULATE):
        raise MachineError(f"{VARIABLE} must be {EMULATE!r} or empty, got {wanted[:40]!r}")
    return wanted == EMULATE


@contextmanager
def emulated() -> Iterator[None]:
    """Emulate tiles in the ``with`` block, also in processes started there, unless this processor has a matrix unit."""
    before = os.environ.get(VARIABLE)
    if not ask_for_tiles():
        os.environ[VARIABLE] = EMULATE
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def tiles_here() -> Tiles:
    """Return the implementation of matrix tiles on this machine: the unit, emulation, or none."""
    if are_emulated():
        return "emulated"
    return "amx" if ask_for_tiles() else ""


def lacking_flags(name: str, flags: Collection[str], present: Collection[str]) -> str:
    """Return a sentence on the CPU flags that something needs and a CPU lacks; empty if it has them.

    Args:
        name: Name of what needs them.
        flags: Needed flags, as Linux lists them.
        present: Flags of the CPU.
    """
    missing = " and ".join(sorted(set(flags) - set(present)))
    return f"{name} needs a CPU with {missing}, which this one lacks" if missing else ""


def why_no_tiles() -> str:
    """Return a sentence on why programs with tiles cannot run here; empty if they can."""
    if tiles_here():
        return ""
    way_out = f"`replay --emulate`, or {VARIABLE}={EMULATE} for other verbs, runs them emulated, right and slow"
    if has_unit():
        return f"products by tiles need the kernel's permission for AMX, which this process was refused; {way_out}"
    return f"products by tiles need a CPU with {', '.join(FLAGS)}, which this one lacks; {way_out}"


def describe_unit() -> str:
    """Return a phrase on the matrix unit of this processor, and whether it is granted."""
    emulated = "; tiles are emulated, as the environment asks" if are_emulated() else ""
    if not has_unit():
        return f"none{emulated}"
    granted = "granted" if ask_for_tiles() else "there, but this kernel refuses its registers to this process"
    return f"AMX, bf16 and int8, {granted}{emulated}"
