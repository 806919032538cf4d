"""What the terminal shows of a regression check: a status on stderr, a line a bundle on stdout."""

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.table import Table

from autotune.regress import Finding
from autotune.tables import out


class Status:
    """A line on stderr that says what goes on."""

    def __init__(self) -> None:
        self._status = Console(stderr=True, highlight=False, markup=False).status("")

    def __enter__(self) -> "Status":
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def say(self, sentence: str) -> None:
        """What goes on now."""
        self._status.update(sentence)


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
