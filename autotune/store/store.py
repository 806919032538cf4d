"""The record of every trial: an Optuna storage, one write a trial, one study per payload, task and identity.

A path is a journal file (Optuna's own format, one JSON record a line), anything with ``://`` a database URL: SQLite for
one machine, PostgreSQL for any number. optuna-dashboard opens all. Search never reads here: it runs in memory and is
rebuilt from `Sweep.trials`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import optuna
from optuna.storages import BaseStorage
from optuna.trial import TrialState, create_trial

from autotune.core.errors import StoreError
from autotune.core.host.closing import Closing
from autotune.core.space import Config
from autotune.store.address import is_postgres, shown
from autotune.store.frames import to_frame
from autotune.store.header import COPY
from autotune.store.journal import open_file
from autotune.store.locks import FileLocks, Locks, NoLocks
from autotune.store.log import Log, StudyLog
from autotune.store.plain_errors import plain_errors
from autotune.store.room import Pause, with_room
from autotune.store.server import ServerStore, servers
from autotune.store.sqlite import open_database
from autotune.store.sweep import TRIAL, Sweep, check_facts, check_object, study_name

if TYPE_CHECKING:
    import pandas as pd

SUMMARY = "summary"
T = TypeVar("T")


class Store(Closing):
    """An open store; a context manager that gives its locks back.

    Attributes:
        messages: Sentences on what was repaired when the store was opened.
        pause: Function that waits for room on a full disk, or for a server, as it was opened with.
        database: The database of a store on a server; `None` for other stores.
    """

    def __init__(
        self,
        storage: BaseStorage,
        where: str,
        locks: Locks,
        messages: list[str],
        pause: Pause | None = None,
        *,
        database: ServerStore | None = None,
    ) -> None:
        self.pause = pause
        self.storage = storage
        self.where = where
        self.locks: Locks | None = locks
        self.messages = messages
        self.database = database

    @classmethod
    def open(
        cls,
        location: str | Path,
        *,
        create: bool = True,
        exclusive: bool = True,
        pause: Pause | None = None,
        unfinished: bool = False,
    ) -> "Store":
        """Open a store; others may have it open, too.

        Args:
            location: A path, or a database URL.
            create: Make the store, and the folders above it, if it is not there.
            exclusive: Open a store for writing; without it it is only read.
            pause: Called with a sentence while the disk is full, until there is room, or a server is away that answered
                when the store was opened; by default that is an error.
            unfinished: Open a store also if a copy into it was not finished.

        Raises:
            StoreError: The store is missing, damaged, of another format, or may not be written.
        """
        where = shown(str(location))
        with plain_errors(where):
            if is_postgres(location):
                database = servers().open(str(location), create=create, writable=exclusive)
                database.wait_with(pause)
                locks: Locks = database.locks if exclusive else NoLocks()
                store = cls(database.storage, where, locks, [], pause, database=database)
            elif "://" in str(location):
                store = cls(open_database(str(location), create), where, NoLocks(), [])
            else:
                storage, messages = open_file(Path(location), create, exclusive, pause)
                path = Path(location)
                locks = with_room(partial(FileLocks, path), path, pause) if exclusive else NoLocks()
                store = cls(storage, where, locks, messages, pause)
            first = min(store.storage.get_all_studies(), default=None)
        source = first.user_attrs.get(COPY) if first is not None and not unfinished else None
        if source:
            store.close()
            copy = f"autotune lab copy {source} {where}"
            raise StoreError(f"a store must be whole, {where} is being copied into; finish `{copy}`")
        return store

    @classmethod
    def read(cls, location: str | Path) -> "Store":
        """Open a store that is there to look at it, also beside a running tuner; see `open`."""
        return cls.open(location, create=False, exclusive=False)

    def close(self) -> None:
        """Give all locks back; a closed store must not be written."""
        if self.locks is not None:
            self.locks.close()
            self.locks = None
        if self.database is not None:
            self.database.close()

    def sweep(
        self,
        payload: str,
        task: str,
        identity: dict[str, str],
        *,
        flops: float = 0.0,
        size: float = 0.0,
        default: Config | None = None,
        name: str = "",
        script: dict[str, str] | None = None,
        rules: dict[str, str] | None = None,
        unproved: bool | None = None,
    ) -> Sweep:
        """Open the study of a task, or create it.

        Args:
            payload: Name of the whole payload.
            task: Tag of the task.
            identity: Everything else that must be equal for trials to be comparable.
            flops: Floating-point operations of one call; 0 keeps what is recorded.
            size: Bytes of all arguments; 0 keeps what is recorded.
            default: Config that the family gives without any search; `None` keeps what is recorded.
            name: Name of the task for people; empty keeps what is recorded.
            script: ``source``, ``text`` and ``tasks`` of a user's own script; `None` keeps what is recorded.
            rules: ``source`` and ``text`` of rewrite rules that fired on the payload; `None` keeps what is recorded.
            unproved: Whether nothing but its own plain lowering says what the payload must compute, which was imported;
                `None` keeps what is recorded.

        Raises:
            StoreError: The write is refused.
        """
        with plain_errors(self.where):
            log = self.log(study_name(payload, task, identity), TRIAL)
            about = log.about().get("sweep", {})
            sizes = {"flops": flops or about.get("flops", 0.0), "bytes": size or about.get("bytes", 0.0)}
            told = {
                "default": dict(default) if default is not None else about.get("default"),
                "name": name or about.get("name"),
                "script": script or about.get("script"),
                "rules": rules or about.get("rules"),
                "unproved": (about.get("unproved") if unproved is None else unproved) or None,
            }
            wanted = {"payload": payload, "task": task, "identity": identity, **sizes}
            wanted |= {key: value for key, value in told.items() if value is not None}
            if about != wanted:
                log.tell("sweep", wanted)
            return Sweep(log, wanted, self.where, self.locks or NoLocks())

    def sweeps(self, abouts: Mapping[str, dict[str, Any]] | None = None) -> Iterator[Sweep]:
        """Every sweep, or those that `abouts` listed, oldest first, each read when it is needed."""
        for name, about in (self.abouts() if abouts is None else abouts).items():
            with plain_errors(self.where):
                sweep = Sweep(self.log(name, TRIAL), about, self.where, NoLocks())
            yield sweep

    def abouts(self) -> dict[str, dict[str, Any]]:
        """What each sweep is of, by the name of its study, oldest first; without reading any trial.

        Raises:
            StoreError: The store cannot be read, or a sweep says something of another type than is written.
        """
        with plain_errors(self.where):
            studies = self._patiently(self.storage.get_all_studies)
        found = {s.study_name: s.user_attrs["sweep"] for s in studies if "sweep" in s.user_attrs}
        for name, about in found.items():
            check_facts(about, name, self.where)
        return found

    def count_incomparable(self, sweeps: Iterable[Sweep]) -> int:
        """How many trials the store holds of the sweeps' tasks under other identities: never mixed with theirs."""
        mine = {sweep.name for sweep in sweeps}
        tasks = {task_of(name) for name in mine}
        with plain_errors(self.where):
            names = [study.study_name for study in self._patiently(self.storage.get_all_studies)]
            return self.count([name for name in names if name not in mine and task_of(name) in tasks])

    def count(self, names: Iterable[str]) -> int:
        """How many trials some studies have."""
        if self.database is not None:
            return self.database.count(names)
        records = (record for name in names for record in self.study(name).get_trials(deepcopy=False))
        return sum(TRIAL in record.user_attrs for record in records)

    def log(self, name: str, key: str) -> Log:
        """The records of a study, which is made where there is none.

        Args:
            name: Name of the study.
            key: Attribute that its records are kept for.
        """
        return self.database.log(name, key) if self.database is not None else StudyLog(self.study(name), key)

    def study(self, name: str) -> optuna.Study:
        """Load a study, or create it; its sampler is never used."""
        sampler = optuna.samplers.RandomSampler()
        if name in (study.study_name for study in self.storage.get_all_studies()):
            return optuna.load_study(storage=self.storage, study_name=name, sampler=sampler)
        # load_if_exists is for another machine that was quicker; it would write a journal record each time
        return optuna.create_study(storage=self.storage, study_name=name, sampler=sampler, load_if_exists=True)

    def _patiently(self, action: Callable[[], T]) -> T:
        return self.database.patiently(action) if self.database is not None else action()

    def write_summary(self, payload: str, summary: dict[str, Any]) -> None:
        """Keep the final result of a tune run.

        Args:
            payload: Name of the payload.
            summary: Plain data, in your own schema.

        Raises:
            StoreError: The write is refused.
        """
        wanted = {"payload": payload} | summary
        told = json.loads(json.dumps(wanted))
        note = create_trial(state=TrialState.PRUNED, user_attrs={SUMMARY: wanted})  # pruned: not a measurement
        with plain_errors(self.where):
            log = self.log(SUMMARY, SUMMARY)
            log.news()
            log.add(note, lambda fresh: any(entry.value == told for entry in fresh))

    def summaries(self) -> list[dict[str, Any]]:
        """Every summary written, newest last, each with its ``payload``.

        Raises:
            StoreError: The store cannot be read, or a summary is no object.
        """
        with plain_errors(self.where):
            if SUMMARY not in (study.study_name for study in self._patiently(self.storage.get_all_studies)):
                return []
            found: list[dict[str, Any]] = [entry.value for entry in self.log(SUMMARY, SUMMARY).news()]
        for summary in found:
            check_object(summary, "a summary", self.where)
        return found


def task_of(study: str) -> str:
    """Payload and task of a study's name, without the hash of its identity."""
    return study.rpartition("/")[0]


def trials(location: str | Path) -> "pd.DataFrame":
    """Every trial of a store as one row, failures included; reads only, also beside a running tuner.

    See `autotune.store.frames.to_frame` for the columns.

    Raises:
        StoreError: The store is missing, damaged or of another format.
    """
    with Store.read(location) as store:
        return to_frame([(trial, sweep.about) for sweep in store.sweeps() for trial in sweep.trials()])
