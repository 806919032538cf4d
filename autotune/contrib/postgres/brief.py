"""Summary line: a comma-separated text with the numbers of a trial, stored beside it on a server.

A recorded trial is more than a kilobyte of JSON, a million of them 1.5 GB, which takes too long to read. An overview
aggregates nine fields, which this line holds; only the best trials are read whole.
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

FIELDS = ("number", "outcome", "seconds_median", "seconds_normalised", *PHASES)  # of a summary line, in order
CHUNK = 1000  # trials that are read whole at a time


def with_brief(record: FrozenTrial) -> FrozenTrial:
    """Return a copy of a record with its summary line as a system attribute."""
    if TRIAL not in record.user_attrs:
        return record
    copied = copy.copy(record)
    copied.system_attrs = {**record.system_attrs, BRIEF: write_brief(decode(record.user_attrs[TRIAL], 0, "the record"))}
    return copied


def write_brief(trial: Trial) -> str:
    """Return the summary line of a trial.

    Example:
        >>> write_brief(Trial("t", 7, {}, "crashed", "key", "family", phases={"transform": 0.5, "jit": 0.25}))
        '7,crashed,,,0.5,,0.25,,'
    """
    samples = trial.samples
    fields = [trial.number, trial.outcome, samples and samples.median, trial.seconds]
    fields += [trial.phases.get(phase) for phase in PHASES]
    return ",".join("" if field is None else str(field) for field in fields)


def read_trials(connection: Connection, rows: Sequence[int]) -> dict[int, Trial]:
    """Read whole trials by the ids of their rows; rows without a recorded trial are left out."""
    texts: dict[int, Any] = {}
    for start in range(0, len(rows), CHUNK):
        texts |= read_values(connection, rows[start : start + CHUNK], TRIAL)
    return {row: decode(data, row, "a trial of the database") for row, data in texts.items() if data is not None}
