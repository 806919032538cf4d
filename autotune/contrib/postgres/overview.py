"""Overview of a store on a server, aggregated by the server so that few trials are read."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from autotune.contrib.postgres import totals
from autotune.contrib.postgres.brief import read_trials
from autotune.contrib.postgres.database import Database
from autotune.core.host.machine import Roofs
from autotune.core.space import Config
from autotune.core.trial import Trial
from autotune.reports.courses import Course
from autotune.reports.holdings import Abouts, DefaultConfig, check_payload, names_in, roofs_of
from autotune.reports.overview import Overview, SweepFigures, describe_trial
from autotune.store.frames import PHASES, row
from autotune.store.plain_errors import plain_errors
from autotune.store.store import Store

FIRST = 1000  # trials of a sweep searched for its default config, with which a search begins


@dataclass(frozen=True)
class Answers:
    """Results of the queries about studies, by study id.

    Attributes:
        counted: Totals by outcome.
        improved: Trials that were faster than all before them.
        best: Best trials, fastest first.
        defaults: Default configs of the studies that record one.
    """

    counted: Mapping[int, list[totals.Total]]
    improved: Mapping[int, list[totals.Improvement]]
    best: Mapping[int, list[Trial]]
    defaults: Mapping[int, DefaultConfig]


def overview(location: str, payload: str | None, top: int) -> Overview:
    """Return the overview of a store on a server, which aggregates the trials.

    Args:
        location: URL of the database.
        payload: Payload whose sweeps are included; `None` for all.
        top: Maximum number of trials per task whose configs are shown.

    Raises:
        StoreError: The store is missing or damaged, or holds no such payload.
    """
    with Store.read(location) as store, plain_errors(store.where):
        roofs = roofs_of([summary for summary in store.summaries() if payload in (None, summary.get("payload"))])
        all_abouts = store.abouts()
        abouts = {name: about for name, about in all_abouts.items() if payload in (None, about["payload"])}
        if not isinstance(store.database, Database) or not abouts:
            check_payload(payload, all_abouts, exists=False)
            return Overview((), top, roofs)
        ids = store.database.ids(abouts)
        only = None if payload is None else list(ids.values())
        answers = store.database.server.run(lambda connection: ask(connection, abouts, ids, only, top))
    studies = {name: study for name, study in ids.items() if study in answers.counted}
    check_payload(payload, all_abouts, exists=bool(studies))
    figures = tuple(figures_of(name, abouts[name], study, answers, roofs) for name, study in studies.items())
    return Overview(figures, top, roofs, names_in(abouts))


def ask(connection: Connection, abouts: Abouts, ids: Mapping[str, int], only: totals.Studies, top: int) -> Answers:
    """Query the aggregates of some sweeps."""
    wanted = set(ids.values())
    improved: dict[int, list[totals.Improvement]] = {}
    for measured in totals.read_improvements(connection, only):
        improved.setdefault(measured.study, []).append(measured)
    rows = {study: [trials[-1].trial] for study, trials in improved.items()}
    if top > 1:
        rows = totals.read_best(connection, only, top)
    rows = {study: rows[study] for study in rows.keys() & wanted}
    trials = read_trials(connection, [row for some in rows.values() for row in some])
    best = {study: [trials[row] for row in some if row in trials] for study, some in rows.items()}
    return Answers(read_counts(connection, wanted, only), improved, best, read_defaults(connection, abouts, ids))


def read_counts(connection: Connection, wanted: Set[int], only: totals.Studies) -> dict[int, list[totals.Total]]:
    """Return totals by outcome of some studies; trials without a summary line are read whole."""
    summed = [total for total in totals.read_totals(connection, only) if total.study in wanted]
    bare = [total.study for total in summed if not total.outcome]
    counted: dict[int, list[totals.Total]] = {}
    for total in summed + (totals.read_bare(connection, bare) if bare else []):
        if total.outcome:
            counted.setdefault(total.study, []).append(total)
    return counted


def figures_of(name: str, about: Mapping[str, Any], study: int, answers: Answers, roofs: Roofs | None) -> SweepFigures:
    """Return the figures of one study from the results of the queries."""
    counted, improved = answers.counted[study], answers.improved.get(study, [])
    outcomes: dict[str, int] = {}
    for total in counted:
        outcomes[total.outcome] = outcomes.get(total.outcome, 0) + total.trials
    indices, seconds = tuple(each.position - 1 for each in improved), tuple(each.seconds for each in improved)
    default = answers.defaults.get(study)
    described = (describe_trial(plain(trial, about), roofs, default) for trial in answers.best.get(study, []))
    return SweepFigures(
        **facts_of(about),
        outcomes=outcomes,
        phases={phase: sum(total.phases[phase] for total in counted) for phase in PHASES},
        best=tuple(described),
        course=Course(sum(outcomes.values()), indices, seconds),
        unproved=bool(about.get("unproved")),
    )


def facts_of(about: Mapping[str, Any]) -> dict[str, str]:
    """Return payload, task, machine and compiler of a sweep."""
    identity = about.get("identity", {})
    named = {name: str(identity.get(name, "")) for name in ("machine", "compiler")}
    return {"payload": str(about["payload"]), "task": str(about["task"]), **named}


def plain(trial: Trial, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trial as a row, with its config in one field."""
    return row(trial, dict(about)) | {"config": dict(sorted(trial.config.items()))}


def read_defaults(connection: Connection, abouts: Abouts, ids: Mapping[str, int]) -> dict[int, DefaultConfig]:
    """Return the default configs of sweeps with the times of their trials, which are nearly always the first."""
    wanted = {ids[name]: about["default"] for name, about in abouts.items() if "default" in about}
    first = totals.read_first(connection, list(wanted)) if wanted else {}
    defaults = {}
    for study, config in wanted.items():
        trial = first.get(study)
        if trial is None:
            defaults[study] = DefaultConfig(config, None)
        elif trial.config == config and not trial.twin:
            defaults[study] = DefaultConfig(config, trial.seconds if trial.outcome == "ok" else None)
        else:
            defaults[study] = read_default(connection, study, config)
    return defaults


def read_default(connection: Connection, study: int, config: Config) -> DefaultConfig:
    """Search the first trials of a sweep for its default config; follow a duplicate to the original for the time."""
    rows = totals.read_beginning(connection, study, FIRST)
    trial = next((each for each in in_turn(connection, rows) if each.config == config), None)
    if trial is not None and trial.twin:
        original = trial.twin
        trial = next((each for each in in_turn(connection, rows) if each.key == original), trial)
    return DefaultConfig(config, trial.seconds if trial is not None and trial.outcome == "ok" else None)


def in_turn(connection: Connection, rows: list[int]) -> Iterator[Trial]:
    """Yield the first trials of a sweep, read whole in batches of 1, 8, 64, ... rows."""
    start, size = 0, 1
    while start < len(rows):
        trials = read_trials(connection, rows[start : start + size])
        yield from (trials[row] for row in rows[start : start + size] if row in trials)
        start, size = start + size, 8 * size
