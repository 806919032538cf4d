"""The matrix unit of a processor: AMX, whose eight tiles hold 16 rows of 64 bytes each.

Linux gives its registers to processes that ask (`arch_prctl(2)`, ``ARCH_REQ_XCOMP_PERM``). What is granted is kept by
forks and threads, and lost by exec. It is refused to a process that has an alternate signal stack too small for the
registers, so it is asked for before anything makes one, and before a filter of system calls stands.

Where there is no such unit, tiles can be emulated by loops over vectors: right, bit for bit, and slow.
``AUTOTUNE_TILES=emulate`` in the environment asks for that.
"""

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

from autotune.core.errors import MachineError

ROWS = 16  # of a tile, and words of 32 bits in each
FLAGS = ("amx_tile", "amx_bf16", "amx_int8")  # as Linux lists them
VECTORS = ("avx512f", "avx512bw", "avx512_bf16")  # that every processor with the unit has
VARIABLE, EMULATE = "AUTOTUNE_TILES", "emulate"
ARCH_PRCTL, REQUEST, TILE_DATA = 158, 0x1023, 18  # asm/prctl.h, asm/fpu/types.h of Linux

Tiles = Literal["", "amx", "emulated"]


@cache
def cpu_flags() -> frozenset[str]:
    """Extensions of this CPU's instructions, as Linux lists them; empty where it does not."""
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
    """Ask for the unit's registers, for this process and those that it forks; tell whether they are granted.

    A process that runs programs calls this before anything else; a processor without the unit is not asked.
    """
    if not has_unit() or platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    refused: int = ctypes.CDLL(None, use_errno=True).syscall(ARCH_PRCTL, REQUEST, TILE_DATA)
    return refused == 0


def are_emulated() -> bool:
    """Return whether the environment asks for emulated tiles.

    Raises:
        MachineError: The environment asks for something else.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", EMULATE):
        raise MachineError(f"{VARIABLE} must be {EMULATE!r} or empty, got {wanted[:40]!r}")
    return wanted == EMULATE


@contextmanager
def emulated() -> Iterator[None]:
    """Emulate tiles inside the ``with`` block, in processes that start there too, unless this processor has them."""
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
    """What multiplies tiles on this machine: the unit, loops that emulate it, or nothing."""
    if are_emulated():
        return "emulated"
    return "amx" if ask_for_tiles() else ""


def why_no_tiles() -> str:
    """Why programs with tiles cannot run here, a sentence; empty if they can."""
    if tiles_here():
        return ""
    way_out = f"`replay --emulate`, or {VARIABLE}={EMULATE} for other verbs, runs them emulated, right and slow"
    if has_unit():
        return f"products by tiles need the kernel's permission for AMX, which this process was refused; {way_out}"
    return f"products by tiles need a CPU with {', '.join(FLAGS)}, which this one lacks; {way_out}"


def describe_unit() -> str:
    """Whether there is a unit, and whether it is granted: a phrase for people."""
    emulated = "; tiles are emulated, as the environment asks" if are_emulated() else ""
    if not has_unit():
        return f"none{emulated}"
    granted = "granted" if ask_for_tiles() else "there, but this kernel refuses its registers to this process"
    return f"AMX, bf16 and int8, {granted}{emulated}"
