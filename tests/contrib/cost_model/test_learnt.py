"""What a cost model learnt, and how wrong it is: `explain --model`."""

from dataclasses import replace
from pathlib import Path

import pytest
from recording_support import made_up_recording
from sweep_support import SPACE, make_trial
from typer.testing import CliRunner

from autotune.cli.verbs import app
from autotune.contrib.cost_model.learnt import FEWEST, TaskTimes, learn_models, model_of
from autotune.core.errors import StoreError
from autotune.core.plugs.family import Family
from autotune.store.recording import write_recording
from autotune.tuning.samplers.search import Search

RESULTS = Path(__file__).parents[3] / "results"


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
