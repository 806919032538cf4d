"""A sweep over candidates of which each does something terrible: each gets its outcome, and the others all finish."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from test_worker import FINDS_NOTHING, GOOD, LOOPS_FOR_EVER, OUTPUT, PAYLOAD, TASK, exits, instead, job, with_body

from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.candidate import Candidate
from autotune.core.evaluator import TimeLimits
from autotune.core.host.machine import this_machine
from autotune.core.plugs.family import Family
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Knob, Space
from autotune.core.trial import RIGHT
from autotune.store.store import Store
from autotune.tuning.samplers.search import Search
from autotune.tuning.stages.task_search import SearchSetting, TaskSearch
from autotune.worker.worker import Worker

pytestmark = pytest.mark.usefixtures("cold_keepers")

M, N = OUTPUT.shape
K = TASK.contraction.k
A, B = (a.name for a in PAYLOAD.arguments if a.role != "output")
A_TYPE, B_TYPE = (a.type for a in PAYLOAD.arguments if a.role != "output")
C, C_TYPE = OUTPUT.name, OUTPUT.type
POINTER = f"""\
%index = memref.extract_aligned_pointer_as_index %{C} : {C_TYPE} -> index
%integer = arith.index_cast %index : index to i64
%pointer = llvm.inttoptr %integer : i64 to !llvm.ptr
%written = arith.constant 1.0 : f32"""


def product(rows=M, change=""):
    """The right product of the first rows; `change` may alter an element of A, ``%x``, or of B, ``%y``."""
    return f"""\
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%rows = arith.constant {M} : index
%some_rows = arith.constant {rows} : index
%columns = arith.constant {N} : index
%depth = arith.constant {K} : index
%zero = arith.constant 0.0 : f32
scf.for %i = %c0 to %rows step %c1 {{
  scf.for %j = %c0 to %columns step %c1 {{
    memref.store %zero, %{C}[%i, %j] : {C_TYPE}
  }}
}}
scf.for %i = %c0 to %some_rows step %c1 {{
  scf.for %j = %c0 to %columns step %c1 {{
    %sum = scf.for %k = %c0 to %depth step %c1 iter_args(%s = %zero) -> f32 {{
      %x = memref.load %{A}[%i, %k] : {A_TYPE}
      %y = memref.load %{B}[%k, %j] : {B_TYPE}
      {change or "%p = arith.mulf %x, %y : f32"}
      %t = arith.addf %s, %p : f32
      scf.yield %t : f32
    }}
    memref.store %sum, %{C}[%i, %j] : {C_TYPE}
  }}
}}"""


def writes_at(offset):
    """The right product, and one float beyond the output."""
    return instead(f"""{product()}
{POINTER}
%beyond = llvm.getelementptr %pointer[{offset}] : (!llvm.ptr) -> !llvm.ptr, f32
llvm.store %written, %beyond : f32, !llvm.ptr""")


def counting(then):
    """The right product until it was called three times; then something else."""
    state = "memref.global @calls : memref<1xi64> = dense<0>"
    return instead(
        f"""{product()}
%calls = memref.get_global @calls : memref<1xi64>
%before = memref.load %calls[%c0] : memref<1xi64>
%one = arith.constant 1 : i64
%now = arith.addi %before, %one : i64
memref.store %now, %calls[%c0] : memref<1xi64>
%three = arith.constant 3 : i64
%late = arith.cmpi sgt, %now, %three : i64
scf.if %late {{
  {then}
}}""",
        state,
    )


ALLOCATES = """\
%b0 = arith.constant 0 : index
%b1 = arith.constant 1 : index
%many = arith.constant 1000000 : index
%value = arith.constant 1.0 : f32
%size = llvm.mlir.constant(67108864 : i64) : i64
scf.for %i = %b0 to %many step %b1 {
  %new = llvm.call @malloc(%size) : (i64) -> !llvm.ptr
  llvm.store volatile %value, %new : f32, !llvm.ptr
}"""
PRINTS = """\
%letter = llvm.mlir.constant(120 : i32) : i32
%b0 = arith.constant 0 : index
%b1 = arith.constant 1 : index
%many = arith.constant 3000 : index
scf.for %i = %b0 to %many step %b1 {
  %x = llvm.call @putchar(%letter) : (i32) -> i32
}"""
UNROLLED = """\
%value = arith.constant 1.0 : f32
affine.for %i = 0 to 100000000 {
  %zero = arith.constant 0 : index
  memref.store %value, %{C}[%zero, %zero] : {C_TYPE}
}""".replace("{C}", C).replace("{C_TYPE}", C_TYPE)
FORKS = f"{product()}\n%child = llvm.call @fork() : () -> i32"
# A child that leaves the session, in the hope to outlive everything.
FLEES = f"""{product()}
%child = llvm.call @fork() : () -> i32
%none = arith.constant 0 : i32
%is_child = arith.cmpi eq, %child, %none : i32
scf.if %is_child {{
  %session = llvm.call @setsid() : () -> i32
  %long = llvm.mlir.constant(1000 : i32) : i32
  %slept = llvm.call @sleep(%long) : (i32) -> i32
}}"""
DECLARED = "llvm.func @fork() -> i32\nllvm.func @setsid() -> i32\nllvm.func @sleep(i32) -> i32"
BROKEN_MODULE = f"func.func @{PAYLOAD.entry}() {{ return }}\nfunc.func @{PAYLOAD.entry}() {{ return }}"

FAULTS = {
    "right": (instead(product()), "ok", ""),
    "segfault": (instead("llvm.call @abort() : () -> ()", "llvm.func @abort()"), "crashed", "SIGABRT"),
    "exit": (exits(7), "crashed", "exit code 7"),
    "endless": (instead(LOOPS_FOR_EVER), "timed-out", "first call took longer than 4 s"),
    "endless-compilation": (
        Candidate(
            None, "builtin.module(func.func(affine-loop-unroll{unroll-factor=100000000}))", instead(UNROLLED).text
        ),
        "timed-out",
        "compilation took longer than 3 s",
    ),
    "allocates": (instead(ALLOCATES, "llvm.func @malloc(i64) -> !llvm.ptr"), "out-of-memory", "GiB mapped"),
    "forks": (instead(FORKS, DECLARED), "crashed", "started a process of its own"),
    "flees": (instead(FLEES, DECLARED), "crashed", "started a process of its own"),
    "prints": (instead(f"{product()}\n{PRINTS}", "llvm.func @putchar(i32) -> i32"), "ok", ""),
    "writes-past-its-end": (writes_at(M * N), "wrong-result", "byte 0 past its end"),
    "writes-before-its-begin": (writes_at(-1), "wrong-result", "bytes before"),
    "writes-to-an-input": (
        instead(f"{product()}\nmemref.store %zero, %{A}[%c0, %c0] : {A_TYPE}"),
        "wrong-result",
        f"inputs must not be written; {A} was",
    ),
    "wrong-on-the-last-row": (instead(product(M - 1)), "wrong-result", f"[{M - 1}, "),
    "right-on-positive-input": (
        instead(product(change="%u = math.absf %x : f32\n%v = math.absf %y : f32\n%p = arith.mulf %u, %v : f32")),
        "wrong-result",
        "should be",
    ),
    "nan": (instead(product(change="%p = arith.divf %zero, %zero : f32")), "non-finite", "nan"),
    "right-at-first": (
        counting(f"memref.store %zero, %{C}[%c0, %c0] : {C_TYPE}"),
        "wrong-result",
        "right at first, not after many calls",
    ),
    "broken-module": (Candidate(None, PLAIN, BROKEN_MODULE), "transform-failed", "redefinition"),
    "finds-nothing": (with_body(FINDS_NOTHING), "transform-failed", "transform.structured.match: a handle that"),
    "still-right": (GOOD, "ok", ""),
}


class FaultyFamily(Family):
    """Declares one knob: which fault."""

    name, fallback = "faulty", False

    def covers(self, task):
        return True

    def space(self, task, machine):
        return Space((Knob("fault", tuple(FAULTS)),))

    def default(self, task, machine):
        return {"fault": "right"}

    def build(self, task, config, machine):
        return f"// {config['fault']}"

    def rewrites(self, task, config):
        return Rewrites()


class FaultySearch(TaskSearch):
    """The real search, but for what its configs stand for."""

    def candidate(self, config, step=None):
        return FAULTS[config["fault"]][0]

    def job(self, candidates, effort, best_seconds=None):
        return job(*candidates)


def search_all(path, worker):
    """The trials of one sweep over all faults, by fault, and how many were run."""
    with Store.open(path) as store:
        search = FaultySearch.open(TASK, FaultyFamily(), SearchSetting(this_machine(), store, "faulty", "grid", 0))
        assert isinstance(search.search, Search)
        steps = list(iter(lambda: search.step(worker), None))
    return {trial.config["fault"]: trial for trial, _ in steps}, sum(fresh for _, fresh in steps)


@pytest.fixture(scope="module")
def worker(cold_keepers):
    """Without a sandbox, which refuses some of the faults: isolation must hold where there is no sandbox, too."""
    with Worker(30.0, memory_bytes=4 << 30, sandboxed=False) as shared:
        yield shared


@pytest.fixture(scope="module")
def swept(worker, tmp_path_factory):
    path = tmp_path_factory.mktemp("faults") / "store.journal"
    time_limits = TimeLimits(compile_seconds=3.0, run_seconds=4.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.tuning.stages.task_search.learn_time_limits", lambda trials: time_limits)
        return path, *search_all(path, worker)


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_candidate_of_a_sweep_has_its_outcome(swept, fault):
    _, trials, _ = swept
    _, outcome, said = FAULTS[fault]
    trial = trials[fault]
    assert trial.outcome.replace("noisy", "ok") == outcome, trial.diagnostic
    assert said in trial.diagnostic
    assert (trial.samples is not None) == (outcome == "ok")
    assert trial.phases or outcome == "transform-failed"


def test_sweep_over_faults_tries_everything_and_resumes_without_running_anything(swept, worker):
    path, trials, ran = swept
    assert set(trials) == set(FAULTS)
    assert ran == len(FAULTS)
    again, ran_again = search_all(path, worker)
    assert again == trials
    assert ran_again == 0


def descendants(worker):
    """Processes below a worker's keeper, as numbers."""
    return {child.pid for child in psutil.Process(worker._keeper._process.pid).children(recursive=True)}


def test_nothing_that_candidates_start_outlives_them(worker):
    for fault in ("forks", "flees"):
        assert worker.evaluate(job(FAULTS[fault][0]))[0].outcome == "crashed"
        assert len(descendants(worker)) == 0
    assert worker.evaluate(job(GOOD))[0].outcome in RIGHT
    assert len(descendants(worker)) == 1


def open_files():
    return len(os.listdir("/proc/self/fd"))


def test_many_crashes_leak_nothing_and_keep_the_keeper_that_respawns_quickly(worker):
    worker.call(abs, -1)
    files, keeper = open_files(), worker._keeper._process.pid
    for _ in range(300):
        assert worker.call(signal.raise_signal, signal.SIGSEGV).outcome == "crashed"
        assert worker.call(abs, -1) == 1
    assert open_files() == files
    assert len(descendants(worker)) == 1
    assert worker._keeper._process.pid == keeper  # a fork of it takes milliseconds, a keeper a second


def test_keeper_that_is_killed_is_replaced(worker):
    before = worker._keeper._process.pid
    os.kill(before, signal.SIGKILL)
    worker._keeper._process.wait(5)
    assert worker.call(abs, -3) == 3
    assert worker._keeper._process.pid != before


def test_closed_worker_leaves_no_process_and_no_file():
    with Worker(20.0) as mine:
        assert mine.call(abs, -1) == 1
        keeper, folder = mine._keeper._process.pid, Path(mine._settings.folder)
        assert folder.is_dir()
        assert psutil.pid_exists(keeper)
    assert not psutil.pid_exists(keeper)
    assert not folder.exists()


def test_late_compilation_and_late_call_are_told_apart(worker):
    slow = replace(job(instead(LOOPS_FOR_EVER)), time_limits=TimeLimits(run_seconds=0.3))
    (found,) = worker.evaluate(slow)
    assert (found.outcome, "first call" in found.diagnostic) == ("timed-out", True)
    assert found.phases["verify"] >= 0.3
    assert {"lower", "jit"} <= set(found.phases)
