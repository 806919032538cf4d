"""Trials of one task in a store, each recorded as an Optuna trial with the whole `Trial` as a user attribute."""

import hashlib
import json
import math
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from autotune.core.errors import StoreError
from autotune.core.printable import one_line
from autotune.core.space import Config, Space
from autotune.core.trial import Trial
from autotune.registry import current_name
from autotune.store.header import WAY_OUT
from autotune.store.locks import Locks
from autotune.store.log import Log, LogEntry
from autotune.store.plain_errors import plain_errors

TRIAL = "trial"  # user attribute of a record that holds the trial


class Sweep:
    """Trials of one task of a payload under one identity, recorded by any number of tuners.

    Attributes:
        name: Name of the sweep's study.
        recorded: Trials in the order in which they were recorded.
        records: Latest trial of every key.
        locks: Locks on the trials that tuners are working on.
    """

    def __init__(self, log: Log, facts: dict[str, Any], where: str, locks: Locks) -> None:
        self.name = log.name
        self.where = where
        self.locks = locks
        self.recorded: list[Trial] = []
        self.records: dict[str, Trial] = {}
        self._log = log
        self._facts = facts
        self.refresh()

    def refresh(self) -> None:
        """Read the trials that any process recorded since the last call."""
        with plain_errors(self.where):
            fresh = self._log.news()
        for entry in fresh:
            if entry.value is not None:
                trial = decode(entry.value, entry.number, self.where)
                self.recorded.append(trial)
                self.records[trial.key] = trial

    def claim(self, key: str) -> bool:
        """Claim a trial; return false if another tuner is working on it or has recorded it.

        Call `release` when the trial is recorded.
        """
        with plain_errors(self.where):
            if not self.locks.take(self._lock_of(key)):
                return False
        self.refresh()
        if key in self.records:
            self.release(key)
            return False
        return True

    def release(self, key: str) -> None:
        """Release a claim."""
        with plain_errors(self.where):
            self.locks.release(self._lock_of(key))

    def _lock_of(self, key: str) -> str:
        """Return the key of a claim's lock, which includes the sweep: other machines may share the store."""
        return f"{self.name} {key}"

    def add(self, trial: Trial, space: Space) -> None:
        """Record a finished trial, in one write.

        Args:
            trial: The trial, stored with state COMPLETE and its seconds per call, or with state FAIL.
            space: Space of the config.

        Raises:
            SpaceError: The config is not in the space.
            StoreError: The write is refused; nothing changed.
        """
        space.check(trial.config)

        def is_known(fresh: Sequence[LogEntry]) -> bool:
            return trial.key in self.records or any(e.value and e.value.get("key") == trial.key for e in fresh)

        with plain_errors(self.where):
            self._log.add(to_record(trial, space), is_known)
        self.refresh()

    def trials(self) -> list[Trial]:
        """Return all trials, sorted by number."""
        return sorted(self.recorded, key=lambda trial: trial.number)

    @property
    def about(self) -> dict[str, Any]:
        """Attributes of the sweep: ``sweep``, its name, ``payload``, ``task``, ``identity``, ``flops`` and ``bytes``.

        Further ones are ``default``, the default config, and ``name``, the task's readable name (both missing in sweeps
        of older releases); ``script`` with ``source``, ``text`` and ``tasks`` for a user script; ``rules`` with
        ``source`` and ``text`` if rewrite rules were applied; ``unproved`` for an imported payload whose only oracle is
        its plain lowering.
        """
        return {"sweep": self.name, **self._facts}


def study_name(payload: str, task: str, identity: dict[str, str]) -> str:
    """Return the name of a sweep's study."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    return f"{payload}/{task}/{digest}"


def to_record(trial: Trial, space: Space) -> FrozenTrial:
    """Convert a trial to an Optuna trial, as dashboards expect it."""
    return frozen(trial.seconds if trial.outcome == "ok" else None, trial.config, space, encode(trial))


def frozen(value: float | None, config: Config, space: Space, data: dict[str, Any]) -> FrozenTrial:
    """Create an Optuna trial with user attribute `TRIAL`.

    Args:
        value: Objective value in seconds; `None` if the candidate failed.
        config: Config of the candidate.
        space: Space of the config.
        data: JSON data of the trial.
    """
    now = datetime.now()
    return FrozenTrial(  # not create_trial, whose check for distributions of older releases takes a millisecond
        number=-1,
        trial_id=-1,
        state=TrialState.FAIL if value is None else TrialState.COMPLETE,
        value=value,
        datetime_start=now,
        datetime_complete=now,
        params=dict(config),
        distributions=distributions(space),
        user_attrs={TRIAL: data},
        system_attrs={},
        intermediate_values={},
    )


@cache
def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return the Optuna distributions of a space, by knob."""
    return {knob.name: CategoricalDistribution(knob.values) for knob in space.knobs}


def encode(trial: Trial) -> dict[str, Any]:
    """Convert a trial to strict JSON data: a non-finite error becomes a string, since dashboards reject it."""
    data = trial.to_json()
    if trial.max_error is not None and not math.isfinite(trial.max_error):
        data["max_error"] = str(trial.max_error)
    return data


WORDS = ("task", "key", "outcome", "family", "diagnostic", "scheduled", "compiled", "twin")
MOST = 1 << 63  # exclusive bound of integers in tables
FACTS = {"flops": float, "bytes": float, "default": dict, "name": str, "script": dict, "rules": dict, "unproved": bool}


def check_kinds(trial: Trial) -> None:
    """Refuse a trial with a field of the wrong type.

    Raises:
        TypeError: A field has another type than `encode` writes.
    """
    has_strings = all(isinstance(getattr(trial, name), str) for name in WORDS)
    has_config = is_config(trial.config) and isinstance(trial.phases, dict) and is_whole(trial.number)
    has_count = trial.samples is None or is_whole(trial.samples.calls)
    numbers = (trial.max_error, trial.seconds, trial.joules)  # seconds is derived from all samples
    known = [each for each in numbers if each is not None]
    if not (has_strings and has_config and has_count and all(map(is_number, (*known, *trial.phases.values())))):
        raise TypeError("a trial must have parts of the types that are written")


def is_number(value: object) -> bool:
    """Return whether a value is a float, or an integer that fits in 64 bits."""
    return isinstance(value, float) or is_whole(value)


def is_whole(value: object) -> bool:
    """Return whether a value is an integer that fits in 64 bits."""
    return isinstance(value, int) and -MOST <= value < MOST


def is_config(value: object) -> bool:
    """Return whether a value is a config: a dict of strings and 64-bit integers."""
    return isinstance(value, dict) and all(isinstance(each, str) or is_whole(each) for each in value.values())


def check_object(value: object, name: str, where: str) -> None:
    """Refuse a record that is not a JSON object.

    Raises:
        StoreError: The record is another value.
    """
    if not isinstance(value, dict):
        raise StoreError(f"{name} in {where} must be an object, it is {one_line(repr(value))[:50]}; {WAY_OUT}")


def check_facts(about: dict[str, Any], name: str, where: str) -> None:
    """Refuse attributes of a sweep with the wrong type.

    Raises:
        StoreError: An attribute has another type than is written.
    """
    check_object(about, f"what sweep {one_line(name)[:100]} says", where)
    for fact, fact_type in FACTS.items():
        value = about.get(fact)
        if value is None:
            continue
        is_valid = is_number(value) if fact_type is float else isinstance(value, fact_type)
        if not is_valid or (fact == "default" and not is_config(value)):
            raise StoreError(
                f"{fact} of a sweep must be of the type that is written, that of {one_line(name)[:100]} in {where} is "
                f"{one_line(repr(value))[:50]}; {WAY_OUT}"
            )


def decode(recorded: dict[str, Any], number: int, where: str) -> Trial:
    """Decode the trial of a record.

    Args:
        recorded: Data written by `encode`.
        number: Number of the record, for the message.
        where: Location of the store, for the message.

    Raises:
        StoreError: The record is incomplete.
    """
    try:
        data = dict(recorded)
        if isinstance(data["max_error"], str):
            data["max_error"] = float(data["max_error"])
        trial = Trial.from_json({**data, "schedule": current_name(data["schedule"])})
        check_kinds(trial)
        return trial
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"trials of a store must be complete; {where}: {number} is not; {WAY_OUT}") from error
