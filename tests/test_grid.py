"""The grid in docs/results.md: rules draw the same tasks from a seed, of every kind, and records become its tables."""

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def tasks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "results")
    import grid_tasks

    return grid_tasks


@pytest.fixture
def block(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "results")
    import grid

    return grid


def test_a_seed_gives_the_same_tasks_each_time_and_another_seed_others(tasks):
    first, again, other = ({task.name for task in tasks.grid(seed)} for seed in (0, 0, 1))
    assert first == again
    assert len(first) >= 200
    assert len(first & other) < len(first) / 20
    assert {name.split()[0] for name in first} == {name.split()[0] for name in other} == set(tasks.RULES)


def test_a_rule_that_draws_nothing_of_a_size_says_so(tasks):
    def tiny(_):
        return tasks.Drawn({"m": 1}, 1, 1)

    with pytest.raises(ValueError, match="tiny draws none"):
        tasks.draw(tasks.Random(0), tiny)


def test_pytorch_and_numpy_compute_the_same(tasks, monkeypatch):
    torch = pytest.importorskip("torch")
    import grid_models

    monkeypatch.setattr(tasks, "MOST_FLOPS", 2e6)
    compared = set()
    for task in tasks.grid(3):
        problem = grid_models.problem_of(task)
        if problem.numpy is not None and task.kind not in compared:
            compared.add(task.kind)
            with torch.no_grad():
                expected = problem.model(*problem.inputs).numpy()
            np.testing.assert_allclose(problem.numpy(), expected, rtol=1e-3, atol=1e-4, err_msg=task.name)
    assert len(compared) >= 12


def found(**times):
    return {"outcome": "right", "error": 1e-7, "times": times}


def test_records_become_tables_by_kind_with_the_fastest_of_the_others(block, tasks, tmp_path):
    names = [task.name for task in tasks.grid(0)][:2] + [task.name for task in tasks.grid(0) if task.kind == "pool"][:1]
    records = {
        names[0]: found(program=1.0, called=2.0, onnxruntime=4.0, eager=2.0, tuned20=1.0),
        names[1]: found(program=1.0, called=2.0, onnxruntime=1.0, eager=2.0),
        names[2]: {"outcome": "refused", "why": "torch-mlir cannot lower it"},
    }
    block.write(tmp_path / "seed0.json", 0, records)
    assert json.loads((tmp_path / "seed0.json").read_text())["tasks"] == records
    text = block.part(tmp_path)
    assert f"| matmul | 2 | 2 | 100% | 1.41 x | 50% | 0.71 x | 1.00 x | 0.50 x: `{names[1]}` |" in text
    assert "| pool | 1 | 0 | - |" in text
    assert "ONNX Runtime 1 of 2, PyTorch 1 of 2" in text
    assert "After 20 trials, 1 of the tasks run at 2.000 x the speed of the default" in text
    assert f"- {names[2]}: refused, torch-mlir cannot lower it" in text


def test_what_is_recorded_is_not_run_again_unless_a_way_is_missing(block):
    assert block.lacks(None, set())
    assert not block.lacks(found(program=1.0), {"program"})
    assert block.lacks(found(program=1.0), {"program", "tuned20"})
    assert not block.lacks({"outcome": "refused", "why": ""}, {"program"})


def test_kinds_take_turns(block):
    assert block.mixed(["a 1", "a 2", "a 3", "b 1", "b 2"]) == ["a 1", "b 1", "a 2", "b 2", "a 3"]
    assert block.mixed(["a 1", "a 2", "a 3", "b 1", "b 2"], 2) == ["a 1", "b 1", "a 3"]
