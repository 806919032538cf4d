"""Programs that are kept: what was timed is proved without compiling it again, and what is timed is compiled."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tuning_support import contraction_payload

from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.arena_plan import BufferPlan
from autotune.core.candidate import Candidate, Claim
from autotune.core.errors import CompileError
from autotune.core.evaluator import Effort, Job
from autotune.core.host.machine import this_machine
from autotune.registry import load_payload
from autotune.worker.bench import evaluate, proof
from autotune.worker.bench.program_cache import LEAST_PROGRAMS, MOST_BYTES, MOST_PROGRAMS, ProgramCache
from autotune.worker.bench.proof import DrawsWanted, count_rows, largest_error, measure_errors

PAYLOAD, GOOD = contraction_payload(9, 11, 5), Candidate(None, PLAIN)
QUICK = Effort(samples=3, seconds=1.0, sample_seconds=1e-4)


@pytest.fixture
def compiled(monkeypatch):
    """Candidates that are compiled, in order; nothing is kept before."""
    seen, compile_program, programs = [], evaluate.compile_program, ProgramCache()

    def note(payload, candidate, **options):
        seen.append(candidate)
        return compile_program(payload, candidate, **options)

    monkeypatch.setattr(evaluate, "compile_program", note)
    for module in (evaluate, proof):
        monkeypatch.setattr(module, "PROGRAMS", programs)
    return seen


def outcomes(*candidates):
    """What becomes of candidates of one job."""
    return [each.outcome for each in evaluate.evaluate(Job(PAYLOAD, candidates, this_machine(), effort=QUICK))]


def test_what_was_timed_is_proved_on_all_inputs_without_compiling(compiled):
    assert outcomes(GOOD) == ["ok"]
    (error,) = measure_errors(Claim(PAYLOAD, GOOD))
    assert error.max_error <= error.tolerance
    assert count_rows(DrawsWanted(Claim(PAYLOAD, GOOD), least=20, most_seeds=3)) == (27, 27)
    assert compiled == [GOOD]


@pytest.mark.parametrize(("least", "draws"), [(99, 1), (100, 2), (1000, 4)])
def test_the_largest_error_is_of_as_many_inputs_as_few_results_ask_for(least, draws, compiled):
    payload = load_payload("matmul,m=9,n=11,k=40")
    each = [error for seed in range(draws) for error in measure_errors(Claim(payload, GOOD, seed))]
    largest = largest_error(DrawsWanted(Claim(payload, GOOD), least, most_seeds=4))
    assert largest == max(error.max_error / error.magnitude for error in each) > 0
    assert compiled == [GOOD]


def test_what_was_not_timed_is_compiled_once_for_all_inputs(compiled):
    measure_errors(Claim(PAYLOAD, GOOD))
    measure_errors(Claim(PAYLOAD, GOOD, seed=1))
    assert compiled == [GOOD]


def test_what_is_timed_is_compiled_anew(compiled):
    assert outcomes(GOOD) == outcomes(GOOD) == ["ok"]
    assert outcomes(GOOD, GOOD) == ["ok", "ok"]
    assert compiled == [GOOD] * 4


def test_another_payload_or_candidate_is_another_program(compiled):
    outcomes(GOOD)
    for payload, candidate in (
        (PAYLOAD, replace(GOOD, text=f"{PAYLOAD.text}\n")),
        (contraction_payload(9, 11, 6), GOOD),
    ):
        measure_errors(Claim(payload, candidate))
    assert len(compiled) == 3


def test_what_is_wrong_is_not_kept(compiled):
    wrong = replace(GOOD, text=PAYLOAD.text.replace("arith.constant 0.0", "arith.constant 1.0"))
    assert outcomes(wrong) == ["wrong-result"]
    for _ in range(2):
        with pytest.raises(CompileError, match="must be right"):
            measure_errors(Claim(PAYLOAD, wrong))
    assert compiled == [wrong] * 3


@pytest.mark.parametrize(
    ("peak_bytes", "most"),
    [(0, MOST_PROGRAMS), (MOST_BYTES // 3, LEAST_PROGRAMS + 3), (2 * MOST_BYTES, LEAST_PROGRAMS)],
)
def test_the_oldest_goes_where_there_are_many_or_large_ones(peak_bytes, most):
    programs, candidates = ProgramCache(), [replace(GOOD, part=number) for number in range(20)]
    for candidate in candidates:
        programs.keep(PAYLOAD, candidate, SimpleNamespace(buffers=BufferPlan(peak_bytes=peak_bytes)))
    there = [programs.find(PAYLOAD, candidate) is not None for candidate in candidates]
    assert there == [number >= 20 - most for number in range(20)]
