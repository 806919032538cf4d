"""`Listener`: callbacks for the stages, notes and trials of a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from autotune.core.trial import Trial


class Listener:
    """Base class of callbacks of a run, which do nothing: override those of interest.

    Example:
        >>> class Printer(Listener):
        ...     def stage(self, sentence):
        ...         print(sentence)
        >>> Printer().stage("searching")
        searching
        >>> Printer().note("nobody prints this")
    """

    def stage(self, sentence: str) -> None:
        """Called when a stage begins.

        Args:
            sentence: Description of the stage.
        """

    def note(self, sentence: str) -> None:
        """Called with each note for the user.

        Args:
            sentence: Sentence to show.
        """

    def interim(self, sentence: str) -> None:
        """Called with an intermediate result.

        Args:
            sentence: Sentence to show; the final result repeats it, measured more accurately.
        """

    def trial(self, trial: Trial, counted: int, best: float | None) -> None:
        """Called after each trial of a search.

        Args:
            trial: Trial that is finished.
            counted: Trials of the budget that are used up, this one included.
            best: Seconds a call of the task's best config so far; `None` before the first success.
        """

    def forecast(self, left: float, whole: float | None) -> None:
        """Called when the forecast of the run's remaining time changes.

        Args:
            left: Remaining seconds of the run, including the stages after the search.
            whole: Seconds a call of the whole payload with the best configs so far; `None` where that is not known.
        """


SILENT = Listener()


_listener: ContextVar[Listener] = ContextVar("listener", default=SILENT)


@contextmanager
def telling(listener: Listener) -> Iterator[Listener]:
    """Notify a listener of the stages of reading, importing and compiling in the ``with`` block."""
    before = _listener.set(listener)
    try:
        yield listener
    finally:
        _listener.reset(before)


def tell_stage(sentence: str) -> None:
    """Notify the listener of the innermost `telling` block, if there is one, that a stage begins."""
    _listener.get().stage(sentence)


class NoteKeeper(Listener):
    """Listener that forwards to another one, and records the notes.

    Attributes:
        notes: Sentences received so far.
    """

    def __init__(self, listener: Listener = SILENT) -> None:
        self.notes: list[str] = []
        self._listener = listener

    def stage(self, sentence: str) -> None:
        """Pass it on."""
        self._listener.stage(sentence)

    def note(self, sentence: str) -> None:
        """Record the note, and forward it."""
        self.notes.append(sentence)
        self._listener.note(sentence)

    def interim(self, sentence: str) -> None:
        """Pass it on."""
        self._listener.interim(sentence)

    def trial(self, trial: Trial, counted: int, best: float | None) -> None:
        """Pass it on."""
        self._listener.trial(trial, counted, best)

    def forecast(self, left: float, whole: float | None) -> None:
        """Pass it on."""
        self._listener.forecast(left, whole)
