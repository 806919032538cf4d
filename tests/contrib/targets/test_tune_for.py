"""Search by models alone: predictions for another machine, never trials; what is chosen is written and said."""

import json

import pytest

from autotune.contrib.targets.target_file import shipped_targets
from autotune.contrib.targets.tune import ModelSearch, Prediction, is_predicted, tune_for
from autotune.core.space import Space
from autotune.core.trial import Trial
from autotune.registry import family_for, load_payload
from autotune.tuning.options import TuneOptions
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker

TARGETS = shipped_targets()


@pytest.fixture(scope="module")
def worker():
    with Worker() as worker:
        yield worker


def task_of(spec):
    (task,) = partition(load_payload(spec)).tasks
    return task, family_for(task)


@pytest.mark.parametrize("name", ["neoverse-n1", "a64fx", "x86-64-v3", "sandybridge"])
def test_search_finds_nothing_worse_than_the_default_and_repeats_itself(name, worker):
    task, family = task_of("matmul,m=64,n=96,k=128,constant_b=1")
    search = ModelSearch(task, family, TARGETS[name], worker)
    first = search.run(5, "tpe", 3)
    assert name != "neoverse-n1" or search.run(5, "tpe", 3) == first  # by one code whatever the machine is
    assert first.tried == 5
    assert first.best.cycles <= first.default.cycles
    assert first.default.config == family.default(task, TARGETS[name].machine)
    assert not isinstance(first.best, Trial)


def test_no_machine_computes_more_than_its_vectors_can(worker):
    task, family = task_of("matmul,m=64,n=96,k=128")
    for name, target in TARGETS.items():
        found = ModelSearch(task, family, target, worker).run(1, "tpe", 0)
        least = 64 * 96 * 128 / target.machine.lanes / 4  # no core has more than four pipes
        assert least < found.default.cycles < 100 * least, name


@pytest.mark.parametrize(
    ("spec", "known"),
    [("softmax,rows=8,cols=64", False), ("attention,heads=2,seq=32,d=16", True), ("matmul,m=8,n=8,k=8", True)],
)
def test_models_know_contractions_and_say_where_they_know_nothing(spec, known, worker):
    task, family = task_of(spec)
    assert is_predicted(task, family, TARGETS["neoverse-n1"].machine) is known
    found = ModelSearch(task, family, TARGETS["neoverse-n1"], worker).run(2, "tpe", 0)
    assert (found.best is not None) is known
    assert found.tried == (2 if known else 0)


def test_predictions_grow_with_slower_loops_smaller_caches_and_copies():
    task, family = task_of("matmul,m=1024,n=1024,k=1024")
    machine = TARGETS["neoverse-n1"].machine
    config = family.default(task, machine)
    usual = family.predicted_cycles(task, config, machine, 0.5)
    assert family.predicted_cycles(task, config, machine, 1.0) > usual
    space: Space = family.space(task, machine)
    tiled = next(c for c in space.configs() if c["pack_b"] == "panels" and c["register_m"] == 8 and c["tile_k"] == 256)
    plain = {**tiled, "pack_b": "none", "prefetch": False}
    assert family.predicted_cycles(task, tiled, machine, 0.5) > family.predicted_cycles(task, plain, machine, 0.5)


def test_whole_payload_is_chosen_for_and_says_that_nothing_was_measured(worker):
    payload = load_payload("gpt,d_model=16,heads=2,d_ff=32,vocab=17,seq=5,layers=2")
    found = tune_for(payload, TARGETS["x86-64-v3"], TuneOptions(trials=4), worker=worker)
    told = json.loads(json.dumps(found.to_json()))
    assert told["measured"] is False
    assert len(told["tasks"]) == len(partition(payload).tasks)
    assert not any("seconds" in key for task in told["tasks"] for key in task)


def test_command_writes_what_was_chosen_and_no_store(tmp_path, autotune, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, said = autotune(
        "tune", "matmul,m=16,n=32,k=24", "--for", "x86-64-v3", "--trials", "2", "--bundle", "there"
    )
    assert code == 0, said
    assert "nothing was measured" in " ".join(out.split())
    assert {path.name for path in (tmp_path / "there").iterdir()} == {
        "autotune_matmul.o",
        "autotune_matmul.h",
        "schedule.mlir",
        "machine.toml",
        "chosen.json",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert json.loads((tmp_path / "there" / "chosen.json").read_text())["measured"] is False
    assert autotune("replay", tmp_path / "there")[0] == 2


@pytest.mark.parametrize(
    "option", [["--threads", "2"], ["--jobs", "2"], ["--store", "x.journal"], ["--family", "matmul"]]
)
def test_options_of_searches_that_measure_are_refused(refused, option):
    words = "cores" if option[0] in ("--threads", "--jobs") else "--for MACHINE measures nothing"
    said = refused("tune", "matmul,m=8,n=8,k=8", "--for", "neoverse-n1", *option)
    assert words in said or "measures nothing" in said


def test_prediction_is_no_trial():
    assert not set(Prediction.__dataclass_fields__) & {"outcome", "seconds", "samples"}
