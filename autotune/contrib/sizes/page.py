"""HTML page of a model of any size: expected times of calls, compiled sizes, and next commands."""

import shlex
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from autotune.contrib.sizes.bounds import name_of
from autotune.contrib.sizes.folder import CompiledSize, SizedModel, read_sized
from autotune.contrib.sizes.paths import bundle_folder
from autotune.contrib.sizes.plan import describe, spaced
from autotune.contrib.sizes.proof import Dim
from autotune.core.console import duration
from autotune.reports.page import write_page
from autotune.reports.pictures.gallery import Picture, plain_name
from autotune.reports.pictures.style import (
    SETTINGS,
    colour_of,
    figure_of,
    label,
    legend,
    marker_of,
    scale_log,
    style_of,
)
from autotune.reports.sections.blocks import (
    Block,
    Commands,
    DataTable,
    Gallery,
    Notes,
    Paragraph,
    Section,
    TableCell,
    TableColumn,
    TableRow,
)
from autotune.store.manifest import MANIFEST_FILE

MOST_POINTS = 256  # per curve
CURVES = 4  # sizes of the other dimensions, one curve each


def sized_page(folder: Path) -> str:
    """Return the page of a folder.

    Raises:
        PayloadError: The folder's description is missing or damaged.
    """
    model = read_sized(folder)
    count = f"{len(model.sizes)} compiled {'size' if len(model.sizes) == 1 else 'sizes'}"
    lead = f"One folder, {count}, serves every size: {'; '.join(describe(model.dims))}."
    verified = f"Verified at {model.tried} sizes beside the model's own runtime: off by {model.error:.1g} at most."
    blocks: list[Block] = [
        Gallery([draw_expected(model)], expected_table(model)),
        sizes_table(folder, model),
        Notes([verified]),
    ]
    name = shlex.quote(folder.absolute().name)
    again = [
        "# search schedules of every compiled size",
        f"autotune tune {name}",
        "# one library that serves every size",
        f"autotune emit {name} --as c",
    ]
    text = f"The folder is {folder.absolute().name}; the commands are for the one that it lies in."
    return write_page(
        model.source,
        lead,
        [
            Section("sizes", "What calls are expected to take", blocks),
            Section("again", "How to go on", [Paragraph(text), Commands(again)]),
        ],
    )


def draw_expected(model: SizedModel) -> Picture:
    """Return the picture of call time over the size of the widest dimension."""
    along = widest(model.dims)
    ends = {dim.name: dim.low for dim in model.dims}, {dim.name: dim.high for dim in model.dims}
    low, high = (duration(float(seconds)) for seconds in model.seconds_of(ends))
    caption = f"Expected time of a call over {along.name}: from {low} to {high}. Marks are compiled sizes."
    with mpl.rc_context(SETTINGS):
        return Picture(f"{plain_name(model.source)}-expected", caption, expected(model, along))


def expected(model: SizedModel, along: Dim) -> Figure:
    """Plot a curve for each of some sizes of the other dimensions, and a mark for each compiled size."""
    figure, axes_of = figure_of()
    axes, points = axes_of[0][0], points_along(along)
    for number, other_sizes in enumerate(others_of(model.dims, along)):
        seconds = model.seconds_of([{**other_sizes, along.name: size} for size in points])
        axes.plot(points, seconds, color=colour_of(number), ls=style_of(number), label=name_of(other_sizes) or None)
    for number, each in enumerate(model.sizes):
        style = {"marker": marker_of(number), "color": "#222222", "ls": "", "ms": 5}
        axes.plot([each.sizes[along.name]], [each.seconds], label=each.name, **style)
    scale_log(axes.xaxis)
    scale_log(axes.yaxis, "s")
    label(axes, f"Expected time of {model.source}", along.name, "time of a call")
    legend(axes, below=True)
    return figure


def widest(dims: Sequence[Dim]) -> Dim:
    """Return the dimension with the largest ratio of its bounds."""
    return max(dims, key=lambda dim: dim.high / dim.low)


def points_along(dim: Dim) -> list[int]:
    """Return the sizes that a curve is evaluated at: all, or evenly spaced ones including the borders."""
    return sorted({round(size) for size in np.linspace(dim.low, dim.high, min(MOST_POINTS, dim.high - dim.low + 1))})


def others_of(dims: Sequence[Dim], along: Dim) -> list[dict[str, int]]:
    """Return the sizes of the other dimensions, one set for each curve."""
    rest = [dim for dim in dims if dim is not along]
    lists = [spaced(dim.low, dim.high, CURVES if len(rest) == 1 else 2) for dim in rest]
    return [dict(zip([dim.name for dim in rest], sizes, strict=True)) for sizes in product(*lists)]


def expected_table(model: SizedModel) -> DataTable:
    """Return a table of the expected times of requests of some sizes."""
    along = widest(model.dims)
    sizes = [
        {**other_sizes, along.name: size}
        for other_sizes in others_of(model.dims, along)
        for size in spaced(along.low, along.high, CURVES)
    ]
    names = [dim.name for dim in model.dims]
    rows = [
        TableRow([*(TableCell(str(each[name]), each[name]) for name in names), TableCell(duration(took), took)])
        for each, took in zip(sizes, map(float, model.seconds_of(sizes)), strict=True)
    ]
    return DataTable("Expected time of a call.", [TableColumn(name, True) for name in (*names, "time")], rows)


def sizes_table(folder: Path, model: SizedModel) -> DataTable:
    """Return the table of compiled sizes."""
    heads = [TableColumn("size"), TableColumn("time", True), TableColumn("schedules"), TableColumn("also serves")]
    return DataTable("Compiled sizes.", heads, [TableRow(size_row(folder, each)) for each in model.sizes])


def size_row(folder: Path, each: CompiledSize) -> list[TableCell]:
    """Return the table row of a compiled size: its time, whether it is tuned, and what else it serves."""
    tuned = (bundle_folder(folder, each.sizes) / MANIFEST_FILE).is_file()
    also = f"multiples of {each.grain} below" if each.grain else "-"
    time = TableCell(duration(each.seconds), each.seconds)
    return [TableCell(each.name), time, TableCell("tuned" if tuned else "default"), TableCell(also)]
