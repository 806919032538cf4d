"""Why a search went where it went, and what its model learnt: `inspect --why`, `explain --model`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from recording_support import made_up_recording
from sweep_support import SPACE, fill_store, make_trial
from typer.testing import CliRunner

from autotune.cli.verbs import app
from autotune.core.errors import StoreError
from autotune.core.plugs.family import Family
from autotune.core.trial import Reason, Trial
from autotune.reports.learnt import FEWEST, TaskTimes, learn_models, model_of
from autotune.reports.why import factor_of, rank_of, read_reasons
from autotune.store.recording import write_recording
from autotune.store.store import Store
from autotune.tuning.samplers.search import Search

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


def plain_measured(times):
    """Trials of a family without features."""

    class Plain(Family):
        name = "plain"

    recording = made_up_recording()
    return TaskTimes("mine", recording.task, Plain(), recording.machine, SPACE, times, [])


def test_model_finds_the_knob_that_decides_and_says_what_it_would_have_said():
    trials = [make_trial("first", number) for number in range(SPACE.size)]
    model = model_of(plain_measured([(trial.config, trial.seconds) for trial in trials]))
    assert next(iter(model.importance)) == "tile_m"
    assert model.rank > 0.7
    assert model.trials[0].seconds == min(trial.seconds for trial in trials if trial.seconds is not None)
    assert sum(model.importance.values()) == pytest.approx(1)


def test_neighbours_of_the_best_are_measured_or_expected():
    trials = [make_trial("first", number) for number in range(SPACE.size)][:24]
    known = {tuple(trial.config.items()) for trial in trials}
    model = model_of(plain_measured([(trial.config, trial.seconds) for trial in trials]))
    best = model.trials[0].config
    for each in model.alternatives:
        was_tried = tuple({**best, each.knob: each.value}.items()) in known
        assert (each.said != "expected") == was_tried
    assert {each.knob for each in model.alternatives} == {knob.name for knob in SPACE.knobs}


def test_a_recording_is_explained_and_too_few_trials_are_refused(tmp_path):
    (path, *_) = sorted(RESULTS.glob("*/spaces/softmax*.xz"))
    said = CliRunner().invoke(app, ["explain", str(path), "--model"])
    assert said.exit_code == 0, said.output
    assert "rank correlation 0.9" in said.output  # one knob is worth a factor of eight
    assert "math=libm" in said.output
    recording = made_up_recording()
    write_recording(tmp_path / "few.xz", replace(recording, trials=recording.trials[: FEWEST - 1]))
    with pytest.raises(StoreError, match=f"a model needs {FEWEST} timed trials"):
        learn_models(tmp_path / "few.xz")


def test_search_says_why_it_asked():
    search = Search(SPACE, next(SPACE.configs()), sampler="auto", seed=1)
    said = []
    for _ in range(8):
        config = search.ask()
        said.append(search.reason)
        search.tell(config, 1e-3 * (1 + int(config["tile_m"])))
    assert said[0].by == "the default config"
    assert said[1].by == "a random draw"
    assert said[-1].by == "the cost model"
    assert 0 < said[-1].low <= said[-1].expected <= said[-1].high
    assert said[-1].drafted > 0
