"""What the terminal shows of a regression check: a line a bundle."""

from collections.abc import Sequence

from rich.table import Table

from autotune.regress import Finding
from autotune.tables import out


def show_findings(findings: Sequence[Finding]) -> None:
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
