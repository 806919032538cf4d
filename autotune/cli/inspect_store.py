"""Output of `inspect` for a store: one row per task with the knobs that the search chose."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from autotune.cli.curve import draw_curve
from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
from autotune.core.console import duration
from autotune.core.host.machine import Roofs
from autotune.core.payload import UNPROVED
from autotune.core.space import Config
from autotune.core.task_names import tell_apart
from autotune.registry import rounding_names
from autotune.reports.format import above_roof, out, roof_text
from autotune.reports.overview import Overview
from autotune.reports.versus import Side, SweepPair, Versus

COLUMNS = (
    Column("time"),
    Column("GFLOP/s", optional=True),
    Column("roof"),
    Column("trials"),
    Column("failed"),
    Column("speed-up"),
)
LEGEND = "no knobs below: the default config"
VERSUS = (
    Column("here"),
    Column("there"),
    Column("there / here [95 %]"),
    Column("GFLOP/s here", optional=True),
    Column("there", optional=True),
)


def show_overview(overview: Overview, *, full: bool = False) -> None:
    """Print an overview: best configs, progress of the searches, and the workers' time by phase.

    Args:
        overview: Overview of a store.
        full: Whether to print all knobs and outcomes, not only what differs from the default config.
    """
    console = out()
    sweeps = overview.describe()
    for payload in dict.fromkeys(sweep["payload"] for sweep in sweeps):
        mine = [sweep for sweep in sweeps if sweep["payload"] == payload]
        show_table(console, sweep_table(payload, mine, overview.names(payload), full=full))
        if any(sweep["unproved"] for sweep in mine):
            show_sentence(console, UNPROVED, 2)
        for line in draw_curve(overview.courses(payload), console.width):
            console.print(line, markup=False)
        console.print()
    if not sweeps:
        show_sentence(console, "no trials")
        return
    show_sentence(console, spending(sweeps))
    show_legend(console, overview.roofs, sweeps, full=full)


def sweep_table(payload: str, sweeps: list[dict[str, Any]], names: Mapping[str, str], *, full: bool) -> Table:
    """Return the table with one row per task, and one for each of its next best configs."""
    origins = {(sweep["machine"], sweep["compiler"]) for sweep in sweeps}
    rows = []
    for sweep in sweeps:
        about = f"{sweep['task']}: {outcomes(sweep)}\n" if full else ""
        if len(origins) > 1:
            about += f"machine {sweep['machine']}, {sweep['compiler']}\n"
        counts = (str(sweep["trials"]), str(failed(sweep)))
        for index, best in enumerate(sweep["best"] or [None]):
            first = index == 0
            name = names[sweep["task"]] if first else ""
            text = best_text(best, full=full) if best else f"no trial succeeded: {outcomes(sweep)}"
            rows.append(TextRow(name, cells(best, counts if first else ("", "")), about * first + text))
    return Table(payload, COLUMNS, tuple(rows), "" if full else "not as by default")


def cells(best: dict[str, Any] | None, counts: tuple[str, str]) -> tuple[str, ...]:
    """Return the numeric cells of a config; times are normalized by the reference kernel, as for the ranking."""
    if best is None:
        return ("-", "-", "-", *counts, "-")
    seconds = best["seconds_normalised"]
    rate = f"{best['gflops'] * best['seconds'] / seconds:.1f}" if best["gflops"] else "-"
    speedup = f"{best['over_default']:.2f}x" if best["over_default"] else "-"
    return (duration(seconds), rate, roof_text(best["roof_fraction"]), *counts, speedup)


def best_text(best: dict[str, Any], *, full: bool) -> str:
    """Return the text of the knobs that the search chose."""
    if best["changed"] is None:
        return f"{best['family']}: {spell(best['config'])} (default not recorded)"
    return config_text(best["family"], best["config"], best["changed"], full=full)


def config_text(family: str, config: Config, changed: Config, *, full: bool) -> str:
    """Return the family and the knobs that differ from the default, empty if none does; with `full`, all knobs.

    Example:
        >>> config_text("fused", {"rows": 4, "vectors": 2}, {"rows": 4}, full=False)
        'fused: rows=4'
    """
    if not full:
        return f"{family}: {spell(changed)}" if changed else ""
    same = {name: value for name, value in config.items() if name not in changed}
    parts = [spell(changed), f"as by default: {spell(same)}" if same else ""]
    return f"{family}: " + "\n".join(filter(None, parts))


def spell(config: Config) -> str:
    """Format knobs and values."""
    return " ".join(f"{name}={value}" for name, value in config.items())


def outcomes(sweep: dict[str, Any]) -> str:
    """Format the number of trials by outcome."""
    return ", ".join(f"{count} {outcome}" for outcome, count in sweep["outcomes"].items())


def failed(sweep: dict[str, Any]) -> int:
    """Return the number of failed trials, without duplicates."""
    return sum(count for outcome, count in sweep["outcomes"].items() if outcome not in ("ok", "duplicate"))


def spending(sweeps: list[dict[str, Any]]) -> str:
    """Return a sentence on the workers' time by phase."""
    phases = {name: sum(sweep["phase_seconds"][name] for sweep in sweeps) for name in sweeps[0]["phase_seconds"]}
    total = sum(phases.values())
    ran = sum(sweep["trials"] - sweep["outcomes"].get("duplicate", 0) for sweep in sweeps)
    if not total:
        return f"{ran} trials ran; no time is recorded"
    shares = ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in phases.items())
    return f"workers: {duration(total)} for {ran} trials, {ran / total:.2g} a second; {shares}"


def show_legend(console: Console, roofs: Roofs | None, sweeps: list[dict[str, Any]], *, full: bool) -> None:
    """Print the reference of shares and speed-ups, or why they are unknown."""
    sentences = ["time: the machine's drift divided out"]
    if roofs is not None:
        rate = f"{roofs.flops / 1e9:.1f} GFLOP/s"
        rounded = any(best["family"] in rounding_names() for sweep in sweeps for best in sweep["best"])
        units = ", of the roof of its unit where operands are rounded" if rounded else ""
        sentences.append(f"roof: share of the FMA roof, {rate} as the newest run measured it{units}")
    bests = [best for sweep in sweeps for best in sweep["best"]]
    if any(best["changed"] is not None for best in bests):
        sentences.append("speed-up: over the default config in the same sweep, - where that was not measured")
    if not full and any(best["changed"] == {} for best in bests):
        sentences.append(LEGEND)
    if above := above_roof(best["roof_fraction"] for best in bests):
        sentences.append(above)
    show_sentence(console, "; ".join(sentences))
    if any(best["changed"] is None for best in bests):
        show_sentence(console, "default configs are recorded by the next `autotune tune` into this store")


def show_versus(versus: Versus) -> None:
    """Print a comparison of two sets of sweeps, task by task."""
    console = out()
    show_sentence(console, f"here: {versus.here}; there: {versus.there}")
    sides = [side for pair in versus.pairs for side in (pair.here, pair.there)]
    names = tell_apart({side.task: side.name for side in sides})
    one_payload = len({side.payload for side in sides}) == 1
    labels = {side: names[side.task] if one_payload else f"{side.payload}: {names[side.task]}" for side in sides}
    show_table(console, Table("task", VERSUS, tuple(versus_row(pair, labels) for pair in versus.pairs), "search"))
    show_sentence(
        console,
        "Above 1: the sweep here found the faster config. Drift is divided out, but two sessions were compared.",
    )


def versus_row(pair: SweepPair, labels: Mapping[Side, str]) -> TextRow:
    """Return the row of a task on both sides."""
    sides = (pair.here, pair.there)
    names = dict.fromkeys(labels[side] for side in sides)
    ratio = f"{pair.ratio.estimate:.3f} [{pair.ratio.low:.3f}, {pair.ratio.high:.3f}]" if pair.ratio else "-"
    rates = (f"{side.gflops:.1f}" if side.gflops else "-" for side in sides)
    reached = " and ".join("never" if side.to_95 is None else str(side.to_95) for side in sides)
    sentence = f"trials {pair.here.trials} and {pair.there.trials}; within 5 % of the better one after {reached}"
    return TextRow(
        " | ".join(names), (duration(pair.here.seconds), duration(pair.there.seconds), ratio, *rates), sentence
    )
