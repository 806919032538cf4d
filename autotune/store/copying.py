"""A store copied into another, whatever keeps them: the same sweeps, trials and summaries, in the same order.

A copy that was interrupted goes on where it was; until it is finished nothing else opens what it copies into.
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

STEP = 500  # trials between two words on progress


@dataclass(frozen=True)
class Copied:
    """What a copy did.

    Attributes:
        trials: Number of records that both stores hold now, summaries counted in.
        copied: Number of those that were copied now.
    """

    trials: int
    copied: int


def copy_store(
    source: str | Path, target: str | Path, listener: Listener = SILENT, pause: Pause | None = None
) -> Copied:
    """Copy everything of a store into an empty one, or go on with such a copy; then read back and compare it.

    Args:
        source: A path, or a database URL; only read.
        target: Another one; made where it is missing.
        listener: Notified of how far it is.
        pause: Called with a sentence while the disk is full or a server is away; by default that is an error.

    Raises:
        StoreError: One of them cannot be opened, they are one and the same, or the target holds something else.
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
            held = {name: copy_study(here, there, name, done) for name in names}
        with Store.open(target, pause=pause, unfinished=True) as there, plain_errors(there.where):
            listener.stage("reading the copy back")
            for name, counts in held.items():
                compare_study(here, there, name, sum(counts))
            mark(there, "")
    begun, copied = (sum(counts) for counts in zip(*held.values(), strict=True)) if held else (0, 0)
    return Copied(begun + copied, copied)


class Progress:
    """Progress of a copy, reported now and then."""

    def __init__(self, listener: Listener, total: int) -> None:
        self._listener = listener
        self._total = total
        self._done = 0

    def add(self, count: int) -> None:
        """Count records that the copy has."""
        self._done += count
        self._listener.stage(f"{self._done} of {self._total} trials are copied")


def is_same_store(source: str | Path, target: str | Path) -> bool:
    """Return whether two locations are one, as far as their texts say."""
    texts = (str(source), str(target))
    if any("://" in text for text in texts):
        return texts[0] == texts[1]
    return Path(source).resolve() == Path(target).resolve()


def studies_of(store: Store) -> list[str]:
    """Names of all studies but the header, oldest first."""
    return [study.study_name for study in sorted(store.storage.get_all_studies()) if study.study_name != HEADER]


def kept_for(name: str) -> str:
    """Attribute that the records of a study are kept for."""
    return SUMMARY if name == SUMMARY else TRIAL


def check_beginning(here: Store, there: Store, names: list[str]) -> None:
    """Raise unless a store is empty or holds the beginning of another."""
    held = studies_of(there)
    fits = held == names[: len(held)] and all(begins(here, there, name) for name in held)
    if not fits:
        raise StoreError(
            f"a store to copy into must be empty or hold a part of the same copy, {there.where} holds something else; "
            "name another"
        )


def begins(here: Store, there: Store, name: str) -> bool:
    """Return whether the records of a study that is in two stores are the first of the other's."""
    mine, theirs = values(here.log(name, kept_for(name))), values(there.log(name, kept_for(name)))
    return theirs == mine[: len(theirs)]


def values(log: Log) -> list[Any]:
    """What all records of a study are kept for."""
    return [entry.value for entry in log.news()]


def mark(store: Store, source: str) -> None:
    """Note in a store that it is being copied into, or with an empty text that it is not."""
    store.log(HEADER, TRIAL).tell(COPY, source)


def copy_study(here: Store, there: Store, name: str, done: Progress) -> tuple[int, int]:
    """Copy what one study lacks; how many records it had, and how many were copied."""
    log, attributes = there.log(name, kept_for(name)), here.log(name, kept_for(name)).about()
    held = log.about()
    for key, value in attributes.items():
        if held.get(key) != value:
            log.tell(key, value)
    begun = len(log.news())
    records = [without_brief(record) for record in records_of(here.storage, name)[begun:]]
    done.add(begun)
    for start in range(0, len(records), STEP):
        some = records[start : start + STEP]
        log.extend(some)
        done.add(len(some))
    return begun, len(records)


def records_of(storage: BaseStorage, name: str) -> list[FrozenTrial]:
    """Every record of a study."""
    return storage.get_all_trials(storage.get_study_id_from_name(name), deepcopy=False)


def count_records(store: Store, names: list[str]) -> int:
    """How many records some studies have, notes counted in."""
    if store.database is not None:
        return store.database.count(names)
    return sum(len(records_of(store.storage, name)) for name in names)


def compare_study(here: Store, there: Store, name: str, count: int) -> None:
    """Raise unless the first records of a study are the same in two stores, and no other is in the second."""
    mine, theirs = (store.log(name, kept_for(name)) for store in (here, there))
    found = values(theirs)
    if len(found) != count or mine.about() != theirs.about() or values(mine)[:count] != found:
        raise StoreError(f"a copy must be what was copied, {name} in {there.where} is not; move it away and copy again")


def without_brief(record: FrozenTrial) -> FrozenTrial:
    """A record as files keep it."""
    kept = copy.copy(record)
    kept.system_attrs = {key: value for key, value in record.system_attrs.items() if key != BRIEF}
    return kept
