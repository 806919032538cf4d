"""Cache of this machine's roofs and noise floor, valid for an hour, shared by consecutive commands.

A cached entry is checked against one sample of the FMA kernel. It is valid if the kernel is as fast as recorded, or so
slow that another process must be using the core; otherwise the clock frequency has changed and all is measured again.
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

HOUR = 3600.0  # seconds that an entry is valid
FORMAT_VERSION = 2  # of the file: {"format_version", "written", "roofs", "floor"}
NEAR = 0.95  # of the cached rate: a sample above it counts as equally fast


@dataclass(frozen=True)
class MachineLimits:
    """Peak rates and measurement resolution of a machine.

    Attributes:
        roofs: Peak rates of the machine.
        floor: Noise floor: 95th percentile of the relative difference in an A/A comparison.
    """

    roofs: Roofs
    floor: float


def limits_of(machine: Machine, bench: Bench, pairs: int = FULL.pairs) -> MachineLimits:
    """Return a machine's roofs and noise floor, from the cache for this machine if valid, else measured.

    Args:
        machine: Machine of the bench.
        bench: Bench to measure in; results of benches other than a local `Worker` are not cached.
        pairs: Number of A/A comparisons if noise is measured.

    Raises:
        MachineError: The process that measures the roofs failed.
    """
    is_here = isinstance(bench, Worker)
    cached = read_limits(machine) if is_here else None
    if cached is not None and is_valid(cached.roofs.flops, bench.call(sample_rate, machine, ROOF_SECONDS)):
        return cached
    limits = MachineLimits(bench.roofs(machine), measure_noise(machine, bench, pairs))
    if is_here:
        write_limits(machine, limits)
    return limits


def sample_rate(machine: Machine) -> float:
    """Measure the current rate of the FMA kernel, in operations per second. Runs in a worker."""
    return fma_rate(machine, REFERENCE_CHAINS)


def is_valid(cached: float, now: object) -> bool:
    """Return whether a cached rate is consistent with a rate sampled now.

    Example:
        >>> [is_valid(100e9, now) for now in (99e9, 120e9, 80e9, 40e9)]
        [True, False, False, True]
    """
    if not isinstance(now, float):
        return False
    share = now / cached
    return NEAR <= share <= ROOF_ERROR or share < STEADY_SHARE


def limits_file(machine: Machine) -> Path:
    """Return the path of the cache file for a machine."""
    return cache() / "limits" / f"{machine.fingerprint}-{machine.pages}.json"


def read_limits(machine: Machine) -> MachineLimits | None:
    """Read the cache; return `None` if there is no entry, it is older than an hour, or its format differs."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(limits_file(machine).read_text(encoding="utf-8"))
        is_young = 0 <= time.time() - data["written"] <= HOUR
        if data["format_version"] == FORMAT_VERSION and is_young:
            roofs = Roofs(**{name: float(rate) for name, rate in data["roofs"].items()})
            if min(roofs.flops, roofs.dram_bytes, roofs.l2_bytes) > 0:
                return MachineLimits(roofs, float(data["floor"]))
    return None


def write_limits(machine: Machine, limits: MachineLimits) -> None:
    """Write the cache; if the folder is not writable, the next command measures again."""
    data = {
        "format_version": FORMAT_VERSION,
        "written": time.time(),
        "roofs": limits.roofs.known,
        "floor": limits.floor,
    }
    with suppress(OSError):
        path = limits_file(machine)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps(data) + "\n")
