"""Cost function of a mesh of cores, ``--cost mesh:GRID``: configs are mappings, seconds are simulated."""

from collections.abc import Mapping as Named
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

from autotune.contrib.costs.cost_function import CostedProgram
from autotune.contrib.costs.mesh.grid import Grid, read_argument
from autotune.contrib.costs.mesh.mapping import defaults_of, read_mapping, space_of
from autotune.contrib.costs.mesh.program import STATE, WEIGHT, MeshProgram, read_mesh_program
from autotune.contrib.costs.mesh.simulate import Simulation, crossings
from autotune.core.errors import MachineError
from autotune.core.space import Config, Space, Value

MOST_CACHED = 4096  # simulations in the cache: a search evaluates the same config several times


@dataclass(frozen=True)
class MeshCost:
    """Cost function of a grid.

    Attributes:
        grid: The grid.
        batch: Number of pipelined calls.
        argument: Argument that the user named them by.
    """

    grid: Grid
    batch: int
    argument: str

    @property
    def name(self) -> str:
        """Name that opens it."""
        return f"mesh:{self.argument}"

    def open(self, program: CostedProgram) -> "MeshProgramCost":
        """Return the cost model of a program's mappings.

        Raises:
            MachineError: The program does not fit the grid.
        """
        read = read_mesh_program(program.facts, self.grid.element_bytes)
        if not read.units:
            raise MachineError(f"{program.payload.name} must compute something on a mesh, it has no op that would")
        cost = MeshProgramCost(program.payload.name, read, self.grid, self.batch)
        cost.starts  # noqa: B018 - it is what does not fit
        return cost


def open_mesh(argument: str) -> MeshCost:
    """A simulated mesh of cores, ``mesh:4x4`` or one of the shipped grids; nothing is measured.

    Raises:
        MachineError: There is no such grid.
    """
    grid, batch = read_argument(argument)
    return MeshCost(grid, batch, argument)


class MeshProgramCost:
    """Cost model of the mappings of a program to a grid.

    Attributes:
        payload: Name of the payload.
        program: The program.
        grid: The grid.
        batch: Number of pipelined calls.
    """

    def __init__(self, payload: str, program: MeshProgram, grid: Grid, batch: int = 1) -> None:
        self.payload, self.program, self.grid, self.batch = payload, program, grid, batch
        self._crossing = crossings(program)
        self._known = lru_cache(MOST_CACHED)(self._simulate)

    @cached_property
    def space(self) -> Space:
        """Search space: pipeline stages, their placement, and the loops that are distributed over cores."""
        return space_of(self.program, self.grid)

    def simulation(self, config: Config) -> Simulation:
        """Return the simulation of a config, cached."""
        return self._known(tuple(sorted(config.items())))

    def _simulate(self, config: tuple[tuple[str, Value], ...]) -> Simulation:
        mapping = read_mapping(self.program, dict(config))
        return Simulation(self.program, self.grid, mapping, self.batch, self._crossing)

    @cached_property
    def starts(self) -> tuple[Config, ...]:
        """Default mappings for every partition of the grid into regions, the fastest first.

        Raises:
            MachineError: No mapping fits.
        """
        tried = [(config, self.simulation(config)) for config in defaults_of(self.program, self.grid)]
        fitting = [(config, simulation) for config, simulation in tried if simulation.fits]
        if not fitting:
            raise MachineError(self._why_not(min(max(simulation.memory) for _, simulation in tried)))
        fitting.sort(key=lambda each: each[1].seconds)
        return tuple(config for config, _ in fitting)

    def _why_not(self, most: int) -> str:
        weights, caches = self.program.stored_bytes(WEIGHT), self.program.stored_bytes(STATE)
        grid = self.grid
        needed = f"weights of {amount(weights)}" + (f" and caches of {amount(caches)}" if caches else "")
        requirement = f"{self.payload} must fit the cores' memory: it needs {needed}"
        capacity = f"{grid.cores} cores of {grid.name} hold {amount(grid.capacity)}"
        if weights + caches <= grid.capacity:
            capacity += f", and the fullest core would need {amount(most)} of its {amount(grid.memory)}"
        return f"{requirement}, {capacity}; give a larger grid, memory=, or weights in fewer bytes"

    @property
    def default(self) -> Config:
        """Mapping with the fewest regions that fits.

        Raises:
            MachineError: No mapping fits.
        """
        return min(self.starts, key=lambda config: self.simulation(config).mapping.stages)

    def seconds(self, config: Config) -> float | None:
        """Return the seconds of a call, or of a batch; `None` where a core has too little memory."""
        simulation = self.simulation(config)
        return simulation.seconds if simulation.fits else None

    def explain(self, config: Config) -> tuple[str, ...]:
        """Describe stages, memory, and the breakdown of the time."""
        simulation = self.simulation(config)
        region, stages = simulation.regions[0], len(simulation.regions)
        pipeline = f"{stages} stages of {region.height} x {region.width} cores each"
        sentences = [f"all of {region.height} x {region.width} cores" if stages == 1 else pipeline]
        sentences[0] += f"; the fullest core holds {amount(max(simulation.memory))} of {amount(self.grid.memory)}"
        shares = sorted(simulation.shares().items(), key=lambda each: -each[1])
        sentences.append("of a call " + ", ".join(f"{share:.0%} {kind}" for kind, share in shares))
        if self.batch > 1:
            each = simulation.seconds / self.batch
            alone = 1e6 * simulation.latency
            sentences.append(f"a batch of {self.batch}: {1e6 * each:.4g} us each, a call alone {alone:.4g} us")
        return tuple(sentences)

    def to_json(self, config: Config) -> dict[str, Any]:
        """Return the grid and the simulated figures of the program."""
        simulation = self.simulation(config)
        return {
            "grid": asdict(self.grid),
            "batch": self.batch,
            "weights_bytes": self.program.stored_bytes(WEIGHT),
            "state_bytes": self.program.stored_bytes(STATE),
            "flops": self.program.flops,
            "seconds": simulation.seconds,
            "latency_seconds": simulation.latency,
            "stages": len(simulation.regions),
            "region": list(simulation.regions[0].shape),
            "memory": max(simulation.memory),
            "shares": simulation.shares(),
        }

    def draw(self, config: Config) -> Named[str, Any]:
        """Draw placement, traffic and time line."""
        from autotune.contrib.costs.mesh.pictures import draw_all

        return draw_all(self.payload, self.simulation(config))


def amount(size: float) -> str:
    """Format a number of bytes with a decimal unit."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.4g} GB"
