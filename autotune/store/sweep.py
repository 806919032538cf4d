"""The trials of one task in a store: records come and go as Optuna trials, each with the whole `Trial` inside."""

import math
from functools import cache
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState, create_trial

from autotune.core.errors import StoreError
from autotune.core.space import Space
from autotune.core.trial import Trial
from autotune.store.journal import WAY_OUT, plain_errors
from autotune.store.locks import Locks


class Sweep:
    """The trials of one payload's task under one identity, by however many tuners.

    Attributes:
        recorded: Every trial, in the order they were recorded.
        records: The latest trial of every key.
        locks: Locks on the trials that tuners are working on.
    """

    def __init__(self, study: optuna.Study, where: str, locks: Locks) -> None:
        self.study = study
        self.where = where
        self.locks = locks
        self.recorded: list[Trial] = []
        self.records: dict[str, Trial] = {}
        self._read = 0
        self.refresh()

    def refresh(self) -> None:
        """Read what was recorded meanwhile, by whomever."""
        with plain_errors(self.where):
            stored = self.study.get_trials(deepcopy=False)
        for record in stored[self._read :]:
            if "trial" in record.user_attrs:
                trial = decode(record, self.where)
                self.recorded.append(trial)
                self.records[trial.key] = trial
        self._read = len(stored)

    def claim(self, key: str) -> bool:
        """Claim a trial; false if another tuner works on it, or did.

        Release it by `release` when it is recorded.
        """
        if not self.locks.take(key):
            return False
        self.refresh()
        if key in self.records:
            self.locks.release(key)
            return False
        return True

    def release(self, key: str) -> None:
        """Give up a claim."""
        self.locks.release(key)

    def add(self, trial: Trial, space: Space) -> None:
        """Record a finished trial, in one write.

        Args:
            trial: Whatever became of it: COMPLETE with its seconds a call, or FAIL.
            space: Space that the config comes from.

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
        self.refresh()

    def trials(self) -> list[Trial]:
        """Every trial, by number."""
        return sorted(self.recorded, key=lambda trial: trial.number)

    @property
    def about(self) -> dict[str, Any]:
        """What the sweep is of: ``sweep``, its own name, ``payload``, ``task``, ``identity``, ``flops`` and ``bytes``.

        Sweeps of older releases lack ``default``, the default config, and ``name``, the task's for people. A sweep of a
        user's own script has it as ``script``: its ``source``, ``text`` and ``tasks``.
        """
        return {"sweep": self.study.study_name, **self.study.user_attrs["sweep"]}


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
        StoreError: The record is incomplete.
    """
    try:
        data = dict(record.user_attrs["trial"])
        if isinstance(data["max_error"], str):
            data["max_error"] = float(data["max_error"])
        return Trial.from_json(data)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"trials of a store must be complete; {where}: {record.number} is not; {WAY_OUT}") from error
