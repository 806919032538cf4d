"""`Listener`: who is told how a long run goes."""

from autotune.core.trial import Trial


class Listener:
    """Hears how a run goes, and says nothing: override what you want to know.

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
            sentence: What begins.
        """

    def note(self, sentence: str) -> None:
        """Called with what a reader must know, a sentence each.

        Args:
            sentence: What that is.
        """

    def trial(self, trial: Trial, counted: int, best: float | None) -> None:
        """Called after each trial of a search.

        Args:
            trial: What became of it.
            counted: Trials of the budget that are used up, this one included.
            best: Seconds a call of the task's best config so far; `None` before the first success.
        """


SILENT = Listener()


class NoteKeeper(Listener):
    """Passes on to another listener what it hears, and keeps the notes.

    Attributes:
        notes: Sentences heard so far.
    """

    def __init__(self, listener: Listener = SILENT) -> None:
        self.notes: list[str] = []
        self._listener = listener

    def stage(self, sentence: str) -> None:
        """Pass it on."""
        self._listener.stage(sentence)

    def note(self, sentence: str) -> None:
        """Keep it, and pass it on."""
        self.notes.append(sentence)
        self._listener.note(sentence)

    def trial(self, trial: Trial, counted: int, best: float | None) -> None:
        """Pass it on."""
        self._listener.trial(trial, counted, best)
