"""Measuring, on a clock that only moves when a program runs."""

import pytest

from autotune.core.candidate import Candidate
from autotune.core.evaluator import Effort, Job
from autotune.core.host.machine import this_machine
from autotune.core.payload import Payload
from autotune.worker.bench import measure as module
from autotune.worker.bench.evaluate import time_alone
from autotune.worker.bench.measure import (
    LEAST_SAMPLES,
    RACE_SAMPLES,
    RunFromStart,
    calibrate,
    measure,
    measure_interleaved,
)


class Clock:
    """A clock in whole nanoseconds, and programs that move it."""

    def __init__(self):
        self.now = 0
        self.log = []

    def perf_counter_ns(self):
        return self.now

    def perf_counter(self):
        return self.now * 1e-9

    def program(self, name, seconds):
        """A program whose calls last so long each; of a list, each run takes the next."""
        each = iter(seconds) if isinstance(seconds, list) else None

        def run(calls):
            self.log.append((name, calls))
            self.now += round(1e9 * calls * (next(each) if each else seconds))

        return run


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.mark.parametrize("seconds", [2e-9, 3e-7, 1e-5, 9e-5, 4e-4, 1e-3, 0.3])
def test_calibration_reaches_the_wanted_length_of_a_sample(clock, seconds):
    batch = calibrate(clock.program("p", seconds), 1e-3)
    assert 1e-3 <= batch.calls * seconds < 1e-3 + 1.01 * seconds
    assert batch.warm_up == (seconds < 0.02)


def test_calibration_is_not_fooled_by_a_slow_first_call(clock):
    cold = [5e-4 if i == 0 else 1e-6 for i in range(100)]
    batch = calibrate(clock.program("p", cold), 1e-3)
    assert batch.calls * 1e-6 == pytest.approx(1e-3, rel=0.1)


def test_calibration_costs_about_one_sample(clock):
    calibrate(clock.program("p", 1e-6), 1e-3)
    assert clock.now < 3e6


def test_interleaved_programs_get_samples_of_equal_number_and_length(clock):
    runs = [clock.program("a", 1e-6), clock.program("b", 5e-5), clock.program("c", 2e-4)]
    found = measure_interleaved(runs, Effort(samples=6, seconds=10.0))
    assert [len(samples.seconds) for samples in found] == [6, 6, 6]
    for samples, each in zip(found, (1e-6, 5e-5, 2e-4), strict=True):
        assert samples.seconds == pytest.approx([each] * 6)
        assert samples.calls * each == pytest.approx(1e-3, rel=0.05)


def rounds(clock, seed):
    clock.log.clear()
    runs = [clock.program(name, 0.03) for name in "abcd"]  # long enough to need neither warming up nor repeating
    measure_interleaved(runs, Effort(samples=8, seconds=100.0), seed)
    names = [name for name, _ in clock.log[4:]]
    return [tuple(names[i : i + 4]) for i in range(0, len(names), 4)]


def test_every_round_runs_each_program_once_in_an_order_of_its_own(clock):
    order = rounds(clock, 0)
    assert len(order) == 8
    assert all(sorted(names) == list("abcd") for names in order)
    assert len(set(order)) > 3


def test_seed_fixes_the_order(clock):
    assert rounds(clock, 5) == rounds(clock, 5)
    assert rounds(clock, 5) != rounds(clock, 6)


def test_samples_of_one_round_belong_together_whatever_the_order(clock):
    slower = [0.03 * (1 + i) for i in range(9)]
    a, b = clock.program("a", list(slower)), clock.program("b", list(slower))
    first, second = measure_interleaved([a, b], Effort(samples=8, seconds=1000.0), 3)
    assert first.seconds == second.seconds == pytest.approx(slower[1:])


def test_nothing_to_measure_gives_nothing(clock):
    assert measure_interleaved([], Effort()) == []


def test_reference_runs_before_every_sample(clock):
    found = measure(clock.program("p", 0.03), clock.program("r", 0.03), Effort(samples=5, seconds=100.0))
    names = [name for name, _ in clock.log[2:]]
    assert names == ["r", "p"] * 5
    assert len(found.seconds) == len(found.reference_seconds) == 5
    assert found.quiet_reference == pytest.approx(0.03)


def test_short_program_is_warmed_up_outside_of_its_samples(clock):
    found = measure(clock.program("p", 1e-4), clock.program("r", 0.03), Effort(samples=3, seconds=100.0))
    mine = [calls for name, calls in clock.log if name == "p"][-6:]
    assert mine == [1, found.calls] * 3
    assert found.seconds == pytest.approx([1e-4] * 3)


def test_hopeless_candidate_stops_early(clock):
    effort = Effort(samples=15, seconds=100.0)
    slow = measure(clock.program("p", 0.04), clock.program("r", 0.03), effort, best_seconds=0.02)
    assert len(slow.seconds) == RACE_SAMPLES


@pytest.mark.parametrize("best", [None, 0.039, 0.034])
def test_candidate_with_a_chance_is_measured_in_full(clock, best):
    found = measure(clock.program("p", 0.04), clock.program("r", 0.03), Effort(15, 100.0), best_seconds=best)
    assert len(found.seconds) == 15


def test_one_slow_sample_does_not_make_a_candidate_hopeless(clock):
    times = [0.02, 0.9, *[0.02] * 20]
    found = measure(clock.program("p", times), clock.program("r", 0.03), Effort(10, 100.0), best_seconds=0.02)
    assert len(found.seconds) == 10


def test_time_bound_ends_measuring_but_not_before_the_least_number_of_samples(clock):
    effort = Effort(samples=50, seconds=0.5)
    (short,) = measure_interleaved([clock.program("p", 0.06)], effort)
    assert len(short.seconds) == 9
    (long,) = measure_interleaved([clock.program("p", 0.6)], effort)
    assert len(long.seconds) == LEAST_SAMPLES


def test_program_far_beyond_the_bound_is_sampled_once(clock):
    (samples,) = measure_interleaved([clock.program("p", 60.0)], Effort(samples=50, seconds=0.5))
    assert len(samples.seconds) == 1


def test_program_whose_first_call_was_long_is_not_called_to_find_out(clock):
    batch = calibrate(clock.program("p", 40.0), 1e-3, first_call=40.0)
    assert (batch.calls, batch.warm_up) == (1, 0)
    assert clock.now == 0


def test_long_first_call_of_a_quick_program_is_believed_only_where_a_sample_is_no_longer(clock):
    assert calibrate(clock.program("p", 1e-6), 1e-3, first_call=0.05).calls > 100
    assert calibrate(clock.program("p", 0.2), 1.0, first_call=0.2).calls == 5


def test_every_sample_of_a_program_with_states_begins_with_those_of_a_first_call(clock):
    program, calls, seen = clock.program("p", 1e-6), [0], []

    def run(count):
        program(count)
        calls[0] += count

    def restore():
        seen.append(calls[0])
        calls[0] = 0

    taken = measure(RunFromStart(run, restore), clock.program("reference", 1e-5), Effort(4, 1.0, 1e-3))
    assert len(taken.seconds) == 4
    assert len(set(seen[-3:])) == 1
    assert seen[-1] <= 2 * taken.calls


def slow_job(best_seconds):
    """A search's job, where the best so far takes so long."""
    return Job(Payload("p", "", "p", ()), (Candidate(None, ""),), this_machine(), best_seconds=best_seconds)


def test_hopeless_candidate_is_not_called_again(clock):
    times = time_alone(clock.program("slow", 40.0), 40.0, clock.program("reference", 1e-4), slow_job(1.0))
    assert times.seconds == (40.0,)
    assert len(times.reference_seconds) == 1
    assert "slow" not in {name for name, _ in clock.log}


@pytest.mark.parametrize(("first_call", "best"), [(2.0, 1.0), (0.05, 1e-3), (40.0, None)])
def test_candidate_that_may_be_good_is_measured(clock, first_call, best):
    time_alone(clock.program("mine", first_call), first_call, clock.program("reference", 1e-4), slow_job(best))
    assert "mine" in {name for name, _ in clock.log}
