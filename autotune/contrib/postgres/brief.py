"""A trial in short: a line of numbers beside each trial on a server.

A trial as it is recorded is a kilobyte and more of JSON, a million of them 1.5 GB: more than can be read in seconds.
Nine fields of it are what is counted and added up; of what is best the whole trial is read.
"""

import copy
from collections.abc import Sequence
from typing import Any

from optuna.trial import FrozenTrial
from sqlalchemy import Connection

from autotune.contrib.postgres.tables import read_values
from autotune.core.trial import Trial
from autotune.store.frames import PHASES
from autotune.store.header import BRIEF
from autotune.store.sweep import TRIAL, decode

FIELDS = ("number", "outcome", "seconds_median", "seconds_normalised", *PHASES)  # of a brief text, in order
CHUNK = 1000  # trials that are read whole at a time


def with_brief(record: FrozenTrial) -> FrozenTrial:
    """A record as a server keeps it."""
    if TRIAL not in record.user_attrs:
        return record
    kept = copy.copy(record)
    kept.system_attrs = {**record.system_attrs, BRIEF: write_brief(decode(record.user_attrs[TRIAL], 0, "the record"))}
    return kept


def write_brief(trial: Trial) -> str:
    """A trial in short.

    Example:
        >>> write_brief(Trial("t", 7, {}, "crashed", "key", "family", phases={"transform": 0.5, "jit": 0.25}))
        '7,crashed,,,0.5,,0.25,,'
    """
    samples = trial.samples
    fields = [trial.number, trial.outcome, samples and samples.median, trial.seconds]
    fields += [trial.phases.get(phase) for phase in PHASES]
    return ",".join("" if field is None else str(field) for field in fields)


def read_trials(connection: Connection, rows: Sequence[int]) -> dict[int, Trial]:
    """Some trials, whole, by their rows' ids; what is none is left out."""
    found: dict[int, Any] = {}
    for start in range(0, len(rows), CHUNK):
        found |= read_values(connection, rows[start : start + CHUNK], TRIAL)
    return {row: decode(data, row, "a trial of the database") for row, data in found.items() if data is not None}
