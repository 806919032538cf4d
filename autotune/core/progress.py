"""Progress display: a status line on a terminal or in a notebook, and permanent notes."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Any, Self

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

from autotune.core.console import duration, terminal
from autotune.core.listener import SILENT, Listener, telling
from autotune.core.printable import brief_line, fold, one_line
from autotune.core.trial import Trial

BAR_WIDTH = 12


class Status(Listener):
    """Current status of a run, which subclasses display. Use as a context manager.

    Args:
        title: Title of the run; empty where the stages say enough.
        trials: Planned number of trials; `None` where there is no search.

    Attributes:
        sentence: Description of the current stage.
        count: Finished trials of the planned ones, as text; empty before the first.
        best: Seconds of the best config of the current task, and of the whole, as text.
        begun: Start of the run, on the monotonic clock.
        until: Expected end of the run, on the monotonic clock; `None` before it is known.
    """

    def __init__(self, title: str = "", trials: int | None = None) -> None:
        self._title, self._trials = title, trials
        self._best_of_task, self._whole = "", ""
        self.sentence, self.count = one_line(title), ""
        self.begun = monotonic()
        self.until: float | None = None

    @property
    def best(self) -> str:
        """Best times of the current task and of the whole; empty before they are known."""
        return ", ".join(filter(None, (self._best_of_task, self._whole)))

    @property
    def left(self) -> str:
        """Forecast of the remaining seconds of the run, as text; empty before the first forecast."""
        return "" if self.until is None else f"~{max(0.0, self.until - monotonic()):.0f} s left"

    def refresh(self) -> None:
        """Display the current status."""

    def __enter__(self) -> Self:
        self._telling = telling(self)
        self._telling.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._telling.__exit__(kind, error, trace)

    def stage(self, sentence: str) -> None:
        """Show the current stage; once all trials are done, without the best time of a task."""
        if self.count == f"{self._trials}/{self._trials}":
            self._best_of_task = ""
        self._say(sentence)

    def trial(self, trial: Trial, counted: int, best: float | None) -> None:
        """Show the outcome of a trial, and the best of its task."""
        self._best_of_task = f"best {duration(best)}"
        self.count = f"{counted}/{self._trials}"
        self._say(f"{trial.outcome}, {trial.task}")

    def forecast(self, left: float, whole: float | None) -> None:
        """Show the progress and remaining time of the run, and the time of the whole with the best configs so far."""
        if whole is not None:
            self._whole = f"whole {duration(whole)}"
        self.until = monotonic() + left
        self.refresh()

    def _say(self, sentence: str) -> None:
        """Show a sentence after the title."""
        self.sentence = one_line(f"{self._title}: {sentence}" if self._title else sentence)
        self.refresh()


class ProgressLine(Status):
    """Status line on stderr, on terminals only; notes are always printed. Use as a context manager.

    Args:
        title: Title of the run; empty where the stages say enough.
        trials: Planned number of trials, for the bar; `None` where there is no search.
        is_spoken: Whether stages are printed as lines where there is no terminal.
    """

    def __init__(self, title: str = "", trials: int | None = None, *, is_spoken: bool = False) -> None:
        super().__init__(title, trials)
        console = terminal(stderr=True)
        console.soft_wrap = True
        self._line = Progress(
            *columns(is_search=trials is not None),
            console=console,
            transient=True,
            expand=True,
            disable=not console.is_terminal,
        )
        self._is_spoken = is_spoken and not console.is_terminal
        self._task = self._line.add_task(self.sentence, total=None, status=self)

    def __enter__(self) -> Self:
        self._line.start()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._line.stop()

    def stage(self, sentence: str) -> None:
        """Show the current stage."""
        if self._is_spoken:
            self.note(sentence)
        super().stage(sentence)

    def note(self, sentence: str) -> None:
        """Print a note for the user."""
        self._print(f"autotune: {brief_line(sentence)}", hanging=2)

    def interim(self, sentence: str) -> None:
        """Print an intermediate result."""
        self._print(brief_line(sentence), indent=2, hanging=4)

    def _print(self, sentence: str, indent: int = 0, hanging: int = 0) -> None:
        """Print a sentence above the status line: folded on a terminal, as one line elsewhere."""
        console = self._line.console
        width = console.width if console.is_terminal else indent + len(sentence) + 1
        console.print("\n".join(fold(sentence, width, indent, hanging)))

    def refresh(self) -> None:
        """Update the status line, which is drawn ten times a second."""
        self._line.update(self._task, description=self.sentence)
        if self.until is not None:
            total = max(self.until - self.begun, 1e-3)
            self._line.update(self._task, completed=monotonic() - self.begun, total=total)


class NotebookLine(Status):
    """Status in the output of a notebook's cell; only the notes remain. Use as a context manager."""

    def __init__(self, title: str = "", trials: int | None = None) -> None:
        super().__init__(title, trials)
        self._notes: list[str] = []
        self._output: Any = None  # display handle of IPython, once something is shown

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._show([])

    def note(self, sentence: str) -> None:
        """Show a note for the user, above the status line."""
        self._notes.append(brief_line(sentence))
        self.refresh()

    def refresh(self) -> None:
        """Display the current status line."""
        elapsed = f"{monotonic() - self.begun:.0f} s"
        self._show(["; ".join(filter(None, (self.sentence, self.count, self.best, elapsed, self.left)))])

    def _show(self, line: list[str]) -> None:
        from IPython.display import display  # noqa: PLC0415 - only where a notebook runs

        bundle = {"text/plain": "\n".join([*self._notes, *line])}
        if self._output is None:
            self._output = display(bundle, raw=True, display_id=True)
        else:
            self._output.update(bundle, raw=True)


@contextmanager
def watching(title: str, trials: int | None = None) -> Iterator[Listener]:
    """Return a listener that shows the progress of a Python call on a terminal or in a notebook; silent elsewhere.

    Args:
        title: Title of the run.
        trials: Planned number of trials; `None` where there is no search.
    """
    console = terminal(stderr=True)
    if console.is_jupyter:
        with NotebookLine(title, trials) as output:
            yield output
    elif console.is_terminal:
        with ProgressLine(title, trials) as line:
            yield line
    else:
        yield SILENT


class StatusColumn(ProgressColumn):
    """Progress column that shows an attribute of a `Status`.

    Args:
        name: Name of the attribute.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def render(self, task: Task) -> Text:
        """Return the text of the column; empty before anything is known."""
        return Text(getattr(task.fields["status"], self._name))


def columns(*, is_search: bool) -> list[ProgressColumn]:
    """Return the columns of the status line; the sentence is elided where the others leave no room for it."""
    sentence = TextColumn(
        "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    elapsed = TextColumn("{task.elapsed:.0f} s")  # TimeElapsedColumn stops once all trials are done
    if not is_search:
        return [SpinnerColumn(), sentence, elapsed]
    count, best, left = map(StatusColumn, ("count", "best", "left"))
    return [sentence, BarColumn(bar_width=BAR_WIDTH), count, best, elapsed, left]
