"""When a candidate is given up by its first samples, replayed on the samples of recorded spaces: no clock is read."""

import random
from pathlib import Path

import pytest

from autotune.core.stats import quiet_time
from autotune.store.recording import read_recording
from autotune.tuning.stages.task_search import SEARCH_EFFORT
from autotune.worker.bench.measure import is_hopeless

SPACES = sorted((Path(__file__).parents[2] / "results").glob("*/spaces/*.xz"))
RIVAL = 1.02  # times the best so far: what takes no longer must not be given up


def race(path, gives_up=is_hopeless):
    """Share of samples that need not be taken when trials come in random order, and rivals that were given up."""
    samples = [trial.samples.seconds[: SEARCH_EFFORT.samples] for trial in read_recording(path).trials if trial.samples]
    random.Random(0).shuffle(samples)
    best, saved, wrong = float("inf"), 0, 0
    for times in samples:
        stop = next((n for n in range(1, len(times)) if gives_up(times[:n], best)), len(times))
        saved += len(times) - stop
        if stop == len(times):
            best = min(best, quiet_time(times))
        wrong += stop < len(times) and quiet_time(times) <= RIVAL * best
    return saved / sum(map(len, samples)), wrong


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_no_rival_of_the_best_is_given_up_by_its_first_samples(path):
    assert race(path)[1] == 0


def test_a_third_of_all_samples_is_saved():
    assert sum(race(path)[0] for path in SPACES) / len(SPACES) > 0.3


def test_medians_give_up_rivals_on_a_busy_core():
    def by_median(times, best):
        return len(times) >= 3 and sorted(times)[len(times) // 2] > 1.5 * best

    assert sum(race(path, by_median)[1] for path in SPACES) > 50
