"""Searches with several trials under way: nothing runs twice, nothing is lost, and one slot asks as it always did."""

import random
from collections import Counter

import pytest
from listener_support import Recorder

from autotune.core.errors import MachineError
from autotune.core.evaluator import Evaluation, OneSlot
from autotune.core.host.machine import this_machine
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Knob, Space
from autotune.core.trial import Samples
from autotune.registry import load_payload
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.stages.opening import open_searches, setting_of
from autotune.tuning.stages.running import run_on_slots
from autotune.tuning.stages.task_search import SearchSetting, TaskSearch
from autotune.worker.loading.reading import partition

TRIALS = 18
SPECS = {"two tasks": "gpt,d_model=16,heads=2,d_ff=32,vocab=17,seq=5", "one": "matmul,m=64,n=64,k=64"}


class MadeUpSlots:
    """Gives every candidate the time that its script says, in any order; its machine may be gone after so many."""

    is_ordered = False

    def __init__(self, count, seed=0, lost_after=None):
        self.slots, self.random, self.lost_after = count, random.Random(seed), lost_after
        self.jobs, self.under_way, self.most = 0, {}, 0

    def count(self):
        return self.slots

    def submit(self, job):
        self.jobs += 1
        self.under_way[self.jobs] = job
        self.most = max(self.most, len(self.under_way))
        return self.jobs

    def wait(self):
        if self.lost_after is not None and self.jobs - len(self.under_way) >= self.lost_after:
            raise MachineError("gone")
        number = self.random.choice(list(self.under_way))
        return number, self.evaluate(self.under_way.pop(number))

    def evaluate(self, job):
        (candidate,) = job.candidates
        seconds = 1e-3 * (1 + random.Random(str(candidate.script)).random())
        return [Evaluation("ok", Samples((seconds,) * 3, (1e-4,) * 3), 1e-6, "", {"jit": 0.1, "measure": 0.2})]


def search(path, slots, trials=TRIALS, spec="two tasks", **options):
    """Run a sweep; the trials that were told of, in order."""
    payload, heard = load_payload(SPECS[spec]), Recorder()
    with Store.open(path) as store:
        chosen = TuneOptions(trials=trials, **options)
        searches = open_searches(partition(payload).tasks, setting_of(payload, this_machine(), store, chosen))
        ran = run_on_slots(searches, chosen, slots, heard)
    return heard.trials, ran.evaluated


def recorded(path):
    """Keys of what was run, once for each time."""
    with Store.open(path) as store:
        return [trial.key for sweep in store.sweeps() for trial in sweep.recorded if trial.outcome != "duplicate"]


@pytest.mark.parametrize("sampler", ["tpe", "model", "cmaes", "random", "grid"])
def test_every_slot_is_busy_and_no_config_is_run_twice(tmp_path, sampler):
    slots = MadeUpSlots(5)
    trials, evaluated = search(tmp_path / "s", slots, sampler=sampler, spec="one")
    assert slots.most == 5
    assert evaluated == slots.jobs == TRIALS
    assert Counter(trial.outcome for trial in trials)["ok"] == TRIALS
    assert len(set(recorded(tmp_path / "s"))) == len(recorded(tmp_path / "s")) == TRIALS


def test_one_slot_asks_the_same_whether_or_not_several_were_possible(tmp_path):
    one, _ = search(tmp_path / "one", OneSlot(MadeUpSlots(1)), trials=9)
    also_one, _ = search(tmp_path / "cluster", MadeUpSlots(1), trials=9)
    assert [(trial.task, trial.config) for trial in one] == [(trial.task, trial.config) for trial in also_one]


@pytest.mark.parametrize("lost_after", [0, 7])
def test_what_is_finished_is_kept_and_never_run_again_when_all_machines_are_lost(tmp_path, lost_after):
    first = MadeUpSlots(4, lost_after=lost_after)
    with pytest.raises(MachineError, match="gone"):
        search(tmp_path / "s", first)
    kept = recorded(tmp_path / "s")
    assert len(kept) == lost_after
    trials, evaluated = search(tmp_path / "s", MadeUpSlots(3, seed=1))
    assert evaluated == TRIALS - lost_after
    assert {trial.key for trial in trials} >= set(kept)
    assert len(set(recorded(tmp_path / "s"))) == len(recorded(tmp_path / "s")) == TRIALS


def test_a_finished_sweep_runs_nothing_when_it_is_run_again(tmp_path):
    search(tmp_path / "s", MadeUpSlots(4), trials=12)
    assert search(tmp_path / "s", MadeUpSlots(2), trials=12)[1] == 0
    assert search(tmp_path / "s", MadeUpSlots(2), trials=15)[1] == 3


def test_what_was_under_way_is_free_for_others_when_a_tuner_gives_up(tmp_path):
    with Store.open(tmp_path / "s") as mine, Store.open(tmp_path / "s") as other:
        payload = load_payload(SPECS["one"])
        options = TuneOptions(trials=9)
        searches = [
            open_searches(partition(payload).tasks, setting_of(payload, this_machine(), store, options))
            for store in (mine, other)
        ]
        with pytest.raises(MachineError):
            run_on_slots(searches[0], options, MadeUpSlots(4, lost_after=2))
        assert not searches[0][0].under_way
        assert run_on_slots(searches[1], options, MadeUpSlots(4)).evaluated == 7


class Comments(Family):
    """A family of which one knob is only a comment of the config, and nothing of the script."""

    name, fallback = "comments", False

    def covers(self, task):
        return True

    def space(self, task, machine):
        return Space((Knob("comment", tuple(range(6))), Knob("tile", (2, 3))))

    def default(self, task, machine):
        return {"comment": 0, "tile": 2}

    def build(self, task, config, machine):
        return f"// {config['tile']}"

    def rewrites(self, task, config):
        return Rewrites()


def test_configs_of_one_script_are_run_once_though_the_first_is_under_way(tmp_path):
    (task,) = partition(load_payload(SPECS["one"])).tasks
    slots, heard = MadeUpSlots(4), Recorder()
    with Store.open(tmp_path / "s") as store:
        mine = TaskSearch.open(task, Comments(), SearchSetting(this_machine(), store, "p", "grid", 0))
        run_on_slots([mine], TuneOptions(trials=12), slots, heard)
    assert slots.jobs == 2
    assert Counter(trial.outcome for trial in heard.trials) == {"ok": 2, "duplicate": 10}
    firsts = {trial.key: trial.config["tile"] for trial in heard.trials if trial.outcome == "ok"}
    assert all(firsts[t.twin] == t.config["tile"] for t in heard.trials if t.outcome == "duplicate")


def test_tasks_take_turns_for_their_first_trials_though_none_is_finished(tmp_path):
    slots = MadeUpSlots(50)
    trials, _ = search(tmp_path / "s", slots, trials=50)
    assert max(Counter(trial.task for trial in trials).values()) < 25
