"""`autotune demo`: tune one kernel in a minute, show its hot loop and suggest further commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.plugins import Verb
from autotune.store.folders import OUTPUT

if TYPE_CHECKING:
    from rich.console import Console

    from autotune.core.payload import Payload
    from autotune.reports.comparison import Comparison
    from autotune.tuning.result import TuneResult

KERNEL, TRIALS = "matmul,m=256,n=256,k=256", 24
LIBRARIES = ("numpy", "onnxruntime")  # libraries that start within a second, if they are installed
MOST_LINES = 8  # maximum number of lines of the hot loop
AGREES = 1.2  # largest ratio of two times of the winner that are accepted as undisturbed


def demo(
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where it writes.")] = OUTPUT / "demo",
) -> None:
    """Tune a matmul of 256x256x256, time it beside NumPy, print its hot loop, and name three commands to go on with.

    Takes about a minute. Run again, it resumes.

    Example: autotune demo
    """
    from autotune.core.progress import ProgressLine
    from autotune.reports.compare import compare
    from autotune.reports.compare_options import CompareOptions
    from autotune.reports.format import out
    from autotune.store.store import Store
    from autotune.tuning.options import TuneOptions
    from autotune.tuning.tune import tune
    from autotune.worker.loading.reading import open_payload

    bundle = folder / "bundle"
    folder.mkdir(parents=True, exist_ok=True)
    payload = open_payload(KERNEL)
    with ProgressLine(payload.name, TRIALS) as line, Store.open(folder / "store.journal") as store:
        result = tune(payload, store, bundle, TuneOptions(trials=TRIALS), line)
    with ProgressLine() as line:
        comparison = compare(payload, folder, CompareOptions(against=LIBRARIES, baseline=None), line, bundle=bundle)
    console = out()
    show_times(console, result, comparison)
    show_hot_loop(console, payload, bundle)
    show_next(console, bundle)


def show_times(console: "Console", result: "TuneResult", comparison: "Comparison") -> None:
    """Print the times of the winner and the others with their ratios, but none if the core was disturbed."""
    from autotune.cli.layout import show_sentence
    from autotune.core.console import duration

    rows = {row.name: row.seconds.estimate for row in comparison.rows if row.seconds is not None}
    best = rows.pop("best", result.best_seconds)
    apart = best / result.best_seconds
    shared = "" if 1 / AGREES < apart < AGREES else f"beside libraries it took {apart:.2g} times what it took alone"
    if unsteady := comparison.unsteady or result.unsteady or shared:
        show_sentence(console, f"{result.payload}: verified; not measurable here and now: {unsteady}")
        return
    share = f", {result.roof_fraction:.0%} of the FMA roof" if result.roof_fraction else ""
    show_sentence(console, f"{result.payload}: {duration(best)} a call{share}; verified")
    for name, seconds in rows.items():
        label = "without search" if name == "default" else name
        show_sentence(console, f"{label}: {duration(seconds)}, {seconds / best:.2f} x as long", 2)
    if result.baseline_seconds is not None:
        times = result.baseline_seconds / best
        show_sentence(console, f"naive lowering: {duration(result.baseline_seconds)}, {times:.0f} x as long", 2)


def show_hot_loop(console: "Console", payload: "Payload", bundle: Path) -> None:
    """Print the first instructions of the winner's hot loop."""
    from autotune.bundles.candidates import recorded_candidate
    from autotune.core.errors import MachineError
    from autotune.reports.hot_loop import find_hot_loop, instruction_lines
    from autotune.store.bundle import read_bundle

    try:
        loop = find_hot_loop(payload, recorded_candidate(read_bundle(bundle)))
    except MachineError:  # without a disassembler the demo goes on
        return
    if loop is not None:
        lines = [line.strip() for line in instruction_lines(loop.loop)]
        console.print(f"\nits hot loop, {min(len(lines), MOST_LINES)} of {len(lines)} instructions:", markup=False)
        for text in lines[:MOST_LINES]:
            console.print(f"  {text}", soft_wrap=True, markup=False, highlight=False)


def show_next(console: "Console", bundle: Path) -> None:
    """Print commands to try next."""
    console.print("\nnext:", markup=False)
    for command in (
        f"autotune show {bundle} --stage schedule",
        f"autotune report {bundle} --output report.html",
        "autotune tune YOUR.mlir --trials 100",
    ):
        console.print(f"  {command}", soft_wrap=True, markup=False, highlight=False)


VERB = Verb(demo, "Find schedules", "Tune one kernel in a minute, and say what to try next.", after="import")
