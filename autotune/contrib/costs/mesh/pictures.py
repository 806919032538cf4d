"""Pictures of a mapping: which region has which stage, what goes over the links, and what a call does when."""

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from autotune.contrib.costs.mesh.ops import KINDS
from autotune.contrib.costs.mesh.simulate import Simulation
from autotune.contrib.costs.mesh.traffic import Bytes, traffic_of
from autotune.reports.pictures.style import GREY, INK, colour_of, figure_of, label, legend_below, shorten

MOST_PIXELS = 400  # of a side of the map of traffic; cores that share one show the busiest
MOST_LABELS = 64
MICROSECONDS = 1e6


def draw_all(payload: str, simulation: Simulation) -> dict[str, Figure]:
    """Every picture by name."""
    (payload,) = shorten([payload])
    return {
        "placement": draw_placement(payload, simulation),
        "traffic": draw_traffic(payload, simulation),
        "timeline": draw_timeline(payload, simulation),
    }


def draw_placement(payload: str, simulation: Simulation) -> Figure:
    """Regions of the grid with their stages, joined in the order of the pipeline; how full their cores are."""
    grid, (figure, ((axes,),)) = simulation.grid, figure_of()
    axes.add_patch(Rectangle((0, 0), grid.columns, grid.rows, fill=False, edgecolor=GREY))
    centres = []
    for number, (region, used) in enumerate(zip(simulation.regions, simulation.memory, strict=True)):
        corner = (region.column, region.row)
        share = used / grid.memory
        axes.add_patch(Rectangle(corner, region.width, region.height, facecolor=colour_of(0), alpha=0.1 + 0.6 * share))
        axes.add_patch(Rectangle(corner, region.width, region.height, fill=False, edgecolor=INK, lw=0.6))
        centres.append((region.column + region.width / 2, region.row + region.height / 2))
        if len(simulation.regions) <= MOST_LABELS:
            axes.text(*centres[-1], f"{number}\n{share:.0%}", ha="center", va="center", fontsize=7)
    axes.plot(*zip(*centres, strict=True), color=colour_of(1), lw=1.0, marker="o", ms=2)
    axes.set(xlim=(0, grid.columns), ylim=(grid.rows, 0), aspect="equal")
    axes.grid(visible=False)
    x_label = "column of cores; in each region its stage, and how full its fullest core is"
    label(axes, f"Placement: {payload} on {grid.name}", x_label, "row of cores")
    return figure


def draw_traffic(payload: str, simulation: Simulation) -> Figure:
    """Bytes over the links of every core in a call; of a grid with more cores than pixels the busiest of each."""
    figure, ((axes,),) = figure_of()
    loads = shrink(traffic_of(simulation).by_core)
    grid = simulation.grid
    shown = axes.imshow(loads / 1e3, extent=(0, grid.columns, grid.rows, 0), cmap="viridis", interpolation="nearest")
    axes.grid(visible=False)
    figure.colorbar(shown, ax=axes, label="KB over the links of a core")
    label(axes, f"Traffic of a call: {payload} on {grid.name}", "column of cores", "row of cores")
    return figure


def shrink(loads: Bytes) -> Bytes:
    """A map with at most so many pixels on a side; each shows the largest that it stands for."""
    rows, columns = (max(1, math.ceil(size / MOST_PIXELS)) for size in loads.shape)
    padding = ((0, -loads.shape[0] % rows), (0, -loads.shape[1] % columns))
    padded = np.pad(loads, padding)
    blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    return np.asarray(blocks.max(axis=(1, 3)), dtype=np.float64)


def draw_timeline(payload: str, simulation: Simulation) -> Figure:
    """What a call does when: a row a stage, a colour a kind; of many stages the first ones are as the others."""
    figure, ((axes,),) = figure_of()
    now = 0.0
    bars: dict[str, list[tuple[int, float, float]]] = {}
    for stage, _, phase in simulation.phases():
        bars.setdefault(phase.kind, []).append((stage, now, phase.cycles))
        now += phase.cycles
    scale = MICROSECONDS / simulation.grid.hertz
    handles, names = [], []
    for index, kind in enumerate(KINDS):
        if kind not in bars:
            continue
        stages, starts, widths = map(np.array, zip(*bars[kind], strict=True))
        axes.barh(stages, widths * scale, left=starts * scale, height=0.8, color=colour_of(index))
        handles.append(Patch(color=colour_of(index)))
        names.append(f"{kind}, {widths.sum() / now:.0%}")
    axes.set_ylim(len(simulation.stages) - 0.5, -0.5)
    axes.yaxis.get_major_locator().set_params(integer=True)
    label(axes, f"Time line of a call: {payload} on {simulation.grid.name}", "microseconds", "stage")
    legend_below(figure, handles, names, columns=3)
    return figure
