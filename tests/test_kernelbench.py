"""KernelBench in docs/results.md: the rule that shrinks a problem, what counts as right, and the table of records."""

import json
from pathlib import Path

import numpy as np
import pytest

from autotune.core.payload import Argument, Payload

ROOT = Path(__file__).resolve().parent.parent
PROBLEM = """
import torch

class Model(torch.nn.Module):
    def __init__(self, features, groups):
        super().__init__()
        assert features % groups == 0 and features >= 64
        self.features = features

    def forward(self, x):
        assert x.shape[1] == self.features
        return x @ x.mT

rows, features, groups = 2048 * 2, 4096, 64
factor = 3.0

def get_inputs():
    return [torch.rand(rows, features)]

def get_init_inputs():
    return [features, groups]
"""


@pytest.fixture
def kernelbench(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "results")
    import kernelbench

    return kernelbench


@pytest.fixture
def problem(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(ROOT / "results")
    import kernelbench_problem

    return kernelbench_problem


def test_a_problem_is_halved_until_it_is_small_and_still_runs(problem):
    code, facts = problem.shrink(PROBLEM)
    (_, rows), (_, features), (_, groups) = facts["sizes"]
    assert problem.build(code).inputs[0].shape == (rows, features)
    assert groups == 64
    assert 2 * rows * rows * features == facts["flops"] <= 1e9
    assert facts["flops"] > 1e9 / 16  # halving the largest is not overdone


def test_results_are_right_only_where_nan_and_infinities_are_where_they_belong(problem):
    payload = Payload("two", "", "two", (Argument("y", "output", (3,)),), 0.0)
    exact = np.array([1.0, np.nan, np.inf])

    def why(*values):
        return problem.differences(payload, [np.array(values, np.float32)], [exact], [exact.astype(np.float32)])

    assert not why(1.0, np.nan, np.inf)
    assert "y[1] is 0, should be nan" in why(1.0, 0.0, np.inf)
    assert "y[2] is -inf, should be inf" in why(1.0, np.nan, -np.inf)
    assert "y[0] is nan, should be 1" in why(np.nan, np.nan, np.inf)
    assert "y[0] is 1.5, should be 1" in why(1.5, np.nan, np.inf)


def test_records_become_a_table_of_means_and_a_list_of_what_is_not_right(kernelbench, tmp_path):
    right = {"level": 1, "kind": "pool", "outcome": "right", "error": 1e-7}
    found = {}
    for name, seconds in {"a": (1.0, 2.0, 4.0, 2.0), "b": (1.0, 2.0, 1.0, 2.0)}.items():
        times = {"seconds": dict(zip(("program", "called", "eager", "compiled"), seconds, strict=True))}
        found[name] = {"problem": name, **right, "times": times}
    refused = {"problem": "9_c", "level": 2, "outcome": "refused", "why": "torch-mlir cannot lower it"}
    path = tmp_path / "kernelbench.json"
    path.write_text(json.dumps({**found, "c": refused}))
    text = kernelbench.part(path)
    assert "| level 1: pool | 2 | 2 | 0 | 0 | 2.00 x | 1.00 x | 2.00 x | 1.00 x |" in text
    assert "| **all** | 3 | 2 | 0 | 1 | 2.00 x | 1.00 x | 2.00 x | 1.00 x |" in text
    assert "- level 2, 9_c: refused, torch-mlir cannot lower it" in text
