"""Store of all trials: an Optuna storage with one write per trial, and one study per payload, task and identity.

A path is a journal file (Optuna's format, one JSON record per line), a location with ``://`` a database URL: SQLite for
one machine, PostgreSQL for any number. optuna-dashboard can open all of them. The search does not read the store while
it runs: it is in memory, and is rebuilt from `Sweep.trials`.
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
    """An open store; a context manager that releases its locks.

    Attributes:
        messages: Messages on what was repaired when the store was opened.
        pause: Function that waits for space on a full disk or for a server, as passed to `open`.
        database: Database of a store on a server; `None` for other stores.
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
        """Open a store, which other processes may have open, too.

        Args:
            location: Path or database URL.
            create: Create the store and its parent folders if it is missing.
            exclusive: Open the store for writing; otherwise it is only read.
            pause: Function called with a message while the disk is full, or while the server is unreachable after the
                store was opened; if `None`, that is an error.
            unfinished: Also open a store that is the target of an unfinished copy.

        Raises:
            StoreError: The store is missing, damaged, of another format, or not writable.
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
        """Open an existing store for reading, even while a tuner is running; see `open`."""
        return cls.open(location, create=False, exclusive=False)

    def close(self) -> None:
        """Release all locks and close the database; a closed store must not be written."""
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
            identity: All other properties that must be equal for trials to be comparable.
            flops: Floating-point operations of one call; 0 keeps the recorded value.
            size: Bytes of all arguments; 0 keeps the recorded value.
            default: Default config of the family; `None` keeps the recorded value.
            name: Readable name of the task; empty keeps the recorded value.
            script: ``source``, ``text`` and ``tasks`` of a user script; `None` keeps the recorded value.
            rules: ``source`` and ``text`` of rewrite rules that fired on the payload; `None` keeps the recorded value.
            unproved: Whether the payload was imported and its plain lowering is the only oracle; `None` keeps the
                recorded value.

        Raises:
            StoreError: The write is refused.
        """
        with plain_errors(self.where):
            log = self.log(study_name(payload, task, identity), TRIAL)
            about = log.about().get("sweep", {})
            sizes = {"flops": flops or about.get("flops", 0.0), "bytes": size or about.get("bytes", 0.0)}
            optional = {
                "default": dict(default) if default is not None else about.get("default"),
                "name": name or about.get("name"),
                "script": script or about.get("script"),
                "rules": rules or about.get("rules"),
                "unproved": (about.get("unproved") if unproved is None else unproved) or None,
            }
            facts = {"payload": payload, "task": task, "identity": identity, **sizes}
            facts |= {key: value for key, value in optional.items() if value is not None}
            if about != facts:
                log.tell("sweep", facts)
            return Sweep(log, facts, self.where, self.locks or NoLocks())

    def sweeps(self, abouts: Mapping[str, dict[str, Any]] | None = None) -> Iterator[Sweep]:
        """Yield all sweeps, or those listed in `abouts`, oldest first, each read on demand."""
        for name, about in (self.abouts() if abouts is None else abouts).items():
            with plain_errors(self.where):
                sweep = Sweep(self.log(name, TRIAL), about, self.where, NoLocks())
            yield sweep

    def abouts(self) -> dict[str, dict[str, Any]]:
        """Return the attributes of each sweep by the name of its study, oldest first, without reading trials.

        Raises:
            StoreError: The store cannot be read, or an attribute of a sweep has the wrong type.
        """
        with plain_errors(self.where):
            studies = self._patiently(self.storage.get_all_studies)
        abouts = {s.study_name: s.user_attrs["sweep"] for s in studies if "sweep" in s.user_attrs}
        for name, about in abouts.items():
            check_facts(about, name, self.where)
        return abouts

    def count_incomparable(self, sweeps: Iterable[Sweep]) -> int:
        """Return the number of trials of the sweeps' tasks under other identities, which are not comparable."""
        own_names = {sweep.name for sweep in sweeps}
        tasks = {task_of(name) for name in own_names}
        with plain_errors(self.where):
            names = [study.study_name for study in self._patiently(self.storage.get_all_studies)]
            return self.count([name for name in names if name not in own_names and task_of(name) in tasks])

    def count(self, names: Iterable[str]) -> int:
        """Return the number of trials in the named studies."""
        if self.database is not None:
            return self.database.count(names)
        records = (record for name in names for record in self.study(name).get_trials(deepcopy=False))
        return sum(TRIAL in record.user_attrs for record in records)

    def log(self, name: str, key: str) -> Log:
        """Return the log of a study, created if it is missing.

        Args:
            name: Name of the study.
            key: User attribute that holds the data of its records.
        """
        return self.database.log(name, key) if self.database is not None else StudyLog(self.study(name), key)

    def study(self, name: str) -> optuna.Study:
        """Load a study, or create it; its sampler is never used."""
        sampler = optuna.samplers.RandomSampler()
        if name in (study.study_name for study in self.storage.get_all_studies()):
            return optuna.load_study(storage=self.storage, study_name=name, sampler=sampler)
        # load_if_exists covers a race with another machine; without the check above it writes a record each time
        return optuna.create_study(storage=self.storage, study_name=name, sampler=sampler, load_if_exists=True)

    def _patiently(self, action: Callable[[], T]) -> T:
        return self.database.patiently(action) if self.database is not None else action()

    def write_summary(self, payload: str, summary: dict[str, Any]) -> None:
        """Record the final result of a tune run.

        Args:
            payload: Name of the payload.
            summary: Result as JSON data of any schema.

        Raises:
            StoreError: The write is refused.
        """
        value = {"payload": payload} | summary
        as_read = json.loads(json.dumps(value))
        note = create_trial(state=TrialState.PRUNED, user_attrs={SUMMARY: value})  # pruned: not a measurement
        with plain_errors(self.where):
            log = self.log(SUMMARY, SUMMARY)
            log.news()
            log.add(note, lambda fresh: any(entry.value == as_read for entry in fresh))

    def summaries(self) -> list[dict[str, Any]]:
        """Return all recorded summaries, newest last, each with its ``payload``.

        Raises:
            StoreError: The store cannot be read, or a summary is not an object.
        """
        with plain_errors(self.where):
            if SUMMARY not in (study.study_name for study in self._patiently(self.storage.get_all_studies)):
                return []
            summaries: list[dict[str, Any]] = [entry.value for entry in self.log(SUMMARY, SUMMARY).news()]
        for summary in summaries:
            check_object(summary, "a summary", self.where)
        return summaries


def task_of(study: str) -> str:
    """Return the payload and task of a study's name, without the hash of its identity."""
    return study.rpartition("/")[0]


def trials(location: str | Path) -> "pd.DataFrame":
    """Return all trials of a store as a frame, failures included; the store may be in use by a running tuner.

    See `autotune.store.frames.to_frame` for the columns.

    Raises:
        StoreError: The store is missing, damaged or of another format.
    """
    with Store.read(location) as store:
        return to_frame([(trial, sweep.about) for sweep in store.sweeps() for trial in sweep.trials()])
