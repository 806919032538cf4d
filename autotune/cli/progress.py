"""How a verb's work goes, on stderr: one line that changes, and notes that stay."""

from collections.abc import Sequence
from time import monotonic
from types import TracebackType

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
)
from rich.table import Column
from rich.text import Text

from autotune.core.listener import Listener, telling
from autotune.core.payload import Payload
from autotune.core.printable import one_line
from autotune.core.trial import Trial
from autotune.reports.format import duration, terminal
from autotune.worker.loading.reading import open_payload

BAR_WIDTH = 12


class ProgressLine(Listener):
    """A line that says what goes on, on a terminal; notes are printed anywhere. Use as a context manager.

    Args:
        title: What is worked on; empty where stages say it.
        trials: Trials to come, for a bar; `None` where there is no search.
        is_spoken: Stages are printed as lines where there is no terminal.
    """

    def __init__(self, title: str = "", trials: int | None = None, *, is_spoken: bool = False) -> None:
        console = terminal(stderr=True)
        console.soft_wrap = True
        self._line = Progress(
            *columns(is_search=trials is not None),
            console=console,
            transient=True,
            expand=True,
            disable=not console.is_terminal,
        )
        self._title = title
        self._is_spoken = is_spoken and not console.is_terminal
        self._trials, self._best, self._whole = trials, "", ""
        self._begun = monotonic()
        self._task = self._line.add_task(one_line(title), total=None, best="", count="", until=None)

    def __enter__(self) -> "ProgressLine":
        self._line.start()
        self._telling = telling(self)
        self._telling.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._telling.__exit__(kind, error, trace)
        self._line.stop()

    def stage(self, sentence: str) -> None:
        """Show what goes on now."""
        if self._is_spoken:
            self.note(sentence)
        self._line.update(self._task, description=one_line(f"{self._title}: {sentence}" if self._title else sentence))

    def note(self, sentence: str) -> None:
        """Print what a reader must know."""
        self._line.console.print(f"autotune: {one_line(sentence)}")

    def trial(self, trial: Trial, counted: int, best: float | None) -> None:
        """Show what became of a trial, and the best of its task."""
        self.stage(f"{trial.outcome}, {trial.task}")
        self._best = f"best {duration(best)}"
        self._line.update(self._task, count=f"{counted}/{self._trials}", best=self._best + self._whole)

    def forecast(self, left: float, whole: float | None) -> None:
        """Show how far all of the run is, how long it still takes, and what the whole takes with the best so far."""
        elapsed = monotonic() - self._begun
        if whole is not None:
            self._whole = f", whole {duration(whole)}"
        total = max(elapsed + left, 1e-3)
        shown = self._best + self._whole
        self._line.update(self._task, completed=elapsed, total=total, best=shown, until=monotonic() + left)


class LeftColumn(ProgressColumn):
    """Seconds that the whole run still takes, as it was forecast last."""

    def render(self, task: Task) -> Text:
        """The text for a task of the line; empty before anything is known."""
        until = task.fields["until"]
        return Text("" if until is None else f"~{max(0.0, until - monotonic()):.0f} s left")


def columns(*, is_search: bool) -> list[ProgressColumn]:
    """The parts of the line; the sentence is shortened where the others leave no room for it."""
    sentence = TextColumn(
        "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    elapsed = TextColumn("{task.elapsed:.0f} s")  # TimeElapsedColumn stands still once all trials are done
    if not is_search:
        return [SpinnerColumn(), sentence, elapsed]
    count, best = (TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("count", "best"))
    return [sentence, BarColumn(bar_width=BAR_WIDTH), count, best, elapsed, LeftColumn()]


def read_payloads(specs: Sequence[str], line: ProgressLine) -> list[Payload]:
    """The payloads that a user names; the line says what takes the time."""
    line.stage(f"reading {', '.join(specs)}; a model's file is imported the first time, half a minute for a large one")
    return [open_payload(spec) for spec in specs]
