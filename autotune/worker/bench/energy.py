"""Energy: what the processor's own counters say, RAPL through Linux's powercap, where they can be read.

    /sys/class/powercap/intel-rapl:0/name                  package-0
    /sys/class/powercap/intel-rapl:0/energy_uj             microjoules since some time, beginning again at
    /sys/class/powercap/intel-rapl:0/max_energy_range_uj

Packages are added up, and their memory where it is counted apart. A counter moves about a thousand times a second, and
counts what all cores do. Source: Linux, Documentation/power/powercap/powercap.rst.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autotune.core.errors import MachineError

ROOT, MOVED = Path("/sys/class/powercap"), "AUTOTUNE_POWERCAP"  # environment variable: a tree somewhere else
COUNTER, RANGE = "energy_uj", "max_energy_range_uj"
MICRO = 1e-6
LEAST_SECONDS = 0.1  # that a program is run for between two looks: a hundred moves of the counter


@dataclass(frozen=True)
class Counter:
    """A counter of energy.

    Attributes:
        folder: Folder of its files.
        name: Name of what it counts, such as ``package-0``.
        most: Microjoules at which it begins again.
    """

    folder: Path
    name: str
    most: int

    def read(self) -> int:
        """Microjoules.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file holds no number.
        """
        return int((self.folder / COUNTER).read_text(encoding="utf-8"))

    def spent(self, before: int, after: int) -> float:
        """Joules between two looks, of which the second may be behind the end of the counter."""
        return MICRO * ((after - before) if after >= before else (after - before + self.most))


def find_counters(root: Path | None = None) -> tuple[Counter, ...]:
    """The counters that can be read.

    Args:
        root: Folder of the zones; by default the system's.

    Raises:
        MachineError: There are none, or they cannot be read; the sentence says what to do.
    """
    root = root or Path(os.environ.get(MOVED) or ROOT)
    zones = sorted(root.glob("*:*")) if root.is_dir() else []
    found = []
    for zone in zones:
        try:
            name = (zone / "name").read_text(encoding="utf-8").strip()
            if name.startswith("package") or name == "dram":
                counter = Counter(zone, name, int((zone / RANGE).read_text(encoding="utf-8")))
                counter.read()
                found.append(counter)
        except PermissionError as error:
            way = f"as root: chmod a+r {root}/*/{COUNTER}"
            raise MachineError(f"energy must be readable, {zone.name} is root's alone; {way}") from error
        except (OSError, ValueError):
            continue  # a zone without a counter of its own, or one that is broken
    if not any(counter.name.startswith("package") for counter in found):
        raise MachineError(
            f"energy needs RAPL counters of the processor, there are none in {root}; virtual machines have none"
        )
    return tuple(found)


def describe_energy(root: Path | None = None) -> str:
    """What energy can be read from, or why none can."""
    try:
        return f"RAPL, {', '.join(counter.name for counter in find_counters(root))}"
    except MachineError as error:
        return f"none: {error}"


def joules_of(run: Callable[[int], None], seconds: float, root: Path | None = None) -> float | None:
    """Joules of a call, all that the processor takes meanwhile; `None` where a counter fails, or did not move.

    Args:
        run: Runs the program so many times.
        seconds: Seconds of a call.
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
