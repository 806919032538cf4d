"""Direct SQL access to Optuna's tables; no other module depends on their columns.

Optuna's own storage creates these tables, and all of Optuna's tools can open them. But it executes three statements per
knob to add a trial and builds one object per knob to read it: 30 ms per trial of 22 knobs, and 15 GB for a million
trials. This module writes the same rows (a test compares them) with six statements per trial.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from optuna.distributions import distribution_to_json
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Double,
    Enum,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    and_,
    bindparam,
    func,
    insert,
    select,
)

from autotune.store.log import LogEntry

TABLES = MetaData()
STUDIES = Table("studies", TABLES, Column("study_id", Integer, primary_key=True), Column("study_name", String))
TRIALS = Table(
    "trials",
    TABLES,
    Column("trial_id", Integer, primary_key=True),
    Column("number", Integer),
    Column("study_id", Integer),
    Column("state", Enum(TrialState, name="trialstate")),
    Column("datetime_start", DateTime),
    Column("datetime_complete", DateTime),
)
PARAMS = Table(
    "trial_params",
    TABLES,
    Column("param_id", Integer, primary_key=True),
    Column("trial_id", Integer),
    Column("param_name", String),
    Column("param_value", Double),
    Column("distribution_json", Text),
)
VALUES = Table(
    "trial_values",
    TABLES,
    Column("trial_value_id", Integer, primary_key=True),
    Column("trial_id", Integer),
    Column("objective", Integer),
    Column("value", Double),
    Column("value_type", Enum("FINITE", "INF_POS", "INF_NEG", name="trialvaluetype")),
)
ATTRIBUTES, SYSTEM_ATTRIBUTES = (
    Table(
        f"trial_{kind}_attributes",
        TABLES,
        Column(f"trial_{kind}_attribute_id", Integer, primary_key=True),
        Column("trial_id", Integer),
        Column("key", String),
        Column("value_json", Text),
    )
    for kind in ("user", "system")
)
OPTUNA = frozenset({"studies", "trials", "version_info", "alembic_version"})  # identify an Optuna database

# Statements that are executed for every trial; building them takes half of the time, so it is done once.
# ATTRIBUTE: id, number and one user attribute (or null) of trials. ENTRIES: the same for trials of a study after an id.
# LOCK: exclusive lock of the row of a study.
ATTRIBUTE = select(TRIALS.c.trial_id, TRIALS.c.number, ATTRIBUTES.c.value_json).select_from(
    TRIALS.outerjoin(ATTRIBUTES, and_(ATTRIBUTES.c.trial_id == TRIALS.c.trial_id, ATTRIBUTES.c.key == bindparam("key")))
)
ENTRIES = ATTRIBUTE.where(TRIALS.c.study_id == bindparam("study"), TRIALS.c.trial_id > bindparam("after")).order_by(
    TRIALS.c.trial_id
)
LOCK = select(STUDIES.c.study_id).where(STUDIES.c.study_id == bindparam("study")).with_for_update()
ADD = insert(TRIALS).returning(TRIALS.c.trial_id, sort_by_parameter_order=True)


def study_ids(connection: Connection) -> dict[str, int]:
    """Return the ids of all studies by name, oldest first."""
    rows = connection.execute(select(STUDIES.c.study_name, STUDIES.c.study_id).order_by(STUDIES.c.study_id))
    return {row.study_name: row.study_id for row in rows}


def lock_study(connection: Connection, study: int) -> None:
    """Lock a study until this transaction ends, as Optuna does, so that trials appear in the order of their ids."""
    connection.execute(LOCK, {"study": study})


def count_trials(connection: Connection, studies: Sequence[int]) -> int:
    """Return the number of trials in some studies."""
    return connection.execute(select(func.count()).where(TRIALS.c.study_id.in_(studies))).scalar_one()


def read_entries(connection: Connection, study: int, key: str, after: int) -> list[tuple[int, LogEntry]]:
    """Return the entries of a study after a trial id, with their trial ids; the value is the attribute `key`."""
    rows = connection.execute(ENTRIES, {"key": key, "study": study, "after": after})
    return [(row, LogEntry(number, load(text))) for row, number, text in rows]


def read_values(connection: Connection, trials: Sequence[int], key: str) -> dict[int, object]:
    """Return the user attribute `key` of some trials, by trial id."""
    rows = connection.execute(ATTRIBUTE.where(TRIALS.c.trial_id.in_(trials)), {"key": key})
    return {row: load(text) for row, _, text in rows}


def append(connection: Connection, study: int, number: int, records: Sequence[FrozenTrial]) -> None:
    """Insert finished single-objective trials into a locked study.

    Args:
        connection: Connection in the transaction that holds the lock.
        study: Id of the study.
        number: Number of trials already in the study.
        records: Trials as `optuna.trial.create_trial` returns them.
    """
    rows = [
        {
            "study_id": study,
            "number": number + index,
            "state": record.state,
            "datetime_start": in_utc(record.datetime_start),
            "datetime_complete": in_utc(record.datetime_complete),
        }
        for index, record in enumerate(records)
    ]
    ids = connection.execute(ADD, rows).scalars().all()
    numbered = list(zip(ids, records, strict=True))
    write(connection, VALUES, (value_of(row, record.value) for row, record in numbered if record.value is not None))
    write(connection, PARAMS, (param for row, record in numbered for param in params_of(row, record)))
    write(connection, ATTRIBUTES, (a for row, record in numbered for a in texts(row, record.user_attrs)))
    write(connection, SYSTEM_ATTRIBUTES, (a for row, record in numbered for a in texts(row, record.system_attrs)))


def write(connection: Connection, table: Table, rows: Iterable[dict[str, Any]]) -> None:
    """Insert rows, if there are any."""
    if listed := list(rows):
        connection.execute(insert(table), listed)


def value_of(trial: int, value: float) -> dict[str, Any]:
    """Return the row of a trial's value; an infinite value is stored as its type only."""
    kind = "FINITE" if abs(value) != float("inf") else "INF_POS" if value > 0 else "INF_NEG"
    return {"trial_id": trial, "objective": 0, "value": value if kind == "FINITE" else None, "value_type": kind}


def params_of(trial: int, record: FrozenTrial) -> Iterator[dict[str, Any]]:
    """Yield the rows of a trial's parameters."""
    for name, value in record.params.items():
        distribution = record.distributions[name]
        yield {
            "trial_id": trial,
            "param_name": name,
            "param_value": float(distribution.to_internal_repr(value)),
            "distribution_json": distribution_to_json(distribution),
        }


def texts(trial: int, attributes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a trial's attributes."""
    for key, value in attributes.items():
        yield {"trial_id": trial, "key": key, "value_json": json.dumps(value)}


def in_utc(time: datetime | None) -> datetime | None:
    """Convert a local time to naive UTC, as Optuna 5 stores it."""
    return time.astimezone(UTC).replace(tzinfo=None) if time is not None else None


def load(text: str | None) -> object:
    """Decode the value of an attribute; `None` if it is missing."""
    return json.loads(text) if text is not None else None
