"""Aggregate queries over the trials of sweeps, executed by the server.

Counts and phase times come from the summary line of each trial (`autotune.contrib.postgres.brief`), times of trials
from the values in Optuna's tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection, Double, Select, Subquery, and_, cast, func, or_, select

from autotune.contrib.postgres.brief import FIELDS, read_trials
from autotune.contrib.postgres.tables import SYSTEM_ATTRIBUTES, TRIALS, VALUES
from autotune.core.trial import Trial
from autotune.store.frames import PHASES
from autotune.store.header import BRIEF

CHUNK = 1000  # trials that are read whole at a time
Studies: TypeAlias = Sequence[int] | None  # ids; `None` for all, which needs no filter


@dataclass(frozen=True)
class Total:
    """Trials of one sweep with one outcome.

    Attributes:
        study: Id of the sweep's study.
        outcome: One of `autotune.core.trial.OUTCOMES`; empty for trials without a summary line.
        trials: Number of trials.
        phases: Total seconds by phase.
    """

    study: int
    outcome: str
    trials: int
    phases: dict[str, float]


@dataclass(frozen=True)
class Improvement:
    """A trial of a sweep that was faster than all before it.

    Attributes:
        study: Id of the sweep's study.
        position: Position in the sweep, from 1.
        trial: Id of its row.
        seconds: Seconds per call, normalized by the reference kernel.
    """

    study: int
    position: int
    trial: int
    seconds: float


STUDY = TRIALS.c.study_id
HAS_BRIEF = and_(SYSTEM_ATTRIBUTES.c.trial_id == TRIALS.c.trial_id, SYSTEM_ATTRIBUTES.c.key == BRIEF)
HAS_VALUE = and_(VALUES.c.trial_id == TRIALS.c.trial_id, VALUES.c.objective == 0)


def chosen(query: Select[Any], studies: Studies) -> Subquery:
    """Restrict a query to some studies, or to none if `studies` is `None`, as a subquery."""
    return (query if studies is None else query.where(STUDY.in_(studies))).subquery()


def brief_table(studies: Studies) -> Subquery:
    """Return a subquery of study, outcome and phase seconds of every trial, parsed from its summary line."""
    text = SYSTEM_ATTRIBUTES.c.value_json  # a JSON string: quotes precede the first field and follow the last
    fields = {name: func.split_part(text, ",", FIELDS.index(name) + 1) for name in ("outcome", *PHASES)}
    fields[FIELDS[-1]] = func.rtrim(fields[FIELDS[-1]], '"')
    seconds = [cast(func.nullif(fields[name], ""), Double).label(name) for name in PHASES]
    query = select(STUDY, fields["outcome"].label("outcome"), *seconds)
    return chosen(query.select_from(TRIALS.outerjoin(SYSTEM_ATTRIBUTES, HAS_BRIEF)), studies)


def course_table(studies: Studies) -> Subquery:
    """Return a subquery of study, position, row id and value of every trial, and the minimum of all earlier values."""
    order = (TRIALS.c.number, TRIALS.c.trial_id)
    position = func.row_number().over(partition_by=STUDY, order_by=order).label("position")
    before = func.min(VALUES.c.value).over(partition_by=STUDY, order_by=order, rows=(None, -1)).label("before")
    query = select(STUDY, position, TRIALS.c.trial_id, VALUES.c.value, before)
    return chosen(query.select_from(TRIALS.outerjoin(VALUES, HAS_VALUE)), studies)


def ranked_table(studies: Studies) -> Subquery:
    """Return a subquery of study, row id and rank by value of every measured trial."""
    rank = func.row_number().over(partition_by=STUDY, order_by=(VALUES.c.value, TRIALS.c.number, TRIALS.c.trial_id))
    query = select(STUDY, TRIALS.c.trial_id, rank.label("rank")).select_from(TRIALS.join(VALUES, HAS_VALUE))
    return chosen(query.where(VALUES.c.value.is_not(None)), studies)


def read_totals(connection: Connection, studies: Studies) -> list[Total]:
    """Return trial counts and phase seconds of some studies by outcome, which is empty without a summary line."""
    table = brief_table(studies)
    sums = [func.coalesce(func.sum(table.c[name]), 0.0) for name in PHASES]
    query = select(table.c.study_id, table.c.outcome, func.count(), *sums).group_by(table.c.study_id, table.c.outcome)
    rows = connection.execute(query).all()
    return [Total(study, outcome or "", n, dict(zip(PHASES, sums, strict=True))) for study, outcome, n, *sums in rows]


def read_bare(connection: Connection, studies: Sequence[int]) -> list[Total]:
    """Return totals of the trials without a summary line, which other writers of Optuna's tables leave."""
    query = select(STUDY, TRIALS.c.trial_id).select_from(TRIALS.outerjoin(SYSTEM_ATTRIBUTES, HAS_BRIEF))
    query = query.where(STUDY.in_(studies), SYSTEM_ATTRIBUTES.c.trial_id.is_(None)).order_by(TRIALS.c.trial_id)
    rows = connection.execute(query).all()
    added = []
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        trials = read_trials(connection, [row for _, row in some])
        added += [total_of(study, trials[row]) for study, row in some if row in trials]
    return added


def total_of(study: int, trial: Trial) -> Total:
    """Return the contribution of one trial to the totals."""
    return Total(study, trial.outcome, 1, {phase: trial.phases.get(phase, 0.0) for phase in PHASES})


def read_improvements(connection: Connection, studies: Studies) -> list[Improvement]:
    """Return the trials of some studies that were faster than all earlier ones, in search order."""
    table = course_table(studies)
    query = select(table.c.study_id, table.c.position, table.c.trial_id, table.c.value)
    query = query.where(or_(table.c.before.is_(None), table.c.value < table.c.before), table.c.value.is_not(None))
    rows = connection.execute(query.order_by(table.c.study_id, table.c.position))
    return [Improvement(*row) for row in rows]


def read_best(connection: Connection, studies: Studies, top: int) -> dict[int, list[int]]:
    """Return the row ids of the `top` fastest trials of some studies, fastest first."""
    table = ranked_table(studies)
    query = select(table.c.study_id, table.c.trial_id).where(table.c.rank <= top)
    ranked: dict[int, list[int]] = {}
    for study, trial in connection.execute(query.order_by(table.c.study_id, table.c.rank)):
        ranked.setdefault(study, []).append(trial)
    return ranked


def read_first(connection: Connection, studies: Sequence[int]) -> dict[int, Trial]:
    """Return the first trial of each study, read whole."""
    query = select(STUDY, TRIALS.c.trial_id).where(STUDY.in_(studies), TRIALS.c.number == 0)
    rows = {row: study for study, row in connection.execute(query)}
    return {rows[row]: trial for row, trial in read_trials(connection, list(rows)).items()}


def read_beginning(connection: Connection, study: int, count: int) -> list[int]:
    """Return the row ids of the first trials of a study."""
    query = select(TRIALS.c.trial_id).where(TRIALS.c.study_id == study).order_by(TRIALS.c.trial_id).limit(count)
    return list(connection.execute(query).scalars())
