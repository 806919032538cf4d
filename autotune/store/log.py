"""Record log of one study, in an Optuna storage for files and SQLite; database servers have their own class."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import optuna
from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class LogEntry:
    """One record of a study.

    Attributes:
        number: Index in the study, from 0.
        value: Value of the log's user attribute; `None` if the record has none.
    """

    number: int
    value: Any


class Log(Protocol):
    """Records of one study, in the order in which they were recorded.

    Attributes:
        name: Name of the study.
    """

    name: str

    def about(self) -> dict[str, Any]:
        """Return the user attributes of the study."""
        ...

    def tell(self, key: str, value: object) -> None:
        """Set a user attribute of the study."""
        ...

    def news(self) -> list[LogEntry]:
        """Return the entries recorded by any process since the last call; the first call returns all."""
        ...

    def add(self, record: FrozenTrial, is_known: Callable[[Sequence[LogEntry]], bool]) -> None:
        """Record a finished trial atomically.

        Args:
            record: The trial.
            is_known: Predicate that returns whether the entries since the last `news` contain the trial; called before
                a write whose outcome is unknown is repeated.
        """
        ...

    def extend(self, records: Sequence[FrozenTrial]) -> None:
        """Record trials unchanged, in order; no other process may record any meanwhile."""
        ...


class StudyLog:
    """Log of a study in an Optuna storage."""

    def __init__(self, study: optuna.Study, key: str) -> None:
        self.name = study.study_name
        self._study = study
        self._key = key
        self._read = 0

    def about(self) -> dict[str, Any]:
        """Return the user attributes of the study."""
        return self._study.user_attrs

    def tell(self, key: str, value: object) -> None:
        """Set a user attribute of the study."""
        self._study.set_user_attr(key, value)

    def news(self) -> list[LogEntry]:
        """Return the entries recorded since the last call."""
        stored = self._study.get_trials(deepcopy=False)
        fresh = stored[self._read :]
        self._read = len(stored)
        malformed = next((record.number for record in fresh if not hasattr(record.user_attrs, "get")), None)
        if malformed is not None:
            raise ValueError(f"attributes of trial {malformed} must be an object")
        return [LogEntry(record.number, record.user_attrs.get(self._key)) for record in fresh]

    def add(self, record: FrozenTrial, is_known: Callable[[Sequence[LogEntry]], bool]) -> None:
        """Record a finished trial; a failed write changes nothing."""
        self._study.add_trial(record)

    def extend(self, records: Sequence[FrozenTrial]) -> None:
        """Record trials in order."""
        for record in records:
            self._study.add_trial(record)
