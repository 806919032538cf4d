"""Who searches on this machine: the one worker, as ever, or a pool on cores that nobody else holds."""

import os
import subprocess
import sys

import psutil
import pytest
from bundle_support import no_care
from cluster_support import children_of, wait_until
from listener_support import Recorder

from autotune.core.evaluator import OneSlot
from autotune.core.host.cores import physical_cores
from autotune.registry import load_payload
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.stages.workplace import open_workplace
from autotune.tuning.tune import tune
from autotune.worker.bench import claims
from autotune.worker.pool import WorkerPool

TWO = physical_cores()[-2:]
needs_two = pytest.mark.skipif(len(TWO) < 2, reason="needs two cores")
HOLD = (
    "import sys\nfrom autotune.worker.bench.claims import CoreClaim\nCoreClaim(1)\nprint(flush=True)\nsys.stdin.read()"
)


@pytest.fixture(autouse=True)
def cores_of_no_other(monkeypatch, tmp_path):
    """A folder of locks that no real tuner uses."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(claims.tempfile, "tempdir", None)
    monkeypatch.setattr(claims, "_locked", {})
    monkeypatch.setattr(claims, "_claims", 0)


def test_one_job_is_the_worker_itself():
    with open_workplace(1, 20.0) as place, place.searchers() as slots:
        assert isinstance(slots, OneSlot)
        assert [slots._evaluator] == list(place.benches())
        assert (slots.count(), slots.is_ordered, len(claims._locked)) == (1, True, 1)


@needs_two
def test_several_jobs_are_a_pool_on_cores_of_their_own_that_measures_where_the_worker_does():
    with open_workplace(1, 20.0, jobs=2) as place, place.searchers() as slots:
        assert isinstance(slots, WorkerPool)
        assert set(slots.core.cores) == set(claims._locked) == set(TWO)
        assert place.benches()[0]._settings.cores == (slots.core.core,)
    assert not claims._locked


@needs_two
def test_cores_that_another_tuner_holds_are_left_to_it_with_a_note(monkeypatch):
    monkeypatch.setattr(claims, "physical_cores", lambda: TWO)
    other = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    other.stdout.readline()
    with open_workplace(1, 20.0, jobs=2) as place, place.searchers() as slots:
        assert slots.count() == 1
        assert place.notes == ("other tuners hold cores of this machine: 1 of 2 jobs are worked on",)
    other.communicate()


@needs_two
def test_a_payload_is_tuned_by_several_jobs_and_the_bundle_says_so(tmp_path):
    heard = Recorder()
    with no_care(), Store.open(tmp_path / "s") as store:
        payload, options = load_payload("matmul,m=9,n=16,k=8"), TuneOptions(trials=8, jobs=2)
        result = tune(payload, store, tmp_path / "bundle", options, heard)
    assert result.evaluated == 8
    assert len({trial.key for trial in heard.trials}) == len(heard.trials)
    assert '"--jobs",' in (tmp_path / "bundle" / "manifest.json").read_text()


@needs_two
def test_a_tuner_of_several_jobs_that_is_killed_leaves_no_process_and_repeats_nothing(tmp_path):
    path, payload = tmp_path / "s", "matmul,m=9,n=16,k=8"
    command = ("tune", payload, "--jobs", "2", "--cold", "--trials", "1000", "--store", str(path))
    quickly = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    tuner = subprocess.Popen(
        [sys.executable, "-c", "from autotune.cli import main; main()", *command],
        cwd=tmp_path,
        env=quickly,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: path.exists() and len(recorded(path)) >= 6, "six trials")
        started = children_of(tuner.pid)
    finally:
        tuner.kill()
        tuner.wait()
    assert len(started) >= 2
    wait_until(lambda: not any(is_alive(child) for child in started), "the end of what it started")
    before = recorded(path)
    with no_care(), Store.open(path) as store:
        options = TuneOptions(trials=len(run_of(before)) + 4, jobs=2)
        tune(load_payload(payload), store, tmp_path / "bundle", options)
    after = recorded(path)
    assert [trial.key for trial in after[: len(before)]] == [trial.key for trial in before]
    assert len({trial.key for trial in after}) == len(after)
    assert len(run_of(after)) == len(run_of(before)) + 4


def run_of(trials):
    """Those that were run: a duplicate is known to write what another one does."""
    return [trial for trial in trials if trial.outcome != "duplicate"]


def recorded(path):
    """Finished trials of a store, in order."""
    with Store.open(path) as store:
        return [trial for each in store.sweeps() for trial in each.recorded]


def is_alive(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
