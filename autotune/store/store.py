"""The record of every trial: an Optuna storage, one write a trial, one study per payload, task and identity.

A path is a journal file (Optuna's own format, one JSON record a line), anything with ``://`` a database URL.
optuna-dashboard opens both. Search never reads here: it runs in memory and is rebuilt from `Sweep.trials`.
"""

import hashlib
import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import optuna
import pandas as pd
from optuna.storages import BaseStorage
from optuna.trial import TrialState, create_trial

from autotune.core.space import Config
from autotune.store.frames import to_frame
from autotune.store.journal import open_database, open_file, plain_errors, shown
from autotune.store.locks import FileLocks, Locks, NoLocks
from autotune.store.room import Pause, with_room
from autotune.store.sweep import Sweep

SUMMARY = "summary"


class Store:
    """An open store; a context manager that gives its locks back.

    Attributes:
        messages: Sentences on what was repaired when the store was opened.
        pause: Function that waits for room on a full disk, as it was opened with.
    """

    def __init__(
        self, storage: BaseStorage, where: str, locks: Locks, messages: list[str], pause: Pause | None = None
    ) -> None:
        self.pause = pause
        self.storage = storage
        self.where = where
        self.locks: Locks | None = locks
        self.messages = messages

    @classmethod
    def open(
        cls, location: str | Path, *, create: bool = True, exclusive: bool = True, pause: Pause | None = None
    ) -> "Store":
        """Open a store; others may have it open, too.

        Args:
            location: A path, or a database URL.
            create: Make the store, and the folders above it, if it is not there.
            exclusive: Open a file for writing; without it the file is only read.
            pause: Called with a sentence while the disk is full, until there is room; by default that is an error.

        Raises:
            StoreError: The store is missing, damaged, of another format, or may not be written.
        """
        where = shown(str(location))
        with plain_errors(where):
            if "://" in str(location):
                return cls(open_database(str(location), create), where, NoLocks(), [])
            storage, messages = open_file(Path(location), create, exclusive, pause)
            path = Path(location)
            locks = with_room(partial(FileLocks, path), path, pause) if exclusive else NoLocks()
        return cls(storage, where, locks, messages, pause)

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give all locks back; a closed store must not be written."""
        if self.locks is not None:
            self.locks.close()
            self.locks = None

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

        Raises:
            StoreError: The write is refused.
        """
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
        with plain_errors(self.where):
            study = self.study(f"{payload}/{task}/{digest}")
            about = study.user_attrs.get("sweep", {})
            sizes = {"flops": flops or about.get("flops", 0.0), "bytes": size or about.get("bytes", 0.0)}
            told = {
                "default": dict(default) if default is not None else about.get("default"),
                "name": name or about.get("name"),
                "script": script or about.get("script"),
            }
            wanted = {"payload": payload, "task": task, "identity": identity, **sizes}
            wanted |= {key: value for key, value in told.items() if value is not None}
            if about != wanted:
                study.set_user_attr("sweep", wanted)
            return Sweep(study, self.where, self.locks or NoLocks())

    def sweeps(self) -> list[Sweep]:
        """Every sweep, oldest first."""
        with plain_errors(self.where):
            names = [study.study_name for study in self.storage.get_all_studies() if "sweep" in study.user_attrs]
            return [Sweep(self.study(name), self.where, NoLocks()) for name in names]

    def count_incomparable(self, sweeps: Iterable[Sweep]) -> int:
        """How many trials the store holds of the sweeps' tasks under other identities: never mixed with theirs."""
        mine = {sweep.study.study_name for sweep in sweeps}
        tasks = {task_of(name) for name in mine}
        with plain_errors(self.where):
            names = [study.study_name for study in self.storage.get_all_studies()]
            others = [self.study(name) for name in names if name not in mine and task_of(name) in tasks]
            return sum("trial" in record.user_attrs for study in others for record in study.get_trials(deepcopy=False))

    def study(self, name: str) -> optuna.Study:
        """Load a study, or create it; its sampler is never asked."""
        sampler = optuna.samplers.RandomSampler()
        if name in (study.study_name for study in self.storage.get_all_studies()):
            return optuna.load_study(storage=self.storage, study_name=name, sampler=sampler)
        # load_if_exists is for another machine that was quicker; it would write a journal record each time
        return optuna.create_study(storage=self.storage, study_name=name, sampler=sampler, load_if_exists=True)

    def write_summary(self, payload: str, summary: dict[str, Any]) -> None:
        """Keep the final result of a tune run.

        Args:
            payload: Name of the payload.
            summary: Plain data, in your own schema.

        Raises:
            StoreError: The write is refused.
        """
        note = create_trial(state=TrialState.PRUNED, user_attrs={SUMMARY: {"payload": payload} | summary})
        with plain_errors(self.where):
            self.study(SUMMARY).add_trial(note)  # pruned, for dashboards: a note, not a measurement

    def summaries(self) -> list[dict[str, Any]]:
        """Every summary written, newest last, each with its ``payload``."""
        with plain_errors(self.where):
            if SUMMARY not in (study.study_name for study in self.storage.get_all_studies()):
                return []
            return [dict(trial.user_attrs[SUMMARY]) for trial in self.study(SUMMARY).get_trials()]


def task_of(study: str) -> str:
    """Payload and task of a study's name, without the hash of its identity."""
    return study.rpartition("/")[0]


def trials(location: str | Path) -> pd.DataFrame:
    """Every trial of a store as one row, failures included; reads only, also beside a running tuner.

    See `autotune.store.frames.to_frame` for the columns.

    Raises:
        StoreError: The store is missing, damaged or of another format.
    """
    with Store.open(location, create=False, exclusive=False) as store:
        sweeps = [(sweep, sweep.about) for sweep in store.sweeps()]
        return to_frame([(trial, about) for sweep, about in sweeps for trial in sweep.trials()])
