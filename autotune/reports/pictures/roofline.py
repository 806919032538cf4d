"""The roofline model (Williams, Waterman and Patterson, CACM 2009) with every trial on it."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from autotune.core.host.machine import Roofs
from autotune.reports.pictures.style import (
    GREY,
    INK,
    colour_of,
    figure_of,
    label,
    legend,
    marker_of,
    scale_log,
    shorten,
)


def roofline(rows: pd.DataFrame, roofs: Roofs) -> Figure | None:
    """Plot the rate of every trial over its arithmetic intensity, with the machine's roofs.

    The intensity is operations per byte of all arguments, a lower bound of the bytes that any implementation moves.

    Returns:
        Figure; `None` if no trial's intensity is known.
    """
    right = rows[(rows["outcome"] == "ok") & rows["intensity"].notna() & rows["gflops"].notna()]
    if right.empty:
        return None
    figure, ((axes,),) = figure_of()
    low, high = float(right["intensity"].min()), float(right["intensity"].max())
    ridge = roofs.flops / roofs.dram_bytes
    x = np.geomspace(min(low, ridge) / 4, max(high, ridge) * 4, 200)
    levels = ((roofs.dram_bytes, "memory", "-"), (roofs.l2_bytes, "L2", "--"))
    for slope, level, style in levels:
        text = f"{level}, {slope / 1e9:.3g} GB/s"
        ink = INK if level == "memory" else GREY
        axes.plot(x, np.minimum(roofs.flops, x * slope) / 1e9, ls=style, color=ink, label=text)
    axes.axhline(roofs.flops / 1e9, lw=0.8, color=INK, ls=":", label=f"FMA, {roofs.flops / 1e9:.4g} GFLOP/s")
    drift = right["seconds_median"] / right["seconds_normalised"]
    tasks = list(right["task"].unique())
    for index, (task, name) in enumerate(zip(tasks, shorten(map(str, tasks)), strict=True)):
        is_task = right["task"] == task
        rate = right.loc[is_task, "gflops"] * drift[is_task]
        text = f"{name}, best {rate.max():.3g}"
        axes.scatter(
            right.loc[is_task, "intensity"], rate, 14, colour_of(index), marker=marker_of(index), alpha=0.6, label=text
        )
    scale_log(axes.xaxis)
    scale_log(axes.yaxis)
    label(axes, "Roofline: every trial beside its machine's roofs", "operations a byte of the arguments", "GFLOP/s")
    legend(axes, below=True)
    return figure
