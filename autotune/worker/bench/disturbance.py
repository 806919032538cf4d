"""Disturbance of measurements: what else uses the machine, and advice for steadier times."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

CPUS = Path("/sys/devices/system/cpu")
BUSY = 0.10  # of a core
STOLEN = 0.02
HIGH_FLOOR = 0.05


@dataclass(frozen=True)
class Disturbance:
    """CPU use by others over an interval, as a share of one core.

    Attributes:
        stolen: Share that the hypervisor gave to other guests.
        others: Share used by other processes, summed over all cores.
        loudest: Process with the largest share, and its share; empty if it is below `BUSY`.
    """

    stolen: float
    others: float
    loudest: str = ""


class Watch:
    """Monitor of CPU use by other processes since its creation."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._steal = psutil.cpu_times().steal
        self._used = self._processes()

    def _processes(self) -> dict[tuple[int, str], float]:
        """Return the CPU time in seconds of every process except this one and its descendants."""
        me = psutil.Process()
        ours = {me.pid, *(child.pid for child in me.children(recursive=True))}
        seconds = {}
        for process in psutil.process_iter(["name", "cpu_times"]):
            times = process.info["cpu_times"]
            if process.pid not in ours and times is not None:
                seconds[process.pid, str(process.info["name"])] = times.user + times.system
        return seconds

    def read(self) -> Disturbance:
        """Return the disturbance since the watch began."""
        seconds = max(1e-3, time.monotonic() - self._start)
        now = self._processes()
        used = {key: (spent - self._used.get(key, 0.0)) / seconds for key, spent in now.items()}
        most = max(used, key=lambda key: used[key], default=None)
        loudest = f"{most[1]} ({most[0]}), {used[most]:.0%} of a core" if most and used[most] > BUSY else ""
        stolen = (psutil.cpu_times().steal - self._steal) / seconds
        return Disturbance(stolen, sum(used.values()), loudest)


def advise(floor: float, cores: int, measured: Sequence[int], disturbance: Disturbance | None = None) -> list[str]:
    """Return advice for steadier measurements, one sentence each.

    Args:
        floor: Noise floor, a relative difference.
        cores: Number of CPUs that this process may run on.
        measured: CPUs that candidates run on.
        disturbance: CPU use by others during the measurement of the noise floor; `None` if it is unknown.
    """
    advice = []
    if cores == 1:
        advice.append("one core: the tuner and the candidate share it; expect more noise and fewer trials a minute")
    if floor > HIGH_FLOOR:
        advice.append(
            f"noise floor {floor:.1%} is high, and smaller differences count as equal: stop other work, measure again"
        )
    if disturbance is not None and disturbance.loudest:
        advice.append(
            f"other processes take {disturbance.others:.0%} of a core, most of it {disturbance.loudest}: stop them, or "
            f"keep them off {numbered(measured)}, where candidates run"
        )
    if disturbance is not None and disturbance.stolen > STOLEN:
        advice.append(
            f"the hypervisor takes {disturbance.stolen:.0%} of a core for others: a dedicated host would help"
        )
    governor = CPUS / "cpu0/cpufreq/scaling_governor"
    if governor.exists() and (name := governor.read_text(encoding="utf-8").strip()) != "performance":
        advice.append(f"CPU frequency governor is {name!r}; 'performance' gives steadier times")
    for core in measured:
        if (siblings := hyper_threads(core)) != str(core):
            advice.append(f"core {core}, where candidates run, shares its units with {siblings}: leave that idle")
    return advice


def numbered(cores: Sequence[int]) -> str:
    """Name some cores by their numbers."""
    return f"core{'s' * (len(cores) > 1)} {', '.join(map(str, cores))}"


def hyper_threads(core: int) -> str:
    """Return the CPUs that share the units of a core, itself included, as the system lists them."""
    path = CPUS / f"cpu{core}/topology/thread_siblings_list"
    return path.read_text(encoding="utf-8").strip() if path.exists() else str(core)
