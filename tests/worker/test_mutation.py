"""However a schedule is broken, no wrong result is accepted: each is refused, found wrong, or right to the last bit."""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutation_support import draw, judge

from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import this_machine
from autotune.worker.worker import Worker

SECONDS = 20.0
MUTATIONS = int(os.environ.get("MUTATIONS", "50"))  # `make mutations` draws more
OUTCOMES: Counter[str] = Counter()


@pytest.fixture(scope="module")
def worker():
    with Worker(SECONDS) as shared:
        yield shared


@settings(max_examples=MUTATIONS, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_no_schedule_whole_or_broken_is_accepted_with_a_wrong_result(worker, seed):
    found = worker.call(judge, (seed, this_machine()))
    outcome, right, said = (found.outcome, None, "") if isinstance(found, Evaluation) else found
    OUTCOMES[outcome] += 1
    assert right is not False, said


def test_cases_were_whole_and_broken():
    assert OUTCOMES["ok"] > MUTATIONS // 10
    assert OUTCOMES["transform-failed"] > MUTATIONS // 20
    assert len(OUTCOMES) >= 3


def test_drawing_is_the_same_every_time():
    assert [draw(seed, this_machine())[2] for seed in range(5)] == [draw(seed, this_machine())[2] for seed in range(5)]
