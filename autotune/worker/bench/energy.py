"""Energy of a program from the processor's RAPL counters, read through Linux's powercap where permitted.

    /sys/class/powercap/intel-rapl:0/name                  package-0
    /sys/class/powercap/intel-rapl:0/energy_uj             microjoules, a counter that wraps around at
    /sys/class/powercap/intel-rapl:0/max_energy_range_uj

Packages are summed, with their DRAM where it has a counter of its own. A counter is updated about a thousand times a
second and includes all cores. Source: Linux, Documentation/power/powercap/powercap.rst.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autotune.core.errors import MachineError

ROOT, MOVED = Path("/sys/class/powercap"), "AUTOTUNE_POWERCAP"  # environment variable: another root folder
COUNTER, RANGE = "energy_uj", "max_energy_range_uj"
MICRO = 1e-6
LEAST_SECONDS = 0.1  # run time between two readings: a hundred updates of the counter


@dataclass(frozen=True)
class Counter:
    """An energy counter.

    Attributes:
        folder: Folder of its files.
        name: Name of its zone, such as ``package-0``.
        most: Value in microjoules at which it wraps around.
    """

    folder: Path
    name: str
    most: int

    def read(self) -> int:
        """Read the counter, in microjoules.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file does not hold a number.
        """
        return int((self.folder / COUNTER).read_text(encoding="utf-8"))

    def spent(self, before: int, after: int) -> float:
        """Return the joules between two readings, allowing for one wrap-around."""
        return MICRO * ((after - before) if after >= before else (after - before + self.most))


def find_counters(root: Path | None = None) -> tuple[Counter, ...]:
    """Return the energy counters that can be read.

    Args:
        root: Folder of the zones; by default the system's.

    Raises:
        MachineError: There are none, or they are not readable; the message says what to do.
    """
    root = root or Path(os.environ.get(MOVED) or ROOT)
    zones = sorted(root.glob("*:*")) if root.is_dir() else []
    counters = []
    for zone in zones:
        try:
            name = (zone / "name").read_text(encoding="utf-8").strip()
            if name.startswith("package") or name == "dram":
                counter = Counter(zone, name, int((zone / RANGE).read_text(encoding="utf-8")))
                counter.read()
                counters.append(counter)
        except PermissionError as error:
            fix = f"as root: chmod a+r {root}/*/{COUNTER}"
            raise MachineError(f"energy must be readable, {zone.name} is root's alone; {fix}") from error
        except (OSError, ValueError):
            continue  # a zone without a counter, or with a broken one
    if not any(counter.name.startswith("package") for counter in counters):
        raise MachineError(
            f"energy needs RAPL counters of the processor, there are none in {root}; virtual machines have none"
        )
    return tuple(counters)


def describe_energy(root: Path | None = None) -> str:
    """Describe the source of energy readings, or why there is none."""
    try:
        return f"RAPL, {', '.join(counter.name for counter in find_counters(root))}"
    except MachineError as error:
        return f"none: {error}"


def joules_of(run: Callable[[int], None], seconds: float, root: Path | None = None) -> float | None:
    """Measure the joules per call, all of the processor's use included; `None` if a counter fails or did not change.

    Args:
        run: Function that runs the program a given number of times.
        seconds: Time of a call in seconds.
        root: Folder of the zones; by default the system's.
    """
    calls = max(1, math.ceil(LEAST_SECONDS / max(seconds, 1e-9)))
    try:
        counters = find_counters(root)
        before = [counter.read() for counter in counters]
        run(calls)
        after = [counter.read() for counter in counters]
    except (MachineError, OSError, ValueError):
        return None
    spent = sum(map(Counter.spent, counters, before, after))
    return spent / calls if spent > 0 else None
