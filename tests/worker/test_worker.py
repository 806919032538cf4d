"""Faults of every kind in real isolated workers: each is an outcome, and the next candidate is none the worse."""

import operator
import os
import re
import threading
import time
from types import SimpleNamespace

import pytest
from tuning_support import contraction_payload

from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument, Payload
from autotune.core.plugs.program import WrittenScript
from autotune.core.scripts.assembly import Step, assemble
from autotune.core.trial import RIGHT, Samples
from autotune.registry import family_for, load_payload
from autotune.worker.bench.evaluate import evaluate, look_again
from autotune.worker.bench.verify import Verdict
from autotune.worker.worker import Worker

QUICK = Effort(samples=3, seconds=1.0, sample_seconds=1e-4)  # three samples, however busy the core is
TASK = partition(contraction_payload(9, 11, 5)).tasks[0]
PAYLOAD = TASK.payload
SIGNATURE = ", ".join(f"%{a.name}: {a.type}" for a in PAYLOAD.arguments)
OUTPUT = PAYLOAD.outputs[0]


def good_candidate():
    family = family_for(TASK)
    body = family.build(TASK, family.default(TASK, this_machine()), this_machine())
    return Candidate(assemble([Step(TASK.tag, 1, WrittenScript(body))]), TAIL)


GOOD = good_candidate()


def with_body(body):
    """A script that does something to the task's op."""
    return Candidate(assemble([Step(TASK.tag, 1, WrittenScript(body))]), TAIL)


def instead(body, declarations=""):
    """Code of one's own behind the payload's interface."""
    text = f"{declarations}\nfunc.func @{PAYLOAD.entry}({SIGNATURE}) {{\n{body}\nreturn\n}}"
    return Candidate(None, PLAIN, text=text)


ABORTS_THE_COMPILER = """\
%size = transform.param.constant 4 : i64 -> !transform.any_param
%tiled, %loop = transform.structured.tile_using_for %op tile_sizes [%size]
  : (!transform.any_op, !transform.any_param) -> (!transform.any_op, !transform.any_op)"""
USES_A_HANDLE_TWICE = """\
%a = transform.structured.generalize %op : (!transform.any_op) -> !transform.any_op
%b = transform.structured.generalize %op : (!transform.any_op) -> !transform.any_op"""
FINDS_NOTHING = """\
%loops = transform.structured.match ops{["scf.for"]} in %op : (!transform.any_op) -> !transform.any_op
transform.loop.unroll %loops {factor = 2} : !transform.any_op"""
BREAKS_A_LAW = """\
%all = transform.structured.generalize %op : (!transform.any_op) -> !transform.any_op
%seven = transform.param.constant 7 : i64 -> !transform.any_param
transform.annotate %all "iterator_types" = %seven : !transform.any_op, !transform.any_param"""
LOOPS_FOR_EVER = f"""\
%zero = arith.constant 0 : index
%nan = arith.constant 0x7FC00000 : f32
scf.while : () -> () {{
  memref.store %nan, %{OUTPUT.name}[%zero, %zero] : {OUTPUT.type}
  %true = arith.constant true
  scf.condition(%true)
}} do {{
  scf.yield
}}"""
READS_A_WILD_POINTER = """\
%address = llvm.mlir.constant(64 : i64) : i64
%pointer = llvm.inttoptr %address : i64 to !llvm.ptr
%value = llvm.load volatile %pointer : !llvm.ptr -> f32"""
CALLS_ABORT = "llvm.call @abort() : () -> ()"
TRAP = 'llvm.func @trap() { "llvm.intr.trap"() : () -> () llvm.return }'


def exits(code):
    """Code that ends its process."""
    body = f"%code = llvm.mlir.constant({code} : i32) : i32\nllvm.call @_exit(%code) : (i32) -> ()"
    return instead(body, "llvm.func @_exit(i32)")


def fills(value):
    """Code that writes one value everywhere."""
    return f"%value = arith.constant {value} : f32\nlinalg.fill ins(%value : f32) outs(%{OUTPUT.name} : {OUTPUT.type})"


FAULTS = {
    "script-with-a-syntax-error": (Candidate("module attributes {", TAIL), "transform-failed", "schedule:1:"),
    "script-that-is-no-script": (Candidate("module {}", TAIL), "transform-failed", "@__transform_main"),
    "script-with-a-nameless-op": (Candidate("module { module {} }", TAIL), "transform-failed", "@__transform_main"),
    "script-that-uses-a-handle-twice": (with_body(USES_A_HANDLE_TWICE), "transform-failed", ""),
    "script-that-finds-nothing": (
        with_body(FINDS_NOTHING),
        "transform-failed",
        "transform.structured.match: a handle that is used must hold something",
    ),
    "script-that-breaks-a-law": (with_body(BREAKS_A_LAW), "verify-failed", "'linalg.generic' op requires"),
    "script-for-another-tag": (Candidate(assemble([Step("x", 1, WrittenScript(""))]), TAIL), "transform-failed", ""),
    "module-with-a-syntax-error": (Candidate(None, PLAIN, text="func.func @"), "transform-failed", ":1:"),
    "pass-that-is-unknown": (Candidate(None, "builtin.module(no-such-pass)"), "lowering-failed", "no-such-pass"),
    "pipeline-that-does-not-parse": (Candidate(None, "builtin.module("), "lowering-failed", ""),
    "pipeline-that-stops-half-way": (Candidate(None, "builtin.module(canonicalize)"), "jit-failed", ""),
    "symbol-that-nobody-defines": (
        instead("func.call @nowhere_at_all() : () -> ()", "func.func private @nowhere_at_all()"),
        "jit-failed",
        "",
    ),
    "wrong-result": (instead(fills("0.25")), "wrong-result", "should be"),
    "nan": (instead(fills("0x7FC00000")), "non-finite", "nan"),
    "infinity": (instead(fills("0x7F800000")), "non-finite", "inf"),
    "nothing-written": (instead(""), "non-finite", "nan"),
    "compiler-aborts": (with_body(ABORTS_THE_COMPILER), "crashed", "SIGABRT"),
    "code-aborts": (instead(CALLS_ABORT, "llvm.func @abort()"), "crashed", "SIGABRT"),
    "code-exits": (exits(3), "crashed", "exit code 3"),
    "code-exits-as-if-all-were-well": (exits(0), "crashed", "exit code 0"),
    "code-traps": (instead("llvm.call @trap() : () -> ()", TRAP), "crashed", "SIG"),
    "code-reads-a-wild-pointer": (instead(READS_A_WILD_POINTER), "crashed", "SIGSEGV"),
    "code-loops-for-ever": (instead(LOOPS_FOR_EVER), "timed-out", "took longer than 2 s"),
}

SECONDS = {"code-loops-for-ever": 2.0, "code-exits-as-if-all-were-well": 5.0}


@pytest.fixture(scope="module")
def worker():
    with Worker(20.0) as shared:
        yield shared


def job(*candidates, payload=PAYLOAD):
    return Job(payload, candidates, this_machine(), effort=QUICK)


def check_good(worker):
    (found,) = worker.evaluate(job(GOOD))
    assert found.outcome in RIGHT, found.diagnostic
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_an_outcome_and_the_next_candidate_is_fine(worker, fault):
    candidate, outcome, said = FAULTS[fault]
    (found,) = worker.evaluate(job(candidate), seconds=SECONDS.get(fault))
    assert found.outcome == outcome, found.diagnostic
    assert said in found.diagnostic
    assert found.diagnostic
    assert "\n" not in found.diagnostic
    assert found.samples is None
    check_good(worker)


def test_good_candidate_brings_samples_its_error_and_the_time_of_every_phase(worker):
    found = check_good(worker)
    assert len(found.samples.seconds) == len(found.samples.reference_seconds) == 3
    assert 0 <= found.max_error < 1e-5
    assert set(found.phases) == {"transform", "lower", "jit", "verify", "measure"}


def test_best_time_of_the_reference_outlives_the_process_that_saw_it(worker):
    best = check_good(worker).samples.quiet_reference
    for _ in range(2):
        worker.renew()
        samples = check_good(worker).samples
        best = min(best, *samples.reference_seconds)
        assert samples.quiet_reference == best


def test_several_candidates_are_measured_together_and_a_wrong_one_keeps_its_place(worker):
    wrong = FAULTS["wrong-result"][0]
    first, second, third = worker.evaluate(job(GOOD, wrong, Candidate(None, PLAIN)))
    assert [e.outcome for e in (first, second, third)] == ["ok", "wrong-result", "ok"]
    assert len(first.samples.seconds) == len(third.samples.seconds)
    assert second.samples is None


def test_process_that_dies_takes_only_the_candidate_it_worked_on(worker):
    found = worker.evaluate(job(GOOD, FAULTS["code-aborts"][0], GOOD))
    assert [e.outcome for e in found] == ["ok", "crashed", "ok"]
    assert len(found[0].samples.seconds) == len(found[2].samples.seconds) > 0


def test_arrays_that_do_not_fit_the_memory_are_an_outcome(worker):
    big = Argument("y", "output", (1 << 44,))
    text = f"func.func @f(%y: {big.type}) {{ return }}"
    (found,) = worker.evaluate(job(Candidate(None, PLAIN), payload=Payload("big", text, "f", (big,))))
    assert found.outcome == "out-of-memory"
    check_good(worker)


def test_payload_whose_oracle_is_not_finite_is_an_error_of_the_payload(worker):
    y = Argument("y", "output", (4,))
    unwritten = Payload("unwritten", f"func.func @f(%y: {y.type}) {{ return }}", "f", (y,))
    with pytest.raises(PayloadError, match="must give finite values") as error:
        worker.evaluate(job(Candidate(None, PLAIN), payload=unwritten))
    assert "\n" not in str(error.value)
    check_good(worker)


def test_same_seed_gives_the_same_error(worker):
    payload = load_payload("matmul,m=7,n=9,k=33")
    found = [worker.evaluate(job(Candidate(None, PLAIN), payload=payload))[0].max_error for _ in range(2)]
    assert found[0] == found[1] > 0


def process_id(_):
    """The process that runs this."""
    return os.getpid()


def test_threads_that_call_one_worker_take_turns(worker):
    found = dict[int, int]()

    def call(number):
        for each in range(number, number + 5):
            found[each] = worker.call(operator.neg, each)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(0, 40, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: -number for number in range(40)}


def test_renewed_worker_runs_in_another_process():
    with Worker() as worker:
        worker.renew()  # there is none yet
        first = worker.call(process_id, None)
        assert worker.call(process_id, None) == first
        worker.renew()
        assert worker.call(process_id, None) != first


def processor_seconds(naps):
    time.sleep(naps)
    return time.process_time()


def test_a_process_is_asked_for_the_processor_time_it_used_and_for_no_other():
    with Worker() as worker:
        worker.call(processor_seconds, 0.0)
        process = worker._process
        before = process.busy_seconds()
        used = worker.call(processor_seconds, 0.1)
        assert before <= used <= process.busy_seconds() <= worker.call(processor_seconds, 0.0)  # its own clock
        worker.renew()
        assert process.busy_seconds() == float("inf")


@pytest.mark.parametrize(("second_half", "outcome"), [(1.1, "ok"), (1.5, "noisy")])
def test_a_program_whose_halves_disagree_is_noisy_and_says_by_how_much(second_half, outcome):
    bench = SimpleNamespace(verify_again=lambda _: Verdict("ok", 0.0))
    timed = Evaluation("ok", Samples((1e-3,) * 8 + (1e-3 * second_half,) * 8))
    found = look_again(timed, None, bench)
    assert found.outcome == outcome
    assert ("halves of the samples must agree" in found.diagnostic) == (outcome == "noisy")
    assert found.samples == timed.samples


def test_a_fault_of_our_own_is_the_end_of_a_candidate_not_of_the_sweep(monkeypatch):
    def breaks(*arguments, **options):
        return {}[6]

    monkeypatch.setattr("autotune.worker.bench.evaluate.compile_program", breaks)
    (found,) = evaluate(Job(PAYLOAD, (Candidate(None, PLAIN),), this_machine()))
    assert found.outcome == "transform-failed"
    assert re.fullmatch(
        r"KeyError: 6, in test_worker\.py:\d+; that is a fault of autotune, please report it", found.diagnostic
    )


def test_a_lack_of_memory_is_no_fault_of_our_own(monkeypatch):
    def breaks(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("autotune.worker.bench.evaluate.compile_program", breaks)
    with pytest.raises(MemoryError):
        evaluate(Job(PAYLOAD, (Candidate(None, PLAIN),), this_machine()))
