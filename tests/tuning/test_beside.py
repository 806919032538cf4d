"""Families beside the one that is always tried: they compete task by task, and the bundle says what was asked for."""

import pytest
from bundle_support import no_care

import autotune as at
from autotune.core.errors import ScheduleError
from autotune.store.store import Store

SPEC = "matmul,m=16,n=32,k=24"


def tuned(folder, **options):
    with no_care():
        return at.tune(SPEC, store=folder / "store.journal", bundle=folder / "bundle", cold=True, **options)


def test_each_family_has_a_search_of_its_own_and_one_named_twice_has_one(tmp_path):
    found = tuned(tmp_path, trials=4, beside=["vectorize", "vectorize", "matmul"])
    with Store.open(tmp_path / "store.journal") as store:
        sweeps = list(store.sweeps())
    assert sorted({trial.family for s in sweeps for trial in s.records.values()}) == ["matmul", "vectorize"]
    assert len(sweeps) == 2
    assert "--beside vectorize" in " ".join(at.Bundle.read(found.bundle).manifest.command)


def test_one_that_covers_nothing_is_refused(tmp_path):
    with pytest.raises(ScheduleError, match=r"--beside must cover a task of .*; 'sliding_window' covers none"):
        tuned(tmp_path, trials=1, beside=["sliding_window"])


def test_one_that_is_not_installed_is_refused(tmp_path):
    with pytest.raises(ScheduleError, match=r"schedule must be one of .*; got 'nosuch'"):
        tuned(tmp_path, trials=1, beside=["nosuch"])
