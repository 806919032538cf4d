"""The record of every trial: an Optuna storage, one write a trial, one study per payload, task and identity.

A path is a journal file (Optuna's own format, one JSON record a line), anything with ``://`` a database URL.
optuna-dashboard opens both. Search never reads here: it runs in memory and is rebuilt from `Sweep.trials`.
"""

import hashlib
import json
import math
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import optuna
import pandas as pd
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import BaseStorage
from optuna.trial import TrialState, create_trial

from autotune.errors import StoreError
from autotune.frames import to_frame
from autotune.journal import WAY_OUT, open_database, open_file, plain_errors, shown, unlock_file
from autotune.space import Space
from autotune.trial import Trial

SUMMARY = "summary"


class Sweep:
    """The trials of one payload's task under one identity.

    Attributes:
        records: The latest trial of every key.
    """

    def __init__(self, study: optuna.Study, where: str) -> None:
        self.study = study
        self.where = where
        self.recorded = [decode(t, where) for t in study.get_trials(deepcopy=False) if "trial" in t.user_attrs]
        self.records = {trial.key: trial for trial in self.recorded}

    def add(self, trial: Trial, space: Space) -> None:
        """Record a finished trial, in one write.

        Args:
            trial: Whatever became of it: COMPLETE with its seconds a call, or FAIL.
            space: Where its config comes from.

        Raises:
            SpaceError: The config is not one of the space.
            StoreError: The write is refused; nothing changed.
        """
        space.check(trial.config)
        measured = trial.outcome == "ok" and trial.seconds is not None
        record = create_trial(
            state=TrialState.COMPLETE if measured else TrialState.FAIL,
            value=trial.seconds if measured else None,
            params=dict(trial.config),
            distributions=distributions(space),
            user_attrs={"trial": encode(trial)},
        )
        with plain_errors(self.where):
            self.study.add_trial(record)
        self.recorded.append(trial)
        self.records[trial.key] = trial

    def trials(self) -> list[Trial]:
        """Every trial, by number."""
        return sorted(self.recorded, key=lambda trial: trial.number)

    @property
    def about(self) -> dict[str, Any]:
        """What the sweep is of: ``payload``, ``task``, ``identity`` and ``flops``."""
        return dict(self.study.user_attrs["sweep"])


@cache
def distributions(space: Space) -> dict[str, BaseDistribution]:
    """A space as Optuna's dashboards know it."""
    return {knob.name: CategoricalDistribution(knob.values) for knob in space.knobs}


def encode(trial: Trial) -> dict[str, Any]:
    """Strict JSON of a trial: an infinite or undefined error becomes a string, which dashboards can read."""
    data = trial.to_json()
    if trial.max_error is not None and not math.isfinite(trial.max_error):
        data["max_error"] = str(trial.max_error)
    return data


def decode(record: optuna.trial.FrozenTrial, where: str) -> Trial:
    """The trial in a record.

    Raises:
        StoreError: It is incomplete.
    """
    try:
        data = dict(record.user_attrs["trial"])
        if isinstance(data["max_error"], str):
            data["max_error"] = float(data["max_error"])
        return Trial.from_json(data)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"trials of a store must be complete; {where}: {record.number} is not; {WAY_OUT}") from error


class Store:
    """An open store; a context manager that releases its lock.

    Attributes:
        messages: What was repaired when it was opened, a sentence each.
    """

    def __init__(self, storage: BaseStorage, where: str, lock: int | None, messages: list[str]) -> None:
        self.storage = storage
        self.where = where
        self.lock = lock
        self.messages = messages

    @classmethod
    def open(cls, location: str | Path, *, create: bool = True, exclusive: bool = True) -> "Store":
        """Open a store.

        Args:
            location: A path, or a database URL.
            create: Make the store, and the folders above it, if it is not there.
            exclusive: Lock a file for writing; without it the file is only read.

        Raises:
            StoreError: It is missing, locked, damaged, of another format, or may not be written.
        """
        where = shown(str(location))
        with plain_errors(where):
            if "://" in str(location):
                return cls(open_database(str(location), create), where, None, [])
            storage, lock, messages = open_file(Path(location), create, exclusive)
        return cls(storage, where, lock, messages)

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock; a closed store must not be written."""
        if self.lock is not None:
            unlock_file(self.lock)
            self.lock = None

    def sweep(self, payload: str, task: str, identity: dict[str, str], *, flops: float = 0.0) -> Sweep:
        """Open the study of a task, or create it.

        Args:
            payload: Name of the whole payload.
            task: Tag of the task.
            identity: Everything else that must be equal for trials to be comparable.
            flops: Floating-point operations of one call; 0 keeps what is recorded.

        Raises:
            StoreError: The write is refused.
        """
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
        with plain_errors(self.where):
            study = self.study(f"{payload}/{task}/{digest}")
            about = study.user_attrs.get("sweep", {})
            wanted = {"payload": payload, "task": task, "identity": identity, "flops": flops or about.get("flops", 0.0)}
            if about != wanted:
                study.set_user_attr("sweep", wanted)
            return Sweep(study, self.where)

    def sweeps(self) -> list[Sweep]:
        """Every sweep, oldest first."""
        with plain_errors(self.where):
            names = [study.study_name for study in self.storage.get_all_studies() if "sweep" in study.user_attrs]
            return [Sweep(self.study(name), self.where) for name in names]

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


def trials(location: str | Path) -> pd.DataFrame:
    """Every trial of a store as one row, failures included; reads only, also beside a running tuner.

    See `autotune.frames.to_frame` for the columns.

    Raises:
        StoreError: The store is missing, damaged or of another format.
    """
    with Store.open(location, create=False, exclusive=False) as store:
        return to_frame([(trial, sweep.about) for sweep in store.sweeps() for trial in sweep.trials()])
