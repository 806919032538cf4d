"""The report: one self-contained page of a bundle or a store, for a browser without a network."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autotune.reports.explain import Explanation
from autotune.reports.format import duration, factor, time_span
from autotune.reports.holdings import Holdings
from autotune.reports.overview import describe_sweeps
from autotune.reports.pictures import Picture, draw_all, draw_history, to_svg
from autotune.reports.portraits import draw_winner
from autotune.reports.tables import best_cells
from autotune.reports.winner import TimedTask, Winner, describe
from autotune.store.bundle import read_bundle

TOP = 3
CHOSEN = re.compile(r"^\s*// \w+ = .*$")  # the comment that names a task's knobs and their values


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Attributes:
        title: Its heading.
        caption: What it says.
        heads: Of the columns.
        rows: Cells.
        numeric: Columns that are set to the right.
    """

    title: str
    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[int] = ()


@dataclass(frozen=True)
class Line:
    """A line of the schedule, and whether the search chose it."""

    text: str
    chosen: bool


def report_bundle(
    folder: Path,
    holdings: Holdings | None = None,
    explanation: Explanation | None = None,
    checks: pd.DataFrame | None = None,
) -> str:
    """The page of a bundle.

    Args:
        folder: The bundle.
        holdings: Trials of its payload; drawn too.
        explanation: What its techniques are worth, if that was measured.
        checks: The history of its regression checks; drawn too.

    Raises:
        BundleError: The bundle is incomplete or edited.
    """
    bundle = read_bundle(folder)
    winner = describe(bundle)
    tables = [key_figures(winner), task_table(winner)]
    pictures = draw_winner(winner, explanation)
    if explanation is not None:
        tables.append(technique_table(explanation))
    if holdings is not None:
        tables += sweep_tables(holdings)
        pictures += draw_all(holdings)
    if checks is not None:
        pictures += draw_history(checks)
    return write_page(
        title=winner.payload,
        lead=winner_sentence(winner),
        notes=winner.notes,
        tables=tables,
        pictures=pictures,
        schedule=[Line(line, bool(CHOSEN.match(line))) for line in bundle.script.splitlines()],
        commands=[
            "# build it again, verify it, time it",
            shlex.join(["autotune", "replay", folder.name]),
            "# how it came about",
            shlex.join(["autotune", "tune", *winner.command[2:]]) if len(winner.command) > 2 else winner.payload,
        ],
    )


def report_store(holdings: Holdings, name: str, checks: pd.DataFrame | None = None) -> str:
    """The page of a store: every payload in it, and the history of regression checks beside it."""
    trials = len(holdings.frame)
    payloads = ", ".join(holdings.frame["payload"].unique()) or "nothing"
    right = int((holdings.frame["outcome"] == "ok").sum())
    return write_page(
        title=f"Sweeps of {payloads}",
        lead=f"{trials} trials in {name}, {right} of them right.",
        notes=(),
        tables=sweep_tables(holdings),
        pictures=[*draw_all(holdings), *(draw_history(checks) if checks is not None else ())],
        schedule=[],
        commands=[shlex.join(["autotune", "inspect", name])],
    )


def write_page(*, pictures: Iterable[Picture], **parts: object) -> str:
    """Fill the template; `parts` are what it names."""
    environment = Environment(
        loader=PackageLoader("autotune.reports"), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    drawn = [
        {"caption": picture.caption, "svg": Markup(to_svg(picture.figure, f"p{index}-"))}
        for index, picture in enumerate(pictures)
    ]
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return environment.get_template("report.html.j2").render(
        **parts, pictures=drawn, foot=f"Written by autotune report, {written}."
    )


def winner_sentence(winner: Winner) -> str:
    """What was reached, in a sentence."""
    share = f", {winner.roof_fraction:.0%} of what its multiply-adds allow" if winner.roof_fraction else ""
    over = f", {factor(winner.speedup)} over {winner.baseline}" if winner.speedup else ""
    return f"One call takes {time_span(winner.seconds)}{share}{over}, on one core of {winner.cpu} ({winner.isa})."


def key_figures(winner: Winner) -> Table:
    """The whole at a glance."""
    rows = [
        ("a call", time_span(winner.seconds)),
        (f"a call of {winner.baseline}", duration(winner.baseline_seconds)),
        ("speed-up", factor(winner.speedup)),
        ("of the FMA roof", f"{winner.roof_fraction:.1%}" if winner.roof_fraction else "-"),
        ("largest error", f"{winner.max_error:.2g}"),
        ("noise floor", f"{winner.noise_floor:.1%}"),
        ("FMA roof", f"{winner.roofs['flops'] / 1e9:.1f} GFLOP/s"),
        ("memory roof", f"{winner.roofs['dram_bytes'] / 1e9:.1f} GB/s"),
        ("intermediates", memory_sentence(winner.buffers)),
        ("compiler", winner.compiler),
    ]
    return Table("At a glance", "As recorded in the bundle; brackets are 95 % intervals.", ("", ""), rows)


def memory_sentence(buffers: dict[str, int] | None) -> str:
    """What the arena holds."""
    if buffers is None:
        return "allocated in every call"
    peak, naive = (buffers[name] / 2**20 for name in ("peak_bytes", "naive_bytes"))
    return f"{buffers['count']} in an arena of {peak:.3g} MiB; {naive:.3g} MiB separately"


def task_table(winner: Winner) -> Table:
    """A row a task."""
    heads = ("task", "runs", "a call", "over baseline", "schedule", "config")
    rows = [task_row(task) for task in winner.tasks]
    return Table("Tasks", "Every distinct unit of the payload, timed alone.", heads, rows, (1, 2, 3))


def task_row(task: TimedTask) -> tuple[str, ...]:
    """One task's cells."""
    ratio = task.baseline_seconds / task.seconds.estimate if task.seconds and task.baseline_seconds else None
    knobs = " ".join(f"{name}={value}" for name, value in (task.config or {}).items())
    return (
        task.tag,
        str(task.count),
        time_span(task.seconds) if task.seconds else "-",
        f"{ratio:.3g}x" if ratio else "-",
        task.schedule or "plain lowering",
        knobs,
    )


def technique_table(found: Explanation) -> Table:
    """What each technique is worth."""
    rows = [
        (row.name, duration(row.seconds.estimate) if row.seconds else row.outcome, factor(row.factor) if i else "")
        for i, row in enumerate(found.rows)
        if i == 0 or row.tasks
    ]
    return Table(
        "Techniques",
        "The winner without one technique at a time.",
        ("without", "a call", "times as long"),
        rows,
        (1, 2),
    )


def sweep_tables(holdings: Holdings) -> list[Table]:
    """What the sweeps found, and what they spent."""
    sweeps = describe_sweeps(holdings.frame, TOP, holdings.roofs)
    best = [
        (sweep["task"] if i == 0 else "", *best_cells(config))
        for sweep in sweeps
        for i, config in enumerate(sweep["best"] or [None])
    ]
    spent = [
        (
            sweep["task"],
            str(sweep["trials"]),
            ", ".join(f"{count} {outcome}" for outcome, count in sweep["outcomes"].items()),
            f"{sweep['trials_per_second']:.2g}" if sweep["trials_per_second"] else "-",
            *(duration(seconds) for seconds in sweep["phase_seconds"].values()),
        )
        for sweep in sweeps
    ]
    phases = tuple(sweeps[0]["phase_seconds"]) if sweeps else ()
    caption = f"The best {TOP} of every task, the machine's drift divided out."
    heads = ("task", "trials", "outcomes", "a second", *phases)
    return [
        Table("Best configs", caption, ("task", "a call", "GFLOP/s", "of roof", "config"), best, (1, 2, 3)),
        Table("Trials", "What became of them, and where the workers' time went.", heads, spent, (1, *range(3, 9))),
    ]
