"""The plan of an arena: buffers that live at once never overlap, and the whole is no larger than it has to be."""

import doctest

from hypothesis import given
from hypothesis import strategies as st

from autotune.core import arena_plan as module
from autotune.core.arena_plan import ALIGNMENT, BufferPlan, Lifetime, place

lifetimes = st.lists(
    st.builds(
        lambda size, first, length: Lifetime(size, first, first + length),
        st.integers(1, 3000),
        st.integers(0, 30),
        st.integers(0, 12),
    ),
    max_size=25,
)


def live_bytes(buffers):
    """The most that lives at one step."""
    steps = {buffer.first for buffer in buffers}
    return max((sum(b.room for b in buffers if b.first <= step <= b.last) for step in steps), default=0)


@given(lifetimes)
def test_buffers_that_live_at_once_never_overlap(buffers):
    plan = place(buffers)
    placed = list(zip(plan.buffers, plan.offsets, strict=True))
    assert plan.buffers == tuple(buffers)
    for i, (one, start) in enumerate(placed):
        for other, begin in placed[:i]:
            if one.meets(other):
                assert start + one.bytes <= begin or begin + other.bytes <= start


@given(lifetimes)
def test_offsets_are_aligned_and_inside_the_arena(buffers):
    plan = place(buffers)
    for buffer, offset in zip(plan.buffers, plan.offsets, strict=True):
        assert offset >= 0
        assert offset % ALIGNMENT == 0
        assert offset + buffer.bytes <= plan.peak_bytes


@given(lifetimes)
def test_peak_is_between_what_lives_at_once_and_the_naive_sum(buffers):
    plan = place(buffers)
    assert live_bytes(buffers) <= plan.peak_bytes <= plan.naive_bytes


@given(lifetimes)
def test_a_plan_repeats_exactly(buffers):
    assert place(buffers) == place(buffers)


def test_no_buffers_take_no_arena():
    assert place([]) == BufferPlan()


def test_a_buffer_takes_the_smallest_gap_that_fits():
    wide = [Lifetime(4096, 0, 9), Lifetime(1024, 0, 1), Lifetime(512, 0, 9), Lifetime(256, 0, 1), Lifetime(128, 0, 9)]
    plan = place([*wide, Lifetime(64, 5, 6)])
    assert plan.offsets[-1] == plan.offsets[3]


def test_documented_examples_of_the_plan_hold():
    assert doctest.testmod(module).failed == 0
