"""Where one study's records are kept: Optuna's own storage, for files and SQLite; what a server keeps has its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import optuna
from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class LogEntry:
    """One record of a study.

    Attributes:
        number: Position in the study, from 0.
        value: Attribute that the study is kept for; `None` where the record has none.
    """

    number: int
    value: Any


class Log(Protocol):
    """The records of one study, in the order they were recorded.

    Attributes:
        name: Name of the study.
    """

    name: str

    def about(self) -> dict[str, Any]:
        """User attributes of the study."""
        ...

    def tell(self, key: str, value: object) -> None:
        """Set a user attribute of the study."""
        ...

    def news(self) -> list[LogEntry]:
        """What was recorded since the last call, by any process; at first all."""
        ...

    def add(self, record: FrozenTrial, is_known: Callable[[Sequence[LogEntry]], bool]) -> None:
        """Record a finished trial, whole or not at all.

        Args:
            record: The trial.
            is_known: Whether it needs no recording, being among the entries since `news`; asked where a write may have
                to be made again without knowing its outcome.
        """
        ...

    def extend(self, records: Sequence[FrozenTrial]) -> None:
        """Record trials as they are, in their order; no other process may record any."""
        ...


class StudyLog:
    """A study in a storage of Optuna."""

    def __init__(self, study: optuna.Study, key: str) -> None:
        self.name = study.study_name
        self._study = study
        self._key = key
        self._read = 0

    def about(self) -> dict[str, Any]:
        """User attributes of the study."""
        return self._study.user_attrs

    def tell(self, key: str, value: object) -> None:
        """Set a user attribute of the study."""
        self._study.set_user_attr(key, value)

    def news(self) -> list[LogEntry]:
        """What was recorded since the last call."""
        stored = self._study.get_trials(deepcopy=False)
        fresh = stored[self._read :]
        self._read = len(stored)
        strange = next((record.number for record in fresh if not hasattr(record.user_attrs, "get")), None)
        if strange is not None:
            raise ValueError(f"attributes of trial {strange} must be an object")
        return [LogEntry(record.number, record.user_attrs.get(self._key)) for record in fresh]

    def add(self, record: FrozenTrial, is_known: Callable[[Sequence[LogEntry]], bool]) -> None:
        """Record a finished trial; a write that fails changed nothing."""
        self._study.add_trial(record)

    def extend(self, records: Sequence[FrozenTrial]) -> None:
        """Record trials, one after the other."""
        for record in records:
            self._study.add_trial(record)
