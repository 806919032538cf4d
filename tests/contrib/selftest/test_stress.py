"""Races: one that is put in is found by calling again, in the search and in the self-test; without one nothing is."""

import pytest

from autotune.compiler.codegen.openmp import usable_threads
from autotune.compiler.passes.pipelines import tail
from autotune.contrib.selftest.stress import racing_payload
from autotune.contrib.selftest.threads import check_threads, product_claim
from autotune.core.candidate import Candidate
from autotune.core.evaluator import Effort, Job
from autotune.core.host.machine import this_machine
from autotune.core.trial import RIGHT
from autotune.worker.worker import Worker

pytestmark = pytest.mark.skipif(usable_threads(2) < 2, reason="two cores and an OpenMP runtime are needed")


def test_self_test_finds_the_race_that_it_puts_in_and_none_in_a_product():
    race, product = check_threads()
    assert race.holds
    assert (product.value, product.holds) == (0, True)


def test_product_of_the_self_test_is_shared_by_its_threads():
    assert "tile_using_forall" in product_claim().candidate.script


def test_candidate_with_a_race_is_wrong_and_right_on_one_thread():
    payload = racing_payload(1 << 22)
    quick = Effort(samples=2, seconds=0.1)
    alone, shared = (Job(payload, (Candidate(None, tail(n)),), this_machine(n), effort=quick) for n in (1, 2))
    with Worker(60.0, threads=2) as worker:
        assert all(worker.evaluate(alone)[0].outcome in RIGHT for _ in range(3))
        # A machine that is busy may run one thread after the other, so that one evaluation sees no race: twenty do.
        assert any(worker.evaluate(shared)[0].outcome == "wrong-result" for _ in range(20))


def test_threads_that_never_end_are_killed_with_their_candidate():
    payload = racing_payload(4)
    endless = payload.text.replace("1 : index", f"1 : index\n%ages = arith.constant {1 << 50} : index").replace(
        "memref.store %new, %out[%first] : memref<1xf32>",
        "scf.for %q = %first to %ages step %step { %x = memref.load %out[%first] : memref<1xf32>\n"
        "%y = arith.addf %x, %new : f32\nmemref.store %y, %out[%first] : memref<1xf32> }",
    )
    with Worker(2.0, threads=2) as worker:
        (found,) = worker.evaluate(Job(payload, (Candidate(None, tail(2), endless),), this_machine(2)))
        (again,) = worker.evaluate(Job(payload, (Candidate(None, tail(1)),), this_machine(2)))
    assert found.outcome == "timed-out"
    assert again.outcome in RIGHT
