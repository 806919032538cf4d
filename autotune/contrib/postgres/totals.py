"""What sweeps on a server come to, added up by the server: it reads every trial, and answers with what is shown.

Counts and times of phases are of the line of numbers beside each trial (`autotune.contrib.postgres.brief`), times of
trials are the values that Optuna's own tables have of them.
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
Studies: TypeAlias = Sequence[int] | None  # ids; `None` is all that there are, which the server need not look up


@dataclass(frozen=True)
class Total:
    """Trials of one sweep with one outcome.

    Attributes:
        study: Id of the sweep's study.
        outcome: One of `autotune.core.trial.OUTCOMES`; empty of trials that lack a line of numbers.
        trials: Number of them.
        phases: Seconds that they took by phase.
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
        position: Trials of the sweep before it and itself, in the order of the search.
        trial: Id of its row.
        seconds: Seconds of a call, drift divided out.
    """

    study: int
    position: int
    trial: int
    seconds: float


STUDY = TRIALS.c.study_id
HAS_BRIEF = and_(SYSTEM_ATTRIBUTES.c.trial_id == TRIALS.c.trial_id, SYSTEM_ATTRIBUTES.c.key == BRIEF)
HAS_VALUE = and_(VALUES.c.trial_id == TRIALS.c.trial_id, VALUES.c.objective == 0)


def chosen(asked: Select[Any], studies: Studies) -> Subquery:
    """What is asked of trials, of some studies or of all."""
    return (asked if studies is None else asked.where(STUDY.in_(studies))).subquery()


def brief_table(studies: Studies) -> Subquery:
    """Study, outcome and seconds of each phase of every trial, of the text beside it."""
    text = SYSTEM_ATTRIBUTES.c.value_json  # a string of JSON: quotes around the first field and the last one
    fields = {name: func.split_part(text, ",", FIELDS.index(name) + 1) for name in ("outcome", *PHASES)}
    fields[FIELDS[-1]] = func.rtrim(fields[FIELDS[-1]], '"')
    seconds = [cast(func.nullif(fields[name], ""), Double).label(name) for name in PHASES]
    found = select(STUDY, fields["outcome"].label("outcome"), *seconds)
    return chosen(found.select_from(TRIALS.outerjoin(SYSTEM_ATTRIBUTES, HAS_BRIEF)), studies)


def course_table(studies: Studies) -> Subquery:
    """Study, position, row, value of every trial, and the least value before it in its study."""
    order = (TRIALS.c.number, TRIALS.c.trial_id)
    position = func.row_number().over(partition_by=STUDY, order_by=order).label("position")
    before = func.min(VALUES.c.value).over(partition_by=STUDY, order_by=order, rows=(None, -1)).label("before")
    found = select(STUDY, position, TRIALS.c.trial_id, VALUES.c.value, before)
    return chosen(found.select_from(TRIALS.outerjoin(VALUES, HAS_VALUE)), studies)


def ranked_table(studies: Studies) -> Subquery:
    """Study, row and rank by value of every measured trial."""
    rank = func.row_number().over(partition_by=STUDY, order_by=(VALUES.c.value, TRIALS.c.number, TRIALS.c.trial_id))
    found = select(STUDY, TRIALS.c.trial_id, rank.label("rank")).select_from(TRIALS.join(VALUES, HAS_VALUE))
    return chosen(found.where(VALUES.c.value.is_not(None)), studies)


def read_totals(connection: Connection, studies: Studies) -> list[Total]:
    """Counts and seconds of some studies by outcome; of all, also of what is no sweep: its outcome is empty."""
    table = brief_table(studies)
    sums = [func.coalesce(func.sum(table.c[name]), 0.0) for name in PHASES]
    asked = select(table.c.study_id, table.c.outcome, func.count(), *sums).group_by(table.c.study_id, table.c.outcome)
    rows = connection.execute(asked).all()
    return [Total(study, outcome or "", n, dict(zip(PHASES, sums, strict=True))) for study, outcome, n, *sums in rows]


def read_bare(connection: Connection, studies: Sequence[int]) -> list[Total]:
    """The same of trials that lack a line of numbers, as whatever else writes into Optuna's tables leaves them."""
    asked = select(STUDY, TRIALS.c.trial_id).select_from(TRIALS.outerjoin(SYSTEM_ATTRIBUTES, HAS_BRIEF))
    asked = asked.where(STUDY.in_(studies), SYSTEM_ATTRIBUTES.c.trial_id.is_(None)).order_by(TRIALS.c.trial_id)
    rows = connection.execute(asked).all()
    found = []
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        trials = read_trials(connection, [row for _, row in some])
        found += [total_of(study, trials[row]) for study, row in some if row in trials]
    return found


def total_of(study: int, trial: Trial) -> Total:
    """What one trial adds."""
    return Total(study, trial.outcome, 1, {phase: trial.phases.get(phase, 0.0) for phase in PHASES})


def read_improvements(connection: Connection, studies: Studies) -> list[Improvement]:
    """The trials of some studies that were faster than all before them, in the order of the search."""
    table = course_table(studies)
    asked = select(table.c.study_id, table.c.position, table.c.trial_id, table.c.value)
    asked = asked.where(or_(table.c.before.is_(None), table.c.value < table.c.before), table.c.value.is_not(None))
    rows = connection.execute(asked.order_by(table.c.study_id, table.c.position))
    return [Improvement(*row) for row in rows]


def read_best(connection: Connection, studies: Studies, top: int) -> dict[int, list[int]]:
    """Rows of the fastest trials of some studies, fastest first."""
    table = ranked_table(studies)
    asked = select(table.c.study_id, table.c.trial_id).where(table.c.rank <= top)
    found: dict[int, list[int]] = {}
    for study, trial in connection.execute(asked.order_by(table.c.study_id, table.c.rank)):
        found.setdefault(study, []).append(trial)
    return found


def read_first(connection: Connection, studies: Sequence[int]) -> dict[int, Trial]:
    """The trial of some studies that was recorded first, whole."""
    asked = select(STUDY, TRIALS.c.trial_id).where(STUDY.in_(studies), TRIALS.c.number == 0)
    rows = {row: study for study, row in connection.execute(asked)}
    return {rows[row]: trial for row, trial in read_trials(connection, list(rows)).items()}


def read_beginning(connection: Connection, study: int, count: int) -> list[int]:
    """Rows of the first trials of a study."""
    asked = select(TRIALS.c.trial_id).where(TRIALS.c.study_id == study).order_by(TRIALS.c.trial_id).limit(count)
    return list(connection.execute(asked).scalars())
