"""A sweep of two slots whose record is on a PostgreSQL server: each real, and nothing is run twice."""

import pytest
from cluster_support import only_slots
from listener_support import Recorder

from autotune.core.host.cores import physical_cores
from autotune.registry import load_payload
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.stages.opening import open_searches, setting_of
from autotune.tuning.stages.running import run_on_slots
from autotune.worker.loading.reading import partition

pytest.importorskip("distributed", reason="needs the extra cluster")

from autotune.contrib.cluster.cluster import Cluster
from autotune.contrib.cluster.kinds import open_team

PAYLOAD = load_payload("matmul,m=32,n=32,k=32")


def sweep(url, team, trials):
    """Search on a team; how many trials were run, and the keys of all that are recorded, oldest first."""
    options = TuneOptions(trials=trials)
    with Store.open(url) as store:
        searches = open_searches(partition(PAYLOAD).tasks, setting_of(PAYLOAD, team.machine, store, options))
        ran = run_on_slots(searches, options, team, Recorder())
    with Store.read(url) as store:
        return ran.evaluated, [trial.key for each in store.sweeps() for trial in each.recorded]


@pytest.mark.skipif(len(physical_cores()) < 2, reason="two slots need two cores, this process may use one")
def test_two_slots_share_a_record_on_a_server_and_resume_from_it(postgres_url):
    with only_slots(), Cluster.open("local:2") as cluster:
        team = open_team(cluster, "", 1, 60.0, [].append)
        assert team.count() == 2
        ran, first = sweep(postgres_url, team, 8)
        assert ran == 8
        assert len(set(first)) == len(first)
        again, both = sweep(postgres_url, team, 12)
    assert again == 4
    assert both[: len(first)] == first
    assert len(set(both)) == len(both)
