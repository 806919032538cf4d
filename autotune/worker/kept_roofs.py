"""Roofs and noise of this machine, measured once and kept for an hour: commands that follow each other need them again.

What is kept is checked by one sample of the FMA kernel. Where that is as fast as it was, or so slow that something else
works the core now, it stands; where the clock is another one, all is measured again.
"""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autotune.core.bench import Bench
from autotune.core.care import FULL
from autotune.core.host.machine import Machine, Roofs
from autotune.core.host.whole_file import write_file
from autotune.core.winner_time import ROOF_ERROR, STEADY_SHARE
from autotune.worker.bench.noise import measure_noise
from autotune.worker.bench.roofs import REFERENCE_CHAINS, fma_rate
from autotune.worker.loading.paths import cache
from autotune.worker.worker import ROOF_SECONDS, Worker

HOUR = 3600.0  # seconds that they are kept
FORMAT_VERSION = 2  # of the file: {"format_version", "written", "roofs", "floor"}
NEAR = 0.95  # of the kept rate: a sample above it is as fast


@dataclass(frozen=True)
class MachineLimits:
    """What a machine does at best, and how little it can tell apart.

    Attributes:
        roofs: Highest rates of the machine.
        floor: Relative difference that an A/A comparison stays below in 95 of 100 cases.
    """

    roofs: Roofs
    floor: float


def limits_of(machine: Machine, bench: Bench, pairs: int = FULL.pairs) -> MachineLimits:
    """Roofs and noise, as they are kept for this machine or else measured; those of others are always measured.

    Args:
        machine: Machine of the bench.
        bench: Bench to measure in.
        pairs: Number of A/A comparisons where noise is measured.

    Raises:
        MachineError: The process failed over it.
    """
    is_here = isinstance(bench, Worker)
    kept = read_limits(machine) if is_here else None
    if kept is not None and is_valid(kept.roofs.flops, bench.call(sample_rate, machine, ROOF_SECONDS)):
        return kept
    found = MachineLimits(bench.roofs(machine), measure_noise(machine, bench, pairs))
    if is_here:
        write_limits(machine, found)
    return found


def sample_rate(machine: Machine) -> float:
    """Rate of the FMA kernel now, in operations a second. In a worker."""
    return fma_rate(machine, REFERENCE_CHAINS)


def is_valid(kept: float, now: object) -> bool:
    """Return whether a kept rate stands beside what a sample says now.

    Example:
        >>> [is_valid(100e9, now) for now in (99e9, 120e9, 80e9, 40e9)]
        [True, False, False, True]
    """
    if not isinstance(now, float):
        return False
    share = now / kept
    return NEAR <= share <= ROOF_ERROR or share < STEADY_SHARE


def limits_file(machine: Machine) -> Path:
    """Where those of a machine are kept."""
    return cache() / "limits" / f"{machine.fingerprint}-{machine.pages}.json"


def read_limits(machine: Machine) -> MachineLimits | None:
    """What was kept; `None` where nothing was, or it is older than an hour or of another format."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(limits_file(machine).read_text(encoding="utf-8"))
        is_young = 0 <= time.time() - data["written"] <= HOUR
        if data["format_version"] == FORMAT_VERSION and is_young:
            roofs = Roofs(**{name: float(rate) for name, rate in data["roofs"].items()})
            if min(roofs.flops, roofs.dram_bytes, roofs.l2_bytes) > 0:
                return MachineLimits(roofs, float(data["floor"]))
    return None


def write_limits(machine: Machine, found: MachineLimits) -> None:
    """Keep them; where nothing can be written, the next command measures again."""
    data = {
        "format_version": FORMAT_VERSION,
        "written": time.time(),
        "roofs": found.roofs.known,
        "floor": found.floor,
    }
    with suppress(OSError):
        path = limits_file(machine)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps(data) + "\n")
