"""Why a search went where it went: `inspect --why`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_support import SPACE, fill_store, make_trial
from typer.testing import CliRunner

from autotune.cli.verbs import app
from autotune.core.errors import StoreError
from autotune.core.trial import Reason, Trial
from autotune.reports.why import factor_of, rank_of, read_reasons
from autotune.store.store import Store

RESULTS = Path(__file__).parents[2] / "results"


def test_trials_keep_their_reason_and_those_without_are_as_they_were():
    plain = make_trial("first", 0)
    assert "reason" not in plain.to_json()
    assert Trial.from_json(plain.to_json()) == plain
    why = replace(plain, reason=Reason("the cost model", 1e-3, 0.9e-3, 1.1e-3, 40, {"constraint": 2}))
    assert Trial.from_json(json.loads(json.dumps(why.to_json()))) == why


@pytest.fixture
def store(tmp_path):
    """Trials of a search, each with what asked for it, and the time that it expected: a tenth too much."""
    path = tmp_path / "store.journal"
    with Store.open(path) as opened:
        sweep = opened.sweep("mine", "first", {"machine": "m"}, flops=1.0, size=1.0, default=next(SPACE.configs()))
        for number in range(9):
            trial = make_trial("first", number)
            reason = Reason("the default config", refused={"constraint": 3})
            if number and trial.seconds is not None:
                reason = Reason("the cost model", 1.1 * trial.seconds, trial.seconds, 1.2 * trial.seconds, 30)
            sweep.add(replace(trial, reason=reason), SPACE)
    return path


def test_reasons_say_who_asked_what_was_expected_and_what_was_refused(store):
    (found,) = read_reasons(store)
    assert [row.by for row in found.trials[:2]] == ["the default config", "the cost model"]
    assert found.refused == {"constraint": 6}  # the default's, and that of a trial that failed
    assert found.rank == pytest.approx(1)
    assert found.off == pytest.approx(1.1)
    assert found.trials[0].changed == {}


def test_inspect_why_prints_expected_beside_measured(store):
    said = CliRunner().invoke(app, ["inspect", str(store), "--why"])
    assert said.exit_code == 0, said.output
    assert "the cost model" in said.output
    assert "proposals that were skipped: 6 violated a constraint" in said.output
    assert "rank correlation 1.00" in said.output
    plain = CliRunner().invoke(app, ["inspect", str(store), "--why", "--json"])
    assert json.loads(plain.output)[0]["trials"][1]["drafted"] == 30


def test_why_is_said_alone(store):
    said = CliRunner().invoke(app, ["inspect", str(store), "--why", "--csv", "a.csv"])
    assert said.exit_code == 2


def test_stores_of_older_releases_have_no_reasons(tmp_path):
    (found,) = read_reasons(fill_store(tmp_path / "store.journal"))
    assert {row.by for row in found.trials} == {""}
    assert found.rank is None
    with pytest.raises(StoreError, match="must hold trials of 'yours'"):
        read_reasons(tmp_path / "store.journal", "yours")


def test_ranks_of_equal_numbers_are_shared_and_too_few_have_none():
    assert rank_of([(1, 1), (2, 2), (2, 3), (4, 4)]) == pytest.approx(0.9487, abs=1e-4)  # scipy.stats.spearmanr
    assert rank_of([(1, 2), (2, 2), (3, 2)]) is None
    assert rank_of([(1, 2), (2, 3)]) is None
    assert factor_of([]) is None
