"""The A/A floor: how different two measurements of one and the same program look on this machine, now.

Pairs of programs are timed as finalists are: interleaved, in random order, sample by sample.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.compiler.passes.pipelines import tail
from autotune.core.bench import Bench
from autotune.core.candidate import Candidate
from autotune.core.care import FULL
from autotune.core.errors import MachineError
from autotune.core.evaluator import Effort, Job
from autotune.core.host.machine import Machine
from autotune.core.host.whole_file import write_file
from autotune.core.payload import Payload
from autotune.core.stats import noise_floor
from autotune.worker.bench.kernels import on_threads, read_payload, spin_payload
from autotune.worker.bench.roofs import STEPS

EFFORT = Effort(samples=60, seconds=1.0)
PAIR_SECONDS = 60.0  # for a comparison that takes one on a quiet core, whatever a candidate may take
LEAST_FLOOR = 0.01  # what a handful of pairs can tell
FORMAT_VERSION = 1  # of the file: {"format_version", "fingerprint", "floor", "pairs"}
FILE = "noise.json"


@dataclass(frozen=True)
class NoisePair:
    """Two programs timed together: seconds a call, sample by sample."""

    a: tuple[float, ...]
    b: tuple[float, ...]


def time_twins(machine: Machine, worker: Bench, count: int) -> list[NoisePair]:
    """Time two copies of one program, compiled each for itself: by turns one that computes and one that reads memory.

    Args:
        machine: The host.
        worker: Bench to measure in.
        count: Number of pairs; each takes up to a second.
    """
    alone = (read_payload(machine.lanes, machine.l2_bytes // 2), spin_payload(machine.lanes, STEPS))
    kernels = [on_threads(kernel, machine.threads) for kernel in alone]
    twin = Candidate(None, tail(machine.threads))
    return [
        pair
        for seed in range(count)
        if (pair := time_pair(kernels[seed % 2], (twin, twin), machine, worker, seed)) is not None
    ]


def time_unequal(machine: Machine, worker: Bench, count: int, slower: float) -> list[NoisePair]:
    """Time a program and one that does `slower` times its work: ``slower=1.05`` is five per cent more."""
    payload, more = spin_payload(machine.lanes, STEPS), spin_payload(machine.lanes, round(STEPS * slower))
    both = (Candidate(None, tail(1)), Candidate(None, tail(1), more.text))
    pairs = [time_pair(payload, both, machine, worker, seed) for seed in range(count)]
    return [pair for pair in pairs if pair is not None]


def time_pair(
    payload: Payload, both: tuple[Candidate, Candidate], machine: Machine, worker: Bench, seed: int
) -> NoisePair | None:
    """Times of two candidates; `None` where one of them failed."""
    a, b = worker.evaluate(Job(payload, both, machine, seed=seed, effort=EFFORT), PAIR_SECONDS)
    return NoisePair(a.samples.seconds, b.samples.seconds) if a.samples and b.samples else None


def measure_noise(machine: Machine, worker: Bench, pairs: int = FULL.pairs) -> float:
    """Relative difference that an A/A comparison stays below in 95 of 100 cases; `LEAST_FLOOR` at least.

    Args:
        machine: The host.
        worker: Bench to measure in.
        pairs: Number of comparisons to make.
    """
    return floor_of(time_twins(machine, worker, pairs))


def floor_of(pairs: Sequence[NoisePair]) -> float:
    """The floor that A/A pairs show."""
    return max(LEAST_FLOOR, noise_floor([(pair.a, pair.b) for pair in pairs])) if pairs else LEAST_FLOOR


def write_floor(folder: Path, machine: Machine, floor: float, pairs: int) -> Path:
    """Keep the floor of a machine, for `read_floor`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = floor_file(folder, machine)
    data = {"format_version": FORMAT_VERSION, "fingerprint": machine.fingerprint, "floor": floor, "pairs": pairs}
    write_file(path, json.dumps(data) + "\n")
    return path


def floor_file(folder: Path, machine: Machine) -> Path:
    """Where the floor of a machine is kept; that of several threads beside that of one."""
    return folder / (FILE if machine.threads == 1 else f"noise_on_{machine.threads}_threads.json")


def read_floor(folder: Path, machine: Machine) -> float:
    """The floor that was kept for a machine; `LEAST_FLOOR` if none was.

    Raises:
        MachineError: The file is not what `write_floor` writes.
    """
    path = floor_file(folder, machine)
    if not path.exists():
        return LEAST_FLOOR
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format_version"] != FORMAT_VERSION or data["fingerprint"] != machine.fingerprint:
            return LEAST_FLOOR
        return max(LEAST_FLOOR, float(data["floor"]))
    except (ValueError, KeyError, TypeError) as error:
        raise MachineError(f"{path} must be as `autotune doctor --noise` wrote it; run that again") from error
