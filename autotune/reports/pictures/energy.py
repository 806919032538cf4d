"""Plot of energy over time: every trial whose energy was measured, and the Pareto front."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from autotune.reports.pictures.style import colour_of, figure_of, label, legend, marker_of, scale_log, shorten


def energy(rows: pd.DataFrame) -> Figure:
    """Plot the energy per call over its time, with the Pareto front of each task as steps."""
    figure, ((axes,),) = figure_of()
    known = rows[rows["joules"].notna() & rows["seconds_normalised"].notna()]
    tasks = list(known["task"].unique())
    for index, (task, name) in enumerate(zip(tasks, shorten(map(str, tasks)), strict=True)):
        trials = known[known["task"] == task].sort_values(["seconds_normalised", "joules"])
        seconds, joules = trials["seconds_normalised"].to_numpy(), trials["joules"].to_numpy()
        front = joules < np.minimum.accumulate(np.concatenate(([np.inf], joules[:-1])))
        colour = colour_of(index)
        axes.scatter(seconds, joules, 14, colour, marker=marker_of(index), alpha=0.4)
        text = f"{name}, {front.sum()} on the front"
        axes.step(seconds[front], joules[front], color=colour, where="post", marker=marker_of(index), ms=4, label=text)
    scale_log(axes.xaxis, "s")
    scale_log(axes.yaxis, "J")
    label(axes, "Energy and time of every config", "seconds a call", "joules a call, of the whole processor")
    legend(axes, below=True)
    return figure
