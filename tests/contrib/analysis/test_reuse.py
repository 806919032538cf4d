"""Arithmetic on facts of a program: predicted reuse against every address, the arena's map against lifetimes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.contrib.analysis.arena_map import FREE, draw_map, live_bytes
from autotune.contrib.analysis.cache import compare, shrink, simulate, trace
from autotune.contrib.analysis.reuse import fetched, first_touches, misses, order, reuses
from autotune.core.arena_plan import Lifetime, place
from autotune.core.ops.facts import LINE
from autotune.core.ops.op import Index, LoopNest, Operand, ProgramOp

WHOLE = 16  # f32 in a line


def array(value, shape, *indices, fresh=False):
    return Operand(shape, "f32", tuple(Index(tuple(terms)) for terms in indices), value=value, moves=fresh)


def op(sizes, *accesses, number=0, trips=1):
    return ProgramOp(LoopNest(sizes, ("parallel",) * len(sizes)), operands=accesses, number=number, trips=trips)


def matmul(m, n, k):
    i, j, s = [(0, 1)], [(1, 1)], [(2, 1)]
    return op((m, n, k), array(0, (m, k), i, s), array(1, (k, n), s, j), array(2, (m, n), i, j))


def rows(m, n):
    i, j = [(0, 1)], [(1, 1)]
    return op((m, n), array(0, (m, n), i, j), array(1, (m,), i), array(2, (n,), j), array(3, (m, n), i, j))


def convolution(places, kernel, channels):
    moved = [(0, 1), (1, 1)]
    return op(
        (places, kernel, channels),
        array(0, (places + kernel - 1, channels), moved, [(2, 1)]),
        array(1, (kernel, channels), [(1, 1)], [(2, 1)]),
        array(2, (places, channels), [(0, 1)], [(2, 1)]),
    )


OPS = {
    "matmul": matmul(16, 32, 32),
    "thin matmul": matmul(2, 64, 48),
    "short rows": matmul(32, 8, 16),
    "rows": rows(24, 64),
    "turned": op((32, 48), array(0, (32, 48), [(0, 1)], [(1, 1)]), array(1, (48, 32), [(1, 1)], [(0, 1)])),
    "windows": convolution(20, 3, 32),
}


def distances(lines):
    """Different lines since the last use of each, itself included, by looking back; infinite for first touches."""
    found = []
    for at, line in enumerate(lines):
        before = [i for i in range(at) if lines[i] == line]
        found.append(len(set(lines[before[-1] : at])) if before else np.inf)
    return found


@pytest.mark.parametrize("name", OPS)
def test_every_access_has_a_distance_and_every_line_a_first_touch(name):
    lines, found = trace(OPS[name]), reuses(OPS[name])
    assert sum(reuse.count for reuse in found) == pytest.approx(len(lines))
    assert first_touches(found) == len(np.unique(lines))


@pytest.mark.parametrize("name", OPS)
def test_predicted_misses_are_those_of_a_simulation_of_every_address(name):
    case = compare(OPS[name])
    assert case.worst < 0.05
    assert case.predicted[-1] == case.simulated[-1] == len(np.unique(trace(OPS[name])))


@pytest.mark.parametrize("name", ["thin matmul", "rows"])
def test_predicted_distances_have_the_shares_that_are_counted_one_by_one(name):
    small = shrink(OPS[name])
    counted = np.array(distances(trace(small).tolist()[:4000]))
    for capacity in (4, 16, 64, 4096):
        share = misses(reuses(small), capacity) / sum(reuse.count for reuse in reuses(small))
        assert share == pytest.approx(np.mean(counted > capacity), abs=0.12)


@given(st.lists(st.integers(0, 12), max_size=60), st.integers(1, 8))
def test_simulated_cache_misses_what_lies_further_back_than_it_has_lines(lines, capacity):
    expected = sum(distance > capacity for distance in distances(lines))
    assert simulate(np.array(lines, dtype=int), capacity) == expected


def test_a_cache_of_one_set_and_one_of_many_miss_the_same_where_all_fits():
    lines = trace(rows(8, 64))
    touched = len(np.unique(lines))
    assert simulate(lines, 1024) == simulate(lines, 1024, ways=8) == touched


def test_what_was_used_last_is_still_there_and_what_is_too_far_back_is_not():
    make = op((64,), array(0, (64 * WHOLE,), [(0, WHOLE)]), number=0)
    read = op((64,), array(0, (64 * WHOLE,), [(0, WHOLE)]), number=1)
    other = op((512,), array(1, (512 * WHOLE,), [(0, WHOLE)]), number=1)
    again = op((64,), array(0, (64 * WHOLE,), [(0, WHOLE)]), number=2)
    assert fetched([make, read], 128) == [0, 0]
    assert fetched([make, other, again], 128) == [0, 512, 64]  # the call before ended with it
    assert fetched([make, other, again], 2048) == [0, 0, 0]


def test_weights_of_each_iteration_are_arrays_of_their_own():
    layer = op((64,), array(0, (64 * WHOLE,), [(0, WHOLE)], fresh=True), trips=4)
    assert order([layer]) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert fetched([layer], 128) == [4 * 64]
    assert fetched([layer], 4 * 64) == [0]


def test_bytes_of_an_op_are_each_element_once():
    assert matmul(4, 8, 16).bytes == 4 * (4 * 16 + 16 * 8 + 4 * 8)
    assert convolution(20, 3, 32).bytes == 4 * (22 * 32 + 3 * 32 + 20 * 32)


@given(st.lists(st.tuples(st.integers(1, 4000), st.integers(0, 20), st.integers(0, 6)), min_size=1, max_size=8))
def test_map_shows_a_buffer_where_and_when_it_lives_and_nothing_elsewhere(found):
    plan = place([Lifetime(size, first, first + length) for size, first, length in found])
    steps, lines = 1 + max(buffer.last for buffer in plan.buffers), plan.peak_bytes // LINE
    drawn = draw_map(plan, steps, lines)[::-1]
    for line in range(lines):
        for step in range(steps):
            there = [
                number
                for number, (buffer, offset) in enumerate(zip(plan.buffers, plan.offsets, strict=True))
                if buffer.first <= step <= buffer.last and offset <= line * LINE < offset + buffer.room
            ]
            expected = "abcdefgh"[there[0]] if there else FREE
            assert drawn[line][step] == expected
    assert max(live_bytes(plan)) <= plan.peak_bytes


def test_map_has_the_size_that_is_asked_for_and_takes_an_empty_plan():
    plan = place([Lifetime(1 << 20, 0, 700), Lifetime(1 << 10, 5, 5)])
    assert [len(line) for line in draw_map(plan, 72, 14)] == [72] * 14
    assert draw_map(place([]), 3, 2) == ["...", "..."]
