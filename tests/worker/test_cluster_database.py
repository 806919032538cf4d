"""A sweep of two slots whose record is on a PostgreSQL server: each real, and nothing is run twice."""

import json
import os
import subprocess
import sys

import pytest

from autotune.core.cores import physical_cores
from autotune.store.store import Store

pytest.importorskip("distributed", reason="needs the extra cluster")

PAYLOAD = "matmul,m=32,n=32,k=32"


def tune(folder, url, trials):
    """Run the command; gives what it prints as JSON."""
    options = ["--cluster", "local:2", "--store", url, "--bundle", "bundle", "--cold", "--json", "--trials", trials]
    done = subprocess.run(
        [sys.executable, "-c", "from autotune.cli import main; main()", "tune", PAYLOAD, *map(str, options)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout), done.stderr


def recorded(url):
    """Keys of all trials, in the order they were recorded, and how many of them were compiled and run."""
    with Store.open(url, create=False, exclusive=False) as store:
        trials = [trial for sweep in store.sweeps() for trial in sweep.recorded]
    return [trial.key for trial in trials], sum(trial.outcome != "duplicate" for trial in trials)


@pytest.mark.skipif(len(physical_cores()) < 2, reason="two slots need two cores, this process may use one")
def test_two_slots_share_a_record_on_a_server_and_resume_from_it(tmp_path, postgres, postgres_url):
    found, said = tune(tmp_path, postgres_url, 6)
    assert "2 slot(s) of kind" in said
    assert postgres.password not in said
    first, ran = recorded(postgres_url)
    assert len(set(first)) == len(first)
    assert found["evaluated"] == ran == 6
    again, _ = tune(tmp_path, postgres_url, 10)
    both, ran = recorded(postgres_url)
    assert both[: len(first)] == first
    assert len(set(both)) == len(both)
    assert (again["evaluated"], ran) == (4, 10)
