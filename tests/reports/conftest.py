"""Comparisons without care in measuring, and with strange libraries."""

import sys

import pytest
from strange_support import Strange, StrangeVariants

from autotune.core.evaluator import Effort
from autotune.core.host.machine import Roofs
from autotune.registry import COMPARATORS, load_comparator, registered
from autotune.reports import compare
from autotune.worker.worker import Worker

QUICK = Effort(samples=6, seconds=0.05, sample_seconds=1e-4)


@pytest.fixture
def no_care(tmp_path, monkeypatch):
    """Run in an empty folder; no roofs, no noise, no compiler of torch, no care in measuring."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Worker, "roofs", lambda self, machine: Roofs(1e11, 1e10, 1e11))
    monkeypatch.setattr("payload.comparators.torch.COMPILERS", ())
    for module in [module for name, module in sys.modules.items() if name.startswith(("autotune.", "payload."))]:
        for name, value in list(vars(module).items()):
            if isinstance(value, Effort):
                monkeypatch.setattr(module, name, QUICK)
            if name == "measure_noise":
                monkeypatch.setattr(module, name, lambda machine, worker, pairs=1: 0.01)


@pytest.fixture
def strange(monkeypatch):
    """Make comparators of `strange_support` known by their names, besides the real ones."""

    def find(name):
        if name in registered(COMPARATORS):
            return load_comparator(name)
        return StrangeVariants(name) if "+" in name else Strange(name)

    monkeypatch.setattr(compare, "load_comparator", find)
