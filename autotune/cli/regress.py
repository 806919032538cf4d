"""`autotune regress`: check bundles for regressions of speed and correctness."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.bundles.regress_options import REGRESS_OPTIONS, RegressOptions
from autotune.cli.options import AsJson, with_options
from autotune.core.host.whole_file import write_file
from autotune.core.verb_options import options_given
from autotune.store.folders import home

if TYPE_CHECKING:
    from autotune.bundles.finding import RegressionFinding


TOO_NOISY = 3  # exit code


@with_options(REGRESS_OPTIONS)
def regress(
    bundles: Annotated[
        list[Path] | None, typer.Argument(metavar="BUNDLE", help="Folders; by default all of this machine.")
    ] = None,
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of --update; default tuned/MACHINE/history.jsonl.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write findings as JSON, besides the table.")
    ] = None,
    as_json: AsJson = False,
    junit_file: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report.")] = None,
    **words: Any,  # noqa: ANN401 - the fields of RegressOptions, by `with_options`
) -> None:
    """Measure bundles again, each against its baseline, and compare speed-ups with those recorded.

    Verdicts: ok, faster, slower, wrong (no longer what the oracle says), stale (payload edited, or another machine),
    inconclusive (too noisy, or left out by --quick). Exit 1 if one is slower or wrong, 2 if one is refused, 3 if
    none is, but one was too noisy to judge.

    Example: autotune regress tuned/MACHINE/bundles/nano --quick
    """
    from autotune.bundles.junit import junit, to_checks
    from autotune.bundles.regress import bundles_in, regress
    from autotune.core.progress import ProgressLine
    from autotune.store.history import HISTORY_FILE, append_history

    options = options_given(RegressOptions, REGRESS_OPTIONS, words)
    with ProgressLine() as line:
        findings = regress(bundles or bundles_in(home() / "bundles"), options, line)
    records = [finding.to_json() for finding in findings]
    if as_json:
        typer.echo(json.dumps(records))
    else:
        show_findings(findings)
    if output is not None:
        write_file(output, json.dumps(records, indent=1) + "\n")
    if junit_file is not None:
        write_file(junit_file, junit(findings))
    if options.update:
        now = datetime.now(UTC).replace(microsecond=0)
        append_history(history or home() / HISTORY_FILE, to_checks(findings, now))
    else:
        raise typer.Exit(exit_code(findings))


def exit_code(findings: "Sequence[RegressionFinding]") -> int:
    """Return 1 if a bundle is slower or wrong, else `TOO_NOISY` if one could not be judged, else 0."""
    if any(finding.alarms for finding in findings):
        return 1
    return TOO_NOISY if any(finding.is_too_noisy for finding in findings) else 0


def show_findings(findings: "Sequence[RegressionFinding]") -> None:
    """Print verdicts with their reasons, and differences from the recording."""
    from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
    from autotune.reports.format import out

    console = out()
    rows = []
    for finding in findings:
        shown = None if finding.is_too_noisy else finding.speedup
        now, then = (f"{i.estimate:.4g}x" if i is not None else "-" for i in (shown, finding.recorded))
        rows.append(TextRow(finding.payload, (verdict_of(finding), now, then), finding.why))
    columns = tuple(map(Column, ("verdict", "speed-up", "recorded")))
    show_table(console, Table("payload", columns, tuple(rows), "why"))
    for finding in findings:
        for note in finding.notes:
            show_sentence(console, f"{finding.payload}: {note}", 2)


def verdict_of(finding: "RegressionFinding") -> str:
    """Format a verdict, marked as unproved if the only oracle is the payload's own lowering."""
    return f"{finding.verdict}, unproved" if finding.unproved else finding.verdict
