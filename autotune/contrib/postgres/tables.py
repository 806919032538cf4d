"""Optuna's tables, read and written by SQL: the only file that knows their columns.

Optuna's own storage makes these tables, and anything of Optuna opens them. But it takes three statements a knob to add
a trial, and builds an object a knob to read one: 30 ms a trial of 22 knobs, and 15 GB for a million trials. What is
written here is what it would have written (a test holds it to that), in six statements a trial.
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
OPTUNA = frozenset({"studies", "trials", "version_info", "alembic_version"})  # that Optuna's databases have

# Statements of every trial, made once: that is half of the time of one. Id, number and an attribute of trials, those
# without it too; those of a study behind an id; the row of a study, exclusively.
ATTRIBUTE = select(TRIALS.c.trial_id, TRIALS.c.number, ATTRIBUTES.c.value_json).select_from(
    TRIALS.outerjoin(ATTRIBUTES, and_(ATTRIBUTES.c.trial_id == TRIALS.c.trial_id, ATTRIBUTES.c.key == bindparam("key")))
)
ENTRIES = ATTRIBUTE.where(TRIALS.c.study_id == bindparam("study"), TRIALS.c.trial_id > bindparam("after")).order_by(
    TRIALS.c.trial_id
)
LOCK = select(STUDIES.c.study_id).where(STUDIES.c.study_id == bindparam("study")).with_for_update()
ADD = insert(TRIALS).returning(TRIALS.c.trial_id, sort_by_parameter_order=True)


def study_ids(connection: Connection) -> dict[str, int]:
    """Names and ids of all studies, oldest first."""
    found = connection.execute(select(STUDIES.c.study_name, STUDIES.c.study_id).order_by(STUDIES.c.study_id))
    return {row.study_name: row.study_id for row in found}


def lock_study(connection: Connection, study: int) -> None:
    """Keep others from adding to a study before this transaction ends, as Optuna does; so ids grow as trials appear."""
    connection.execute(LOCK, {"study": study})


def count_trials(connection: Connection, studies: Sequence[int]) -> int:
    """How many trials some studies have."""
    return connection.execute(select(func.count()).where(TRIALS.c.study_id.in_(studies))).scalar_one()


def read_entries(connection: Connection, study: int, key: str, after: int) -> list[tuple[int, LogEntry]]:
    """Entries of a study behind a trial's id, each with its own, as they were recorded; the value is an attribute's."""
    found = connection.execute(ENTRIES, {"key": key, "study": study, "after": after})
    return [(row, LogEntry(number, load(text))) for row, number, text in found]


def read_values(connection: Connection, trials: Sequence[int], key: str) -> dict[int, object]:
    """An attribute of some trials by their ids."""
    found = connection.execute(ATTRIBUTE.where(TRIALS.c.trial_id.in_(trials)), {"key": key})
    return {row: load(text) for row, _, text in found}


def append(connection: Connection, study: int, number: int, records: Sequence[FrozenTrial]) -> None:
    """Add finished trials of one objective to a study that is locked.

    Args:
        connection: Connection in the transaction that has the lock.
        study: Id of the study.
        number: Trials that the study has.
        records: Trials as `optuna.trial.create_trial` makes them.
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
    known = list(zip(ids, records, strict=True))
    write(connection, VALUES, (value_of(row, record.value) for row, record in known if record.value is not None))
    write(connection, PARAMS, (param for row, record in known for param in params_of(row, record)))
    write(connection, ATTRIBUTES, (a for row, record in known for a in texts(row, record.user_attrs)))
    write(connection, SYSTEM_ATTRIBUTES, (a for row, record in known for a in texts(row, record.system_attrs)))


def write(connection: Connection, table: Table, rows: Iterable[dict[str, Any]]) -> None:
    """Insert rows, if there are any."""
    if listed := list(rows):
        connection.execute(insert(table), listed)


def value_of(trial: int, value: float) -> dict[str, Any]:
    """The row of a trial's value; an infinite one is only a type."""
    kind = "FINITE" if abs(value) != float("inf") else "INF_POS" if value > 0 else "INF_NEG"
    return {"trial_id": trial, "objective": 0, "value": value if kind == "FINITE" else None, "value_type": kind}


def params_of(trial: int, record: FrozenTrial) -> Iterator[dict[str, Any]]:
    """Rows of a trial's knobs."""
    for name, value in record.params.items():
        distribution = record.distributions[name]
        yield {
            "trial_id": trial,
            "param_name": name,
            "param_value": float(distribution.to_internal_repr(value)),
            "distribution_json": distribution_to_json(distribution),
        }


def texts(trial: int, attributes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of a trial's attributes."""
    for key, value in attributes.items():
        yield {"trial_id": trial, "key": key, "value_json": json.dumps(value)}


def in_utc(time: datetime | None) -> datetime | None:
    """A local time as Optuna 5 stores it."""
    return time.astimezone(UTC).replace(tzinfo=None) if time is not None else None


def load(text: str | None) -> object:
    """The value of an attribute; `None` where it is missing."""
    return json.loads(text) if text is not None else None
