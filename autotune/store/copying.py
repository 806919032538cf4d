"""Copy of a store into another one of any kind: the same sweeps, trials and summaries, in the same order.

An interrupted copy can be resumed; until it is finished, nothing else can open the target.
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

from autotune.core.errors import StoreError
from autotune.core.listener import SILENT, Listener
from autotune.store.address import shown
from autotune.store.header import BRIEF, COPY, HEADER
from autotune.store.log import Log
from autotune.store.plain_errors import plain_errors
from autotune.store.room import Pause
from autotune.store.store import SUMMARY, Store
from autotune.store.sweep import TRIAL

STEP = 500  # trials between two progress messages


@dataclass(frozen=True)
class Copied:
    """Result of a copy.

    Attributes:
        trials: Number of records in both stores, summaries included.
        copied: Number of records that this run copied.
    """

    trials: int
    copied: int


def copy_store(
    source: str | Path, target: str | Path, listener: Listener = SILENT, pause: Pause | None = None
) -> Copied:
    """Copy all records of a store into an empty one, or resume such a copy; then read the target and compare.

    Args:
        source: Path or database URL of the store to copy; it is only read.
        target: Path or database URL of the target; created if it is missing.
        listener: Listener that receives the progress.
        pause: Function called with a message while the disk is full or a server is unreachable; if `None`, that is an
            error.

    Raises:
        StoreError: A store cannot be opened, both are the same, or the target holds something else.
    """
    if is_same_store(source, target):
        raise StoreError(f"a store must be copied into another one, {shown(str(target))} is the same; name two")
    with Store.read(source) as here:
        names = studies_of(here)
        if here.database is not None:
            here.database.wait_with(pause)
        with Store.open(target, pause=pause, unfinished=True) as there, plain_errors(there.where):
            check_beginning(here, there, names)
            mark(there, here.where)
            done = Progress(listener, count_records(here, names))
            counts_of = {name: copy_study(here, there, name, done) for name in names}
        with Store.open(target, pause=pause, unfinished=True) as there, plain_errors(there.where):
            listener.stage("reading the copy back")
            for name, counts in counts_of.items():
                compare_study(here, there, name, sum(counts))
            mark(there, "")
    earlier, copied = (sum(counts) for counts in zip(*counts_of.values(), strict=True)) if counts_of else (0, 0)
    return Copied(earlier + copied, copied)


class Progress:
    """Progress of a copy, reported to a listener."""

    def __init__(self, listener: Listener, total: int) -> None:
        self._listener = listener
        self._total = total
        self._done = 0

    def add(self, count: int) -> None:
        """Add a number of copied records and report the total."""
        self._done += count
        self._listener.stage(f"{self._done} of {self._total} trials are copied")


def is_same_store(source: str | Path, target: str | Path) -> bool:
    """Return whether two locations are equal as paths or URLs."""
    texts = (str(source), str(target))
    if any("://" in text for text in texts):
        return texts[0] == texts[1]
    return Path(source).resolve() == Path(target).resolve()


def studies_of(store: Store) -> list[str]:
    """Return the names of all studies except the header, oldest first."""
    return [study.study_name for study in sorted(store.storage.get_all_studies()) if study.study_name != HEADER]


def attribute_of_records(name: str) -> str:
    """Return the user attribute that holds the data of a study's records."""
    return SUMMARY if name == SUMMARY else TRIAL


def check_beginning(here: Store, there: Store, names: list[str]) -> None:
    """Raise unless the target is empty or its records are a prefix of the source's."""
    copied = studies_of(there)
    fits = copied == names[: len(copied)] and all(begins(here, there, name) for name in copied)
    if not fits:
        raise StoreError(
            f"a store to copy into must be empty or hold a part of the same copy, {there.where} holds something else; "
            "name another"
        )


def begins(here: Store, there: Store, name: str) -> bool:
    """Return whether the target's records of a study are a prefix of the source's."""
    mine, theirs = (
        values(here.log(name, attribute_of_records(name))),
        values(there.log(name, attribute_of_records(name))),
    )
    return theirs == mine[: len(theirs)]


def values(log: Log) -> list[Any]:
    """Return the data of all records of a study."""
    return [entry.value for entry in log.news()]


def mark(store: Store, source: str) -> None:
    """Mark a store as the target of an unfinished copy from `source`; an empty string removes the mark."""
    store.log(HEADER, TRIAL).tell(COPY, source)


def copy_study(here: Store, there: Store, name: str, done: Progress) -> tuple[int, int]:
    """Copy the missing records of one study; return the number it had, and the number copied."""
    log, attributes = there.log(name, attribute_of_records(name)), here.log(name, attribute_of_records(name)).about()
    copied_attributes = log.about()
    for key, value in attributes.items():
        if copied_attributes.get(key) != value:
            log.tell(key, value)
    earlier = len(log.news())
    records = [without_brief(record) for record in records_of(here.storage, name)[earlier:]]
    done.add(earlier)
    for start in range(0, len(records), STEP):
        batch = records[start : start + STEP]
        log.extend(batch)
        done.add(len(batch))
    return earlier, len(records)


def records_of(storage: BaseStorage, name: str) -> list[FrozenTrial]:
    """Return all records of a study."""
    return storage.get_all_trials(storage.get_study_id_from_name(name), deepcopy=False)


def count_records(store: Store, names: list[str]) -> int:
    """Return the number of records in the named studies, of any kind."""
    if store.database is not None:
        return store.database.count(names)
    return sum(len(records_of(store.storage, name)) for name in names)


def compare_study(here: Store, there: Store, name: str, count: int) -> None:
    """Raise unless the target's study equals the first `count` records of the source's."""
    mine, theirs = (store.log(name, attribute_of_records(name)) for store in (here, there))
    copied = values(theirs)
    if len(copied) != count or mine.about() != theirs.about() or values(mine)[:count] != copied:
        raise StoreError(f"a copy must be what was copied, {name} in {there.where} is not; move it away and copy again")


def without_brief(record: FrozenTrial) -> FrozenTrial:
    """Return a copy of a record without the summary attribute of server databases."""
    plain = copy.copy(record)
    plain.system_attrs = {key: value for key, value in record.system_attrs.items() if key != BRIEF}
    return plain
