"""What the terminal shows: tables on stdout."""

from collections.abc import Sequence

from rich.table import Table

from autotune.bundles.regress import RegressionFinding
from autotune.bundles.replay import Replay
from autotune.bundles.reproduce import Reproduction
from autotune.core.pages import HUGE_BYTES, gives_huge_pages
from autotune.reports.comparison import Comparison
from autotune.reports.format import duration, factor, out, time_span
from autotune.tuning.result import TuneResult
from autotune.tuning.selftest_figures import Figure
from autotune.worker.doctor import Diagnosis


def show_result(result: TuneResult) -> None:
    """The summary of a tuning run."""
    console = out()
    share = f", {result.roof_fraction:.1%} of the FMA roof" if result.roof_fraction else ""
    console.print(f"{result.payload}: {duration(result.best_seconds)}{share}")
    console.print(
        f"  {factor(result.speedup)} over {result.baseline_name} ({duration(result.baseline_seconds)}), "
        f"max error {result.max_error:.2g}"
    )
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(result.trials.items()))
    rate = 60 * result.evaluated / result.search_seconds if result.search_seconds else 0.0
    console.print(
        f"  trials: {outcomes}; {result.evaluated} run now, {rate:.0f} a minute; {result.seconds:.0f} s in all"
    )
    for note in result.notes:
        console.print(f"  note: {note}")
    console.print(f"  bundle: {result.bundle}", soft_wrap=True)
    console.print(f"  replay: autotune replay {result.bundle}", soft_wrap=True)


def show_replay(found: Replay) -> None:
    """What a replay found."""
    console = out()
    if found.is_right:
        console.print(f"{found.payload}: right, max error {found.max_error:.2g}, {duration(found.best_seconds)}")
    else:
        console.print(f"{found.payload}: {found.outcome}: {found.diagnostic}", soft_wrap=True)
    console.print(f"  speed-up now      {factor(found.speedup)}")
    console.print(f"  speed-up recorded {factor(found.recorded)}: {found.verdict}")
    for difference in found.differences:
        console.print(f"  note: {difference}")


def show_reproduction(found: Reproduction) -> None:
    """What became of a trial, then and now."""
    console = out()
    trial, now = found.trial, found.found
    if found.changed:
        console.print(f"note: {found.changed}")
    console.print(f"recorded: {trial.outcome} {trial.diagnostic}".rstrip(), soft_wrap=True, markup=False)
    console.print(f"now:      {now.outcome} {now.diagnostic}".rstrip(), soft_wrap=True, markup=False)
    console.print(f"files:    {found.folder}", soft_wrap=True)


def show_figures(figures: Sequence[Figure]) -> None:
    """What the self-test found, a promise a line."""
    table = Table(box=None, pad_edge=False)
    for column in ("", "measured", "must be", "", "how"):
        table.add_column(column, overflow="fold")
    for figure in figures:
        table.add_row(figure.name, figure.shown, figure.law, "kept" if figure.holds else "BROKEN", figure.detail)
    out().print(table)


def show_comparison(found: Comparison) -> None:
    """A row a contestant, and what exactly each of them was; notes have been said before."""
    console = out()
    console.print(
        f"{found.payload}: one thread, FMA roof {found.roofs.flops / 1e9:.1f} GFLOP/s; "
        f"gaps below {found.noise_floor:.1%} are noise",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False)
    for column in ("", "time [95 %]", "of roof", f"over {found.ratio_to or 'nothing'} [95 %]", "max error"):
        table.add_column(column, justify="right" if column else "left", no_wrap=bool(column), overflow="fold")
    for row in found.rows:
        table.add_row(
            row.name,
            time_span(row.seconds) if row.seconds else row.outcome,
            f"{row.roof_fraction:.1%}" if row.roof_fraction is not None else "-",
            factor(row.ratio),
            f"{row.max_error:.2g}" if row.max_error is not None else "-",
        )
    console.print(table)
    for row in found.rows:
        what = f"{row.outcome}: {row.diagnostic}" if row.diagnostic else row.version
        console.print(f"  {row.name}: {what}", soft_wrap=True)


def show_diagnosis(found: Diagnosis) -> None:
    """What doctor found."""
    console = out()
    m, roofs = found.machine, found.roofs
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("cpu", f"{m.cpu} ({m.microarchitecture}), {m.cores} core(s)")
    table.add_row("vectors", f"{m.isa}, {m.vector_bits} bits, {m.vector_registers} registers")
    table.add_row("caches", f"L1 {m.l1_bytes >> 10} KiB, L2 {m.l2_bytes >> 10} KiB, L3 {m.l3_bytes >> 10} KiB")
    table.add_row("FMA roof", f"{roofs.flops / 1e9:.1f} GFLOP/s, one core, f32")
    table.add_row(
        "memory roof", f"{roofs.dram_bytes / 1e9:.1f} GB/s from memory, {roofs.l2_bytes / 1e9:.1f} GB/s from L2"
    )
    table.add_row("noise floor", f"{found.noise_floor:.2%} (A/A, 95 of 100)")
    kernel = "" if gives_huge_pages() else ": this kernel gives no huge ones"
    table.add_row("pages", f"{m.pages}, for arrays from {HUGE_BYTES >> 20} MiB{kernel}")
    table.add_row("compiler", found.compiler)
    table.add_row("fingerprint", m.fingerprint)
    console.print(table)
    for sentence in found.missing:
        console.print(f"missing: {sentence}")
    for sentence in found.advice:
        console.print(f"advice: {sentence}")
    if not found.missing:
        console.print("nothing is missing")


def show_findings(findings: Sequence[RegressionFinding]) -> None:
    """Verdicts, and what is not as it was recorded."""
    table = Table(box=None, pad_edge=False)
    for column in ("verdict", "payload", "speed-up", "recorded", "why"):
        table.add_column(column, overflow="fold", justify="right" if column in ("speed-up", "recorded") else "left")
    for finding in findings:
        now, then = (f"{i.estimate:.4g}x" if i is not None else "-" for i in (finding.speedup, finding.recorded))
        table.add_row(finding.verdict, finding.payload, now, then, finding.why)
    console = out()
    console.print(table)
    for finding in findings:
        for note in finding.notes:
            console.print(f"  {finding.payload}: {note}", soft_wrap=True)
