"""The A/A floor: how different two measurements of one and the same program look on this machine, now."""

from autotune.ir.evaluate import Candidate, Job
from autotune.ir.lower import TAIL
from autotune.ir.roofs import read_payload
from autotune.machine import Machine
from autotune.measure import Effort
from autotune.stats import noise_floor
from autotune.worker import Worker

EFFORT = Effort(samples=15, seconds=0.5)
LEAST_FLOOR = 0.01  # what a handful of pairs can tell


def measure_noise(machine: Machine, worker: Worker, pairs: int) -> float:
    """Relative difference that an A/A comparison stays below in 95 of 100 cases; `LEAST_FLOOR` at least.

    Args:
        machine: The host.
        worker: Where to measure.
        pairs: How many comparisons to make; each takes a third of a second.
    """
    payload = read_payload(machine.lanes, machine.l2_bytes // 2)
    twin = Candidate(None, TAIL)
    found = []
    for seed in range(pairs):
        a, b = worker.evaluate(Job(payload, (twin, twin), machine, seed=seed, effort=EFFORT))
        if a.samples is not None and b.samples is not None:
            found.append((a.samples.seconds, b.samples.seconds))
    return max(LEAST_FLOOR, noise_floor(found)) if found else LEAST_FLOOR
