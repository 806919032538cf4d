"""Which task gets the next trial: laws for any results, and the whole of a GPT-2 replayed from recorded curves.

The curves are of searches with a made-up time for every config (`tests/curves/record.py`): no clock is read here.
"""

import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from listener_support import Recorder

from autotune.compiler.tasks.partition import partition
from autotune.core.evaluator import Evaluation, OneSlot
from autotune.core.host.machine import this_machine
from autotune.core.trial import Samples
from autotune.registry import load_payload
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.samplers.scheduler import Scheduler
from autotune.tuning.stages.opening import open_searches, setting_of
from autotune.tuning.stages.running import run_on_slots, turns_of

CURVES = json.loads((Path(__file__).parents[1] / "curves" / "gpt2.json").read_text())


@dataclass(frozen=True)
class Results:
    """What the trials of one task give, in the order of its own search."""

    seconds: tuple[float | None, ...]
    count: int = 1
    roof: float = 0.0
    cost: float = 0.1


def run(tasks, budget, seed=0, until=None):
    """Spend a budget as `autotune.tuning.stages.running.run_on_slots` does; the tasks that got the trials, in order."""
    scheduler = Scheduler([task.count for task in tasks], seed)
    done = Counter()
    given = []
    while len(given) < budget and not (until and until(scheduler)):
        place = scheduler.choose()
        if place is None:
            break
        task = tasks[place]
        if done[place] == len(task.seconds):
            scheduler.close(place)
            continue
        seconds = task.seconds[done[place]]
        scheduler.learn(place, seconds, roof=task.roof if seconds else 0.0, cost=task.cost)
        done[place] += 1
        given.append(place)
    return given


seconds = st.floats(1e-9, 10, allow_nan=False)
tasks = st.builds(
    Results,
    st.lists(st.none() | seconds, min_size=1, max_size=20).map(tuple),
    st.integers(1, 100),
    st.just(0.0) | seconds,
    st.floats(0, 60),
)
models = st.lists(tasks, min_size=1, max_size=6)
few = settings(max_examples=40)


@few
@given(models, st.integers(0, 150), st.integers(0, 9))
def test_budget_is_spent_exactly_unless_every_task_is_exhausted(model, budget, seed):
    everything = sum(len(task.seconds) for task in model)
    assert len(run(model, budget, seed)) == min(budget, everything)


@few
@given(models, st.integers(0, 150), st.integers(0, 9))
def test_every_task_gets_its_default_first_and_in_order(model, budget, seed):
    assert run(model, budget, seed)[: len(model)] == list(range(len(model)))[:budget]


@few
@given(models, st.integers(0, 60), st.integers(0, 60), st.integers(0, 9))
def test_a_longer_run_makes_the_choices_of_a_shorter_one_first(model, short, more, seed):
    assert run(model, short + more, seed)[:short] == run(model, short, seed)


@few
@given(models, st.integers(0, 9))
def test_exhausted_tasks_get_no_trial_and_the_others_all(model, seed):
    assert Counter(run(model, 1000, seed)) == {place: len(task.seconds) for place, task in enumerate(model)}


@few
@given(tasks, st.integers(0, 9))
def test_a_single_task_gets_every_trial(task, seed):
    assert run([task], 1000, seed) == [0] * len(task.seconds)


@few
@given(models)
def test_no_open_task_starves(model):
    patient = [Results((1e-6,) * 300), *(Results(task.seconds * 300, 10**6, task.roof) for task in model)]
    assert run(patient, 300).count(0) >= 2


def after(*results, seed=0):
    """The scheduler that has heard these results of each task."""
    scheduler = Scheduler([task.count for task in results], seed)
    for place, task in enumerate(results):
        for value in task.seconds:
            scheduler.learn(place, value, roof=task.roof, cost=task.cost)
    return scheduler


def test_task_that_takes_more_of_the_whole_promises_more():
    scheduler = after(Results((1e-3,), count=12), Results((1e-3,), count=1), Results((5e-3,), count=12))
    assert scheduler.acquisition(2) > scheduler.acquisition(0) > scheduler.acquisition(1)


def test_task_that_still_gets_faster_promises_more_than_one_that_does_not():
    falling = tuple(4e-3 - 0.2e-3 * i for i in range(16))
    scheduler = after(Results(falling), Results((falling[-1],) * 16))
    assert scheduler.acquisition(0) > scheduler.acquisition(1)


def test_task_far_from_its_roof_promises_more_than_one_near_it():
    scheduler = after(Results((1e-3,) * 9, roof=0.4e-3), Results((1e-3,) * 9, roof=0.95e-3))
    assert scheduler.acquisition(0) > scheduler.acquisition(1)


def test_task_that_seems_faster_than_its_roof_still_promises_something():
    assert after(Results((1e-3,) * 9, roof=2e-3)).acquisition(0) > 0


def test_promise_fades_with_trials_that_bring_nothing():
    promises = [after(Results((1e-3,) * trials)).acquisition(0) for trials in range(1, 30)]
    assert promises == sorted(promises, reverse=True)


def test_of_equal_tasks_the_one_whose_trials_cost_less_comes_first():
    scheduler = after(Results((1e-3,) * 5, cost=4.0), Results((1e-3,) * 5, cost=1.0))
    assert scheduler.acquisition(1) == pytest.approx(2 * scheduler.acquisition(0))


def test_task_of_which_nothing_works_counts_as_the_heaviest():
    scheduler = after(Results((None,) * 3), Results((2e-3,) * 3, count=10), Results((1e-3,) * 3))
    assert scheduler.acquisition(0) > scheduler.acquisition(1) > scheduler.acquisition(2)


def replayed(task):
    """A recorded task as results: what improved it, and slower times between."""
    improved = dict(task["improved"])
    slow = task["improved"][0][1]
    times = tuple(improved.get(i, slow) for i in range(task["trials"]))
    return Results(times, task["count"], task["roof"], cost=0.2 + 10 * min(times))


def trials_until(model, share, choose):
    """Trials before the whole takes no more than the best of all recorded trials, divided by `share`."""
    goal = sum(task.count * min(task.seconds) for task in model) / share
    return len(choose(model, lambda scheduler: sum(r.count * r.best for r in scheduler.records) <= goal))


def scheduled(model, until):
    return run(model, 10**6, until=until)


def in_turn(model, until):
    """Round robin over the tasks that have trials left."""
    scheduler = Scheduler([task.count for task in model])
    given = []
    for turn in range(max(len(task.seconds) for task in model)):
        for place, task in enumerate(model):
            if turn < len(task.seconds) and not until(scheduler):
                scheduler.learn(place, task.seconds[turn])
                given.append(place)
    return given


def test_whole_model_is_near_its_best_after_half_the_trials_of_round_robin():
    recorded = [[replayed(task) for task in model] for model in CURVES]
    ours, theirs = ([trials_until(model, 0.95, way) for model in recorded] for way in (scheduled, in_turn))
    assert all(mine < other for mine, other in zip(ours, theirs, strict=True))
    assert fmean(ours) <= 0.6 * fmean(theirs)
    assert max(ours) <= 0.2 * sum(len(task.seconds) for task in recorded[0])


class MadeUpWorker:
    """Gives times and costs from a seed, not from a machine."""

    def __init__(self, seed):
        self.random, self.jobs = random.Random(seed), 0

    def evaluate(self, job):
        self.jobs += 1
        median, cost = self.random.lognormvariate(-9, 1), self.random.uniform(0.1, 0.7)
        return [Evaluation("ok", Samples((median,), (1e-3,), 1, 0.9e-3), 1e-6, "", {"jit": cost / 3, "measure": cost})]


def search_model(path, budget, worker):
    """Search a small GPT; the trials in order."""
    payload = load_payload("gpt,d_model=16,heads=2,d_ff=32,vocab=17,seq=5")
    heard = Recorder()
    with Store.open(path) as store:
        options = TuneOptions(trials=budget)
        searches = open_searches(partition(payload).tasks, setting_of(payload, this_machine(), store, options))
        run_on_slots(searches, options, OneSlot(worker), heard)
    return len(searches), heard.trials


def test_model_resumes_with_the_same_tasks_in_the_same_order_and_runs_nothing_twice(tmp_path):
    path = tmp_path / "store.journal"
    tasks, before = search_model(path, 16, MadeUpWorker(1))
    assert [trial.number for trial in before[:tasks]] == [0] * tasks
    assert len({trial.task for trial in before[:tasks]}) == tasks
    worker = MadeUpWorker(2)
    _, after = search_model(path, 22, worker)
    assert after[: len(before)] == before
    assert worker.jobs == 6


def test_first_trials_are_given_by_turns():
    scheduler = Scheduler([1] * 5, turns=(0, 1, 2, 0, 1))
    given = []
    for _ in range(5):
        place = scheduler.choose()
        scheduler.learn(place, 1.0, cost=0.1)
        given.append(place)
    assert given == [0, 3, 1, 4, 2]


def test_every_task_has_its_first_families_first():
    searches = [SimpleNamespace(task=SimpleNamespace(tag=tag)) for tag in ("a", "a", "b", "a", "b", "c")]
    assert turns_of(searches) == [0, 1, 0, 2, 1, 0]
