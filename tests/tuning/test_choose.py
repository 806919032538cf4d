"""Choosing: who is tied with the fastest, and who of them wins."""

from types import SimpleNamespace

import numpy as np
import pytest

from autotune.core.trial import Samples, Trial
from autotune.tuning.stages.choose import is_judged_alike, joined, settle, worth_racing

FLOOR = 0.02
DEFAULT = {"tile": 1}


def finalist(tile, compile_seconds):
    phases = {"transform": 0.1, "lower": 0.1, "jit": compile_seconds}
    return Trial("t", tile, {"tile": tile}, "ok", f"k{tile}", "matmul", phases=phases)


def samples(factor, seed):
    """Sixty times around a millisecond, with noise far below the floor."""
    noise = np.random.default_rng(seed).uniform(0, 1e-3, 60)
    return Samples(tuple(1e-3 * factor * (1 + noise)))


FINALISTS = [finalist(1, 0.5), finalist(2, 0.3), finalist(3, 0.1)]


@pytest.mark.parametrize(
    ("factors", "winner"),
    [
        ((1.003, 1.0, 1.5), 0),  # the default is well tied
        ((1.015, 1.0, 1.5), 1),  # it is at the rim of the tie
        ((1.3, 1.0, 1.003), 2),  # of two that are well tied, what compiles faster
        ((1.3, 1.0, 1.015), 1),
        ((1.3, 1.1, 1.0), 2),
    ],
    ids=["default", "rim", "simpler", "rim-simpler", "fastest"],
)
def test_simpler_one_wins_where_it_is_well_tied(factors, winner):
    raced = {i: samples(factor, i) for i, factor in enumerate(factors)}
    assert settle(raced, FINALISTS, DEFAULT, FLOOR) == winner


def test_times_of_several_processes_are_taken_together():
    a, b = samples(1.0, 0), samples(1.01, 1)
    assert joined([a, b]).seconds == a.seconds + b.seconds
    assert joined([a, None]) is None


def test_who_is_lucky_in_one_process_alone_does_not_win():
    lucky = joined([samples(0.99, 0), samples(1.02, 1)])  # by its best process it would
    steady = joined([samples(1.0, 2), samples(0.98, 3)])
    assert settle({1: lucky, 2: steady}, FINALISTS, DEFAULT, 0.01) == 2


def way(error, seconds, room=0.0):
    """A search of a task by a family that rounds so coarsely, within so much room, and its best time."""
    task = SimpleNamespace(payload=SimpleNamespace(error=room))
    return SimpleNamespace(family=SimpleNamespace(error=error), best_seconds=seconds, task=task)


@pytest.mark.parametrize(
    ("ways", "kept"),
    [
        ([(0.0, 1.0), (1e-3, 0.5), (1e-2, 0.2)], [0, 1, 2]),
        ([(0.0, 1.0), (1e-3, 1.6), (1e-2, 0.2)], [0, 2]),
        ([(0.0, 1.0), (1e-3, 0.2), (1e-2, 0.4)], [0, 1]),
        ([(0.0, 1.0), (1e-3, 0.2), (1e-2, 0.25)], [0, 1, 2]),  # too close to say
        ([(0.0, 1.0), (0.0, 9.0), (1e-3, None)], [0, 1, 2]),  # code of others is shown beside ours
        ([(0.0, None), (1e-3, 0.5)], [0, 1]),
    ],
    ids=str,
)
def test_what_rounds_and_is_slower_than_what_rounds_no_more_is_out(ways, kept):
    searches = [way(*each) for each in ways]
    assert worth_racing(searches) == [searches[number] for number in kept]


def test_a_race_of_all_judges_those_alone_that_have_as_much_room():
    exact, coarse = way(0.0, 1.0), way(1e-2, 0.5, room=0.01)
    assert is_judged_alike(coarse, [exact, coarse])
    assert not is_judged_alike(exact, [exact, coarse])
