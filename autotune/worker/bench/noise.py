"""Noise floor: how much two measurements of the same program differ on this machine (A/A comparison).

Pairs of programs are timed as finalists are: interleaved sample by sample, in random order.
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
PAIR_SECONDS = 60.0  # time limit of a comparison, which takes one second on a quiet core
LEAST_FLOOR = 0.01  # the resolution of a handful of pairs
FORMAT_VERSION = 1  # of the file: {"format_version", "fingerprint", "floor", "pairs"}
FILE = "noise.json"


@dataclass(frozen=True)
class NoisePair:
    """Paired samples of two programs, in seconds per call."""

    a: tuple[float, ...]
    b: tuple[float, ...]


def time_copies(machine: Machine, worker: Bench, count: int) -> list[NoisePair]:
    """Time pairs of separately compiled copies of one program, alternately compute-bound and memory-bound.

    Args:
        machine: The host.
        worker: Bench to measure in.
        count: Number of pairs; each takes up to a second.
    """
    alone = (read_payload(machine.lanes, machine.l2_bytes // 2), spin_payload(machine.lanes, STEPS))
    kernels = [on_threads(kernel, machine.threads) for kernel in alone]
    candidate = Candidate(None, tail(machine.threads))
    return [
        pair
        for seed in range(count)
        if (pair := time_pair(kernels[seed % 2], (candidate, candidate), machine, worker, seed)) is not None
    ]


def time_unequal(machine: Machine, worker: Bench, count: int, slower: float) -> list[NoisePair]:
    """Time pairs of a program and one with `slower` times its work: ``slower=1.05`` is five per cent more."""
    payload, more = spin_payload(machine.lanes, STEPS), spin_payload(machine.lanes, round(STEPS * slower))
    candidates = (Candidate(None, tail(1)), Candidate(None, tail(1), more.text))
    pairs = [time_pair(payload, candidates, machine, worker, seed) for seed in range(count)]
    return [pair for pair in pairs if pair is not None]


def time_pair(
    payload: Payload, both: tuple[Candidate, Candidate], machine: Machine, worker: Bench, seed: int
) -> NoisePair | None:
    """Time two candidates, interleaved; return `None` if either fails."""
    a, b = worker.evaluate(Job(payload, both, machine, seed=seed, effort=EFFORT), PAIR_SECONDS)
    return NoisePair(a.samples.seconds, b.samples.seconds) if a.samples and b.samples else None


def measure_noise(machine: Machine, worker: Bench, pairs: int = FULL.pairs) -> float:
    """Measure the noise floor: the 95th percentile of the relative difference in A/A pairs, at least `LEAST_FLOOR`.

    Args:
        machine: The host.
        worker: Bench to measure in.
        pairs: Number of comparisons to make.
    """
    return floor_of(time_copies(machine, worker, pairs))


def floor_of(pairs: Sequence[NoisePair]) -> float:
    """Compute the noise floor from A/A pairs."""
    return max(LEAST_FLOOR, noise_floor([(pair.a, pair.b) for pair in pairs])) if pairs else LEAST_FLOOR


def write_floor(folder: Path, machine: Machine, floor: float, pairs: int) -> Path:
    """Write a machine's noise floor to a file for `read_floor`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = floor_file(folder, machine)
    data = {"format_version": FORMAT_VERSION, "fingerprint": machine.fingerprint, "floor": floor, "pairs": pairs}
    write_file(path, json.dumps(data) + "\n")
    return path


def floor_file(folder: Path, machine: Machine) -> Path:
    """Return the path of a machine's noise floor file; each number of threads has its own."""
    return folder / (FILE if machine.threads == 1 else f"noise_on_{machine.threads}_threads.json")


def read_floor(folder: Path, machine: Machine) -> float:
    """Read a machine's noise floor; return `LEAST_FLOOR` if there is no file for it.

    Raises:
        MachineError: The file was not written by `write_floor`.
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
