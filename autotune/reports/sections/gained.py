"""First section of a bundle's page: speed-up, key figures, and comparison with libraries."""

from collections.abc import Sequence
from statistics import median

import pandas as pd

from autotune.core.console import duration
from autotune.core.payload import UNPROVED
from autotune.core.stats import Interval
from autotune.reports.compared import RecordedComparison, RecordedRow
from autotune.reports.format import bounds, clocked, roof_text, size, time_span, times
from autotune.reports.headline import best_rival
from autotune.reports.pictures.gallery import Picture, draw_history
from autotune.reports.pictures.winner import draw_rivals, draw_speedups, draw_times
from autotune.reports.sections.blocks import (
    Block,
    DataTable,
    Facts,
    Gallery,
    Heading,
    Notes,
    Section,
    TableCell,
    TableColumn,
    TableRow,
    Tile,
    Tiles,
)
from autotune.reports.sections.cells import count_cell, error_cell, factor_cell, roof_cell, time_cell
from autotune.reports.winner import Winner
from autotune.store.bundle import BundleFiles

ANCHOR, TITLE = "gained", "What was gained"
OURS = "best"  # row of a comparison
ORACLES = {"reference": "float64 oracle", "plain lowering": "plain lowering as oracle"}


def gained_of_bundle(
    bundle: BundleFiles, winner: Winner, compared: RecordedComparison | None, checks: pd.DataFrame | None
) -> Section:
    """Return the section with a bundle's key figures, its recorded comparison if there is one, and its samples."""
    blocks: list[Block] = [
        Tiles(headline(bundle, winner, compared)),
        Facts(conditions(bundle, winner, checks)),
        Notes(plain_notes(winner)),
    ]
    if compared is not None:
        timed = [(row.name, row.time, above(row)) for row in compared.rows if row.time is not None]
        pictures = list(draw_rivals(winner.payload, timed, OURS))
        blocks += [Heading("Beside other libraries"), Gallery(pictures, rival_table(compared))]
    blocks += [Heading("Behind the headline"), Gallery(evidence(bundle, winner, checks), process_table(bundle))]
    return Section(ANCHOR, TITLE, blocks)


def headline(bundle: BundleFiles, winner: Winner, compared: RecordedComparison | None) -> list[Tile]:
    """Return key figures: time, share of the roof, ratio to the best library, error, speed-up over naive lowering."""
    numerics = bundle.manifest.numerics
    worst = max(numerics.outputs.values(), key=lambda output: output.max_error)
    gain = winner.speedup.estimate if winner.speedup else None
    over = f"{ends(winner.speedup)}; {winner.baseline}: {duration(winner.baseline_seconds)}"
    against = "unproved: its own plain lowering as oracle" if numerics.unproved else ORACLES[numerics.oracle]
    roof = f"of {winner.roofs['flops'] / 1e9:.1f} GFLOP/s, one core"
    error = Tile("largest error", f"{winner.max_error:.2g}", f"{worst.tolerance:.2g} allowed, {against}")
    if winner.unsteady:
        return [Tile("time of a call", "not measurable", winner.unsteady), error]
    drift = clocked(winner.seconds.estimate, winner.clock, winner.noise_floor).partition(" (")[2].rstrip(")")
    rival = best_rival(compared)
    rival_tiles = [Tile(f"as fast as {rival.name}", times(rival.ratio), bounds_of(rival.factor))] if rival else []
    return [
        Tile("time of a call", duration(winner.seconds.estimate), join([interval_text(winner.seconds), drift])),
        Tile("of its units' roofs" if winner.rounded else "of the FMA roof", roof_text(winner.roof_fraction), roof),
        *rival_tiles,
        error,
        Tile("over the naive lowering", times(gain), over),
    ]


def join(parts: Sequence[str]) -> str:
    """Join the parts that are not empty with commas."""
    return ", ".join(filter(None, parts))


def interval_text(seconds: Interval) -> str:
    """Format a time's interval, or state that there is a single sample."""
    return f"{bounds(seconds)}, 95 % interval" if seconds.low < seconds.high else "one sample, no interval"


def ends(ratio: Interval | None) -> str:
    """Format the ends of a factor's interval, or state that there is a single sample or none."""
    if ratio is None:
        return "not measured"
    return f"[{ratio.low:.4g}, {ratio.high:.4g}]" if ratio.low < ratio.high else "one sample"


def conditions(bundle: BundleFiles, winner: Winner, checks: pd.DataFrame | None) -> dict[str, str]:
    """Return the machine, versions and other conditions of the measurement."""
    data, machine = bundle.manifest, bundle.manifest.machine
    facts = {
        "machine": f"{machine.cpu} ({machine.microarchitecture}), {machine.isa}, one thread",
        "caches": f"L1 {size(machine.l1_bytes)}, L2 {size(machine.l2_bytes)}, L3 {size(machine.l3_bytes)}",
        "memory roof": f"{winner.roofs['dram_bytes'] / 1e9:.1f} GB/s from memory, "
        f"{winner.roofs['l2_bytes'] / 1e9:.1f} GB/s from L2",
        "noise floor": f"{winner.noise_floor:.1%}: smaller differences count as equal",
        "intermediates": memory_text(winner.buffers),
        "compiler": data.versions.compiler,
        "autotune": f"{data.versions.autotune}, Python {data.versions.python}",
        "fingerprint": data.fingerprint,
    }
    if checks is not None and len(checks):
        last = checks.sort_values("time", kind="stable").iloc[-1]
        facts["last check"] = f"{last['time']:%Y-%m-%d %H:%M} UTC: {last['verdict']}"
    return facts


def memory_text(buffers: dict[str, int] | None) -> str:
    """Describe the memory of intermediates."""
    if buffers is None:
        return "allocated in every call"
    if not buffers["count"]:
        return "none"
    peak, naive = size(buffers["peak_bytes"]), size(buffers["naive_bytes"])
    return f"{buffers['count']} in an arena of {peak}; {naive} separately"


def plain_notes(winner: Winner) -> list[str]:
    """Return the notes of a winner, with tags replaced by readable names of tasks."""
    return [named(note, {task.tag: task.name for task in winner.tasks}) for note in winner.notes]


def named(text: str, names: dict[str, str]) -> str:
    """Replace every tag in a text by its task's name, longer tags first."""
    for tag in sorted(names, key=len, reverse=True):
        text = text.replace(tag, names[tag])
    return text


def rival_table(compared: RecordedComparison) -> DataTable:
    """Return a table of a comparison's entries, the fastest first."""
    rows = sorted(compared.rows, key=lambda row: row.seconds or float("inf"))
    heads = ("program", "time of a call", f"over {compared.ratio_to or 'nothing'}", "of the roof", "largest error")
    caption = "As autotune compare recorded it on this machine; brackets are 95 % intervals."
    if compared.unproved:
        caption += f" Errors are {UNPROVED}."
    return DataTable(caption, [TableColumn(head, head != heads[0]) for head in heads], [rival_row(row) for row in rows])


def rival_row(row: RecordedRow) -> TableRow:
    """Return the row of an entry."""
    cells = [
        TableCell(row.name, title=row.version),
        time_cell(row.seconds, span_of(row)) if row.seconds else TableCell(row.outcome),
        TableCell(f"{times(row.ratio)} {bounds_of(row.factor)}".strip(), row.ratio),
        roof_cell(row.roof_fraction),
        error_cell(row.max_error),
    ]
    return TableRow(cells, marked=row.name == OURS)


def above(row: RecordedRow) -> str:
    """Return the annotation of an entry in a plot: its ratio, or its time if it is the reference row."""
    return duration(row.seconds) if row.name == OURS or row.ratio is None else times(row.ratio)


def span_of(row: RecordedRow) -> str:
    """Format an entry's time with its interval; empty without a time."""
    return f"{time_span(row.time)}, 95 % interval" if row.time is not None else ""


def bounds_of(ratio: Interval | None) -> str:
    """Format the ends of a factor's interval; empty without one."""
    return f"[{ratio.low:.3g}, {ratio.high:.3g}]" if ratio is not None else ""


def process_table(bundle: BundleFiles) -> DataTable:
    """Return a table of the processes that measured, with medians of the winner and of the baseline."""
    heads = ("process", "samples", "winner", "baseline", "over baseline")
    rows = []
    for number, session in enumerate(bundle.manifest.samples, 1):
        best = median(session.best_seconds)
        baseline = median(session.baseline_seconds) if session.baseline_seconds else None
        gain = baseline / best if baseline else None
        counts = (count_cell(number), count_cell(len(session.best_seconds)))
        rows.append(TableRow([*counts, time_cell(best), time_cell(baseline), factor_cell(gain)]))
    caption = "The whole was timed in these processes, interleaved with its baseline; medians."
    return DataTable(caption, [TableColumn(head, numeric=head != heads[0]) for head in heads], rows)


def evidence(bundle: BundleFiles, winner: Winner, checks: pd.DataFrame | None) -> list[Picture]:
    """Return the plots of the tasks' speed-ups, of all samples, and of regression checks."""
    sessions = [(session.best_seconds, session.baseline_seconds) for session in bundle.manifest.samples]
    tasks = [(t.name, t.baseline_seconds, t.seconds) for t in winner.tasks]
    gained = [(name, base / seconds.estimate) for name, base, seconds in tasks if base and seconds]
    return [
        *draw_speedups(winner.payload, winner.baseline, gained),
        *draw_times(winner.payload, sessions, winner.baseline),
        *(draw_history(checks) if checks is not None else ()),
    ]
