"""The trials of one task in a store: records come and go as Optuna trials, each with the whole `Trial` inside."""

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

TRIAL = "trial"  # the attribute of a record that has the trial


class Sweep:
    """The trials of one payload's task under one identity, by however many tuners.

    Attributes:
        name: Name of the sweep's study.
        recorded: Every trial, in the order they were recorded.
        records: The latest trial of every key.
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
        """Read what was recorded meanwhile, by any process."""
        with plain_errors(self.where):
            fresh = self._log.news()
        for entry in fresh:
            if entry.value is not None:
                trial = decode(entry.value, entry.number, self.where)
                self.recorded.append(trial)
                self.records[trial.key] = trial

    def claim(self, key: str) -> bool:
        """Claim a trial; false if another tuner works on it, or did.

        Release it by `release` when it is recorded.
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
        """Give up a claim."""
        with plain_errors(self.where):
            self.locks.release(self._lock_of(key))

    def _lock_of(self, key: str) -> str:
        """What a claim locks: other machines may try the same, and share a store."""
        return f"{self.name} {key}"

    def add(self, trial: Trial, space: Space) -> None:
        """Record a finished trial, in one write.

        Args:
            trial: The outcome of it: COMPLETE with its seconds a call, or FAIL.
            space: Space that the config comes from.

        Raises:
            SpaceError: The config is not one of the space.
            StoreError: The write is refused; nothing changed.
        """
        space.check(trial.config)

        def is_known(fresh: Sequence[LogEntry]) -> bool:
            return trial.key in self.records or any(e.value and e.value.get("key") == trial.key for e in fresh)

        with plain_errors(self.where):
            self._log.add(to_record(trial, space), is_known)
        self.refresh()

    def trials(self) -> list[Trial]:
        """Every trial, by number."""
        return sorted(self.recorded, key=lambda trial: trial.number)

    @property
    def about(self) -> dict[str, Any]:
        """What the sweep is of: ``sweep``, its own name, ``payload``, ``task``, ``identity``, ``flops`` and ``bytes``.

        Sweeps of older releases lack ``default``, the default config, and ``name``, the task's for people. A sweep of a
        user's own script has it as ``script``: its ``source``, ``text`` and ``tasks``.
        One of a payload that rules were applied to has those as ``rules``: ``source`` and ``text``. One of an imported
        payload whose only oracle is its own plain lowering has ``unproved``.
        """
        return {"sweep": self.name, **self._facts}


def study_name(payload: str, task: str, identity: dict[str, str]) -> str:
    """Name of the study that keeps a sweep."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    return f"{payload}/{task}/{digest}"


def to_record(trial: Trial, space: Space) -> FrozenTrial:
    """A trial as Optuna and its dashboards know it."""
    return frozen(trial.seconds if trial.outcome == "ok" else None, trial.config, space, encode(trial))


def frozen(value: float | None, config: Config, space: Space, data: dict[str, Any]) -> FrozenTrial:
    """A record of `TRIAL`.

    Args:
        value: What is minimised; `None` where the candidate failed.
        config: Config of the candidate.
        space: Space of the config.
        data: All that is recorded, as JSON.
    """
    now = datetime.now()
    return FrozenTrial(  # not create_trial, which looks for distributions of older releases: a millisecond
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
    """A space as Optuna's dashboards know it."""
    return {knob.name: CategoricalDistribution(knob.values) for knob in space.knobs}


def encode(trial: Trial) -> dict[str, Any]:
    """Strict JSON of a trial: an infinite or undefined error becomes a string, which dashboards can read."""
    data = trial.to_json()
    if trial.max_error is not None and not math.isfinite(trial.max_error):
        data["max_error"] = str(trial.max_error)
    return data


WORDS = ("task", "key", "outcome", "family", "diagnostic", "scheduled", "compiled", "twin")
MOST = 1 << 63  # what whole numbers of tables are below
FACTS = {"flops": float, "bytes": float, "default": dict, "name": str, "script": dict, "rules": dict, "unproved": bool}


def check_kinds(trial: Trial) -> None:
    """Refuse a trial whose parts are of other types than they are written in.

    Raises:
        TypeError: One is.
    """
    words = all(isinstance(getattr(trial, name), str) for name in WORDS)
    held = is_config(trial.config) and isinstance(trial.phases, dict) and is_whole(trial.number)
    counted = trial.samples is None or is_whole(trial.samples.calls)
    numbers = (trial.max_error, trial.seconds, trial.joules)  # the second of all that is measured
    known = [each for each in numbers if each is not None]
    if not (words and held and counted and all(map(is_number, (*known, *trial.phases.values())))):
        raise TypeError("a trial must have parts of the types that are written")


def is_number(value: object) -> bool:
    """Tell whether a value is a number that tables hold."""
    return isinstance(value, float) or is_whole(value)


def is_whole(value: object) -> bool:
    """Tell whether a value is a whole number that tables hold."""
    return isinstance(value, int) and -MOST <= value < MOST


def is_config(value: object) -> bool:
    """Tell whether a value is that of every knob."""
    return isinstance(value, dict) and all(isinstance(each, str) or is_whole(each) for each in value.values())


def check_object(value: object, what: str, where: str) -> None:
    """Refuse a record that is no object of JSON.

    Raises:
        StoreError: The record is another value.
    """
    if not isinstance(value, dict):
        raise StoreError(f"{what} in {where} must be an object, it is {one_line(repr(value))[:50]}; {WAY_OUT}")


def check_facts(about: dict[str, Any], name: str, where: str) -> None:
    """Refuse what a sweep says of itself in other types than it is written in.

    Raises:
        StoreError: A fact is of another type.
    """
    check_object(about, f"what sweep {one_line(name)[:100]} says", where)
    for fact, kind in FACTS.items():
        said = about.get(fact)
        if said is None:
            continue
        is_right = is_number(said) if kind is float else isinstance(said, kind)
        if not is_right or (fact == "default" and not is_config(said)):
            raise StoreError(
                f"{fact} of a sweep must be of the type that is written, that of {one_line(name)[:100]} in {where} is "
                f"{one_line(repr(said))[:50]}; {WAY_OUT}"
            )


def decode(recorded: dict[str, Any], number: int, where: str) -> Trial:
    """The trial in a record.

    Args:
        recorded: What `encode` gave.
        number: Number of the record, for the message.
        where: Store, for the message.

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
