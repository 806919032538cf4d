"""Clusters of real processes: who measures, who is refused, and what becomes of a sweep when processes are killed."""

import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from bundle_support import no_care
from cluster_support import children_of, kill, measuring_process, only_slots, processes, wait_until
from listener_support import Recorder

from autotune.cli.interrupt import ENDS
from autotune.core.errors import MachineError, OptionError
from autotune.core.host.machine import this_machine
from autotune.core.options import check_seed
from autotune.registry import load_payload
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.stages.opening import open_searches, setting_of
from autotune.tuning.stages.running import run_on_slots
from autotune.worker.loading.reading import partition

pytest.importorskip("distributed", reason="needs the extra cluster")

from autotune.contrib.cluster.bench import RemoteBench
from autotune.contrib.cluster.cluster import CONNECT_SECONDS, Cluster
from autotune.contrib.cluster.doctor import examine_cluster
from autotune.contrib.cluster.kinds import open_team
from autotune.worker.worker import Worker

PAYLOAD = load_payload("matmul,m=32,n=32,k=32")
TRIALS = 8


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A scheduler, one machine that measures, with little care, and a Dask worker that knows nothing of us."""
    with no_care(), only_slots(), processes(tmp_path_factory.mktemp("cluster")) as found:
        found.machine = found.join()
        found.stranger = found.join_without_slot()
        yield found


@contextmanager
def team_of(running, notes=None):
    with Cluster.open(str(running.file)) as cluster:
        yield open_team(cluster, "", 1, 60.0, [].append if notes is None else notes.append)


def sweep(path, team, trials=TRIALS, heard=None, at_trial=None):
    """Search the payload on a team; the trials of the store."""
    heard = heard or Recorder()
    if at_trial is not None:
        tell = heard.trial

        def trial(*told):
            tell(*told)
            at_trial(len(heard.trials))

        heard.trial = trial
    with Store.open(path) as store:
        options = TuneOptions(trials=trials)
        searches = open_searches(partition(PAYLOAD).tasks, setting_of(PAYLOAD, team.machine, store, options))
        run_on_slots(searches, options, team, heard)
    return recorded(path)


def recorded(path):
    with Store.open(path) as store:
        return [trial for each in store.sweeps() for trial in each.recorded]


def test_a_machine_that_joined_measures_and_one_sweep_is_for_its_kind(running, tmp_path):
    notes = []
    with team_of(running, notes) as team:
        assert team.machine.fingerprint == this_machine().fingerprint
        assert team.count() == 1
        trials = sweep(tmp_path / "s", team)
    assert len({trial.key for trial in trials}) == len(trials) >= TRIALS
    assert any(trial.outcome == "ok" and trial.samples.quiet_reference > 0 for trial in trials)
    (refused,) = [note for note in notes if "not used" in note]
    assert "announces no slot" in refused


def test_a_bench_on_another_machine_answers_like_a_worker(running):
    with team_of(running) as team, Worker() as worker:
        bench = RemoteBench(team, team.members[0].address)
        assert bench.call(abs, -3) == worker.call(abs, -3) == 3
        with pytest.raises(OptionError, match="seed must be"):
            bench.call(check_seed, -1)
        crashed = bench.call(signal.raise_signal, signal.SIGSEGV)
        assert crashed.outcome == "crashed"
        with bench.another(30.0) as other:
            assert other.call(abs, -4) == 4


def test_doctor_lists_machines_and_says_what_is_wrong(running):
    with team_of(running) as team:
        found = examine_cluster(team.cluster)
    good, bad = sorted(found, key=lambda each: len(each.wrong))
    assert good.machine == team.machine
    assert good.roofs.flops > 0
    assert good.slot.noise_floor > 0
    assert not good.wrong
    assert bad.slot is None
    assert "--preload autotune.contrib.cluster.preload" in bad.wrong[0]


def test_kind_that_is_not_there_is_refused_with_those_that_are(running):
    with Cluster.open(str(running.file)) as cluster, pytest.raises(OptionError, match=this_machine().fingerprint):
        open_team(cluster, "0000", 1, 60.0, [].append)


def test_worker_that_is_killed_costs_what_was_under_way(running, tmp_path):
    def end(number):
        if number == 3:
            wait_until(lambda: measuring_process(running.machine)).kill()

    with team_of(running) as team:
        trials = sweep(tmp_path / "s", team, at_trial=end)
    assert len({trial.key for trial in trials}) == len(trials) >= TRIALS
    assert not [trial for trial in trials if trial.outcome == "crashed"]


TUNER = """
import sys
sys.path[:0] = sys.argv[3:]
from types import SimpleNamespace
from pathlib import Path
import test_cluster
with test_cluster.team_of(SimpleNamespace(file=sys.argv[1])) as team:
    test_cluster.sweep(Path(sys.argv[2]), team, trials=1000)
"""


def test_tuner_that_is_killed_is_resumed_without_running_anything_again(running, tmp_path):
    path = tmp_path / "s"
    tuner = subprocess.Popen([sys.executable, "-c", TUNER, str(running.file), str(path), *sys.path])
    try:
        wait_until(lambda: path.exists() and len(recorded(path)) >= 4, "four trials")
    finally:
        kill(tuner)
    before = recorded(path)
    with team_of(running) as team:
        trials = sweep(path, team, trials=len(before) + 2)
    assert [trial.key for trial in trials[: len(before)]] == [trial.key for trial in before]
    assert len({trial.key for trial in trials}) == len(trials)


def test_scheduler_that_is_killed_ends_the_sweep_with_one_line_and_all_that_was_finished(running, tmp_path):
    def end(number):
        if number == 3:
            running.scheduler.kill()

    with team_of(running) as team, pytest.raises(MachineError, match="run the same command"):
        sweep(tmp_path / "s", team, trials=1000, at_trial=end)
    assert 3 <= len(recorded(tmp_path / "s")) <= 5  # each of two workers may have ended one more meanwhile


def test_scheduler_that_does_not_answer_is_refused(tmp_path, monkeypatch):
    connect, limits = pytest.importorskip("distributed").Client, []

    def connected(*, timeout, **given):
        limits.append(timeout)
        return connect(timeout=0.5, **given)

    monkeypatch.setattr("distributed.Client", connected)
    with pytest.raises(MachineError, match="start one: dask scheduler"):
        Cluster.open("tcp://127.0.0.1:1")
    assert limits == [CONNECT_SECONDS]


@pytest.mark.parametrize(
    "where",
    [
        "xyz://host:1",
        "tcp://:8786",
        "tcp://[::1]",
        "tcp://a@b:1",
        "localhost",
        "local:0",
        "local:",
        "local:x",
        "missing.json",
        "",
    ],
)
def test_what_is_no_address_is_refused(where):
    with pytest.raises(OptionError, match="--cluster must be tcp://"):
        Cluster.open(where)


def test_more_slots_than_cores_are_refused():
    with pytest.raises(OptionError, match="try local:"):
        Cluster.open("local:4000")


def test_semaphores_of_a_tuner_that_is_killed_go_without_a_word():
    program = """
import multiprocessing, os, signal
from autotune.contrib.cluster.cluster import start_resource_tracker
start_resource_tracker()
held = multiprocessing.get_context("spawn").Semaphore()
os.kill(os.getpid(), signal.SIGKILL)
"""
    # stderr ends once the tracker has ended, too
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")


def test_what_dask_logs_about_a_scheduler_that_is_gone_is_not_printed():
    program = """
import logging
from autotune.core.errors import MachineError
from autotune.contrib.cluster import cluster
cluster.CONNECT_SECONDS = 0.2
try:
    cluster.Cluster.open("tcp://127.0.0.1:1")
except MachineError:
    for name in ("distributed.client", "distributed.core", "distributed.scheduler", "asyncio", "tornado.application"):
        logging.getLogger(name).error("lines and lines")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_machine_that_is_told_to_leave_says_no_more_and_leaves_nothing_behind(tmp_path, sent, code):
    with processes(tmp_path) as found:
        leaving = found.join("--slots", "1")
        log = tmp_path / "log1"
        nanny = wait_until(lambda: "Start Nanny" in log.read_text() and children_of(leaving.pid), "a nanny")
        leaving.send_signal(sent)
        assert leaving.wait(30) == code
        told = [line for line in log.read_text().splitlines() if " - distributed." not in line]
        assert told == [f"autotune: {ENDS[sent]}"]
        wait_until(lambda: not any(child.is_running() for child in nanny), "the end of its processes")


def test_a_scheduler_that_does_not_answer_is_one_line(refused, monkeypatch, tmp_path):
    monkeypatch.setattr("autotune.contrib.cluster.cluster.CONNECT_SECONDS", 0.5)
    refused("lab", "join", "tcp://127.0.0.1:9", words="a scheduler must answer at tcp://127.0.0.1:9, none does")
    stale = tmp_path / "scheduler.json"
    stale.write_text('{"type": "Scheduler", "address": "tcp://127.0.0.1:9", "workers": {}}')
    refused("lab", "join", stale, words="scheduler.json, none does")
    for text in ("nothing", "{}", '{"address": 8786}', "[" * 100_000):
        stale.write_text(text)
        refused("lab", "join", stale, words="scheduler.json must hold an address, got ''")
