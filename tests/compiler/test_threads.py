"""Parallel loops: threads share them out, each has memory of its own, and one thread or no runtime is still right."""

import re

import numpy as np
import pytest
from arena_support import KIND, alloc, copy, function, lines
from tuning_support import agrees, run

from autotune.compiler.codegen import openmp
from autotune.compiler.codegen.object_code import disassemble
from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.pipeline import compilation, run_pipeline
from autotune.compiler.lowering.program import compile_program
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.lowering.steps import rewrites_on
from autotune.compiler.passes.arena import THREAD_NUMBER, plan_arena
from autotune.compiler.passes.foralls import FORALL, serialise_nested
from autotune.compiler.passes.pipelines import TAIL, plans_arena, tail, threads_of
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument, Payload
from autotune.registry import load_payload
from autotune.tuning.candidates import default_candidate
from autotune.worker.bench.kernels import fma_payload

needs_runtime = pytest.mark.skipif(openmp.find_openmp() is None, reason="no OpenMP runtime is installed")


def forall(*body, count=4):
    return lines(f"scf.forall (%p) in ({count}) {{", *body, "}")


def planned(*body, threads):
    """The plan of a function's buffers on so many threads, and the text after."""
    with context():
        module = parse(function(*body), "test")
        found = plan_arena(module, threads)
        assert module.operation.verify()
        return found, str(module)


# The pipeline.


def test_on_one_thread_pipeline_and_identity_are_as_they_were():
    assert (tail(1), threads_of(TAIL)) == (TAIL, 1)
    assert "openmp" not in TAIL
    assert compilation(1) == "\n".join((TAIL, *rewrites_on(1)))


@pytest.mark.parametrize("threads", [2, 3, 64])
def test_a_pipeline_says_how_many_threads_it_is_for(threads):
    assert threads_of(tail(threads)) == threads
    assert plans_arena(tail(threads))
    assert compilation(threads) != compilation(threads + 1)


# Memory.


def test_what_a_parallel_loop_allocates_has_a_place_for_every_thread():
    body = (alloc("a"), copy("%in", "%a"), alloc("b"), copy("%a", "%b"), copy("%b", "%out"))
    found, text = planned(forall(*body), threads=3)
    assert found.peak_bytes == 3 * 2 * 64
    assert found.offsets == (0, 64)
    assert text.count(f"call @{THREAD_NUMBER}") == 2
    assert text.count("memref.alloc") == 0


def test_what_lives_around_a_parallel_loop_shares_no_byte_with_what_its_threads_allocate():
    body = forall(alloc("a"), copy("%s", "%a"), copy("%a", "%out"))
    found, _ = planned(alloc("s"), copy("%in", "%s"), body, copy("%s", "%out"), threads=4)
    shared, own = found.offsets
    assert found.peak_bytes == 64 + 4 * 64
    assert shared + 64 <= own or own + 4 * 64 <= shared


def test_loops_one_after_another_use_the_same_memory():
    body = forall(alloc("a"), copy("%in", "%a"), copy("%a", "%out"))
    found, _ = planned(body, body, threads=2)
    assert found.peak_bytes == 2 * 64
    assert found.offsets == (0, 0)


def test_a_loop_inside_a_parallel_loop_runs_on_the_thread_that_it_is_in():
    inner = forall(copy("%a", "%out"), count=3).replace("%p", "%q")
    pair = inner.replace("(%q) in (3)", "(%q, %r) in (3, 2)")
    with context():
        module = parse(function(forall(alloc("a"), copy("%in", "%a"), inner, pair)), "test")
        serialise_nested(module)
        assert module.operation.verify()
        assert str(module).count(FORALL) == 1
        assert str(module).count("scf.for ") == 3


def test_a_parallel_loop_that_allocates_what_has_no_place_frees_it_in_its_thread():
    made, written = "%d = memref.alloc(%n) : memref<?xf32>", "memref.store %x, %d[%c0] : memref<?xf32>"
    read = ("%l = memref.load %d[%p] : memref<?xf32>", f"memref.store %l, %out[%p] : {KIND}")
    body = forall(made, written, *read)
    with context():
        unit = Unit(parse(function("%x = arith.constant 1.0 : f32", body), "test"))
        run_pipeline(unit, tail(2))
        text = str(unit.module)
    region = text[text.index("omp.parallel") :]
    assert (text.count("@malloc("), text.count("@free(")) == (2, 2)  # declared, and called in the loop
    assert region.index("@malloc(") < region.index("@free(") < region.index("omp.terminator")


# Programs.


def summed():
    """Rows of a matrix added up, one a piece of a parallel loop, through memory of the thread's own."""
    text = f"""
    func.func @f(%x: memref<37x16xf32>, %y: memref<37x16xf32>) {{
      scf.forall (%i) in (37) {{
        %t = memref.alloc() : {KIND}
        %row = memref.subview %x[%i, 0] [1, 16] [1, 1] : memref<37x16xf32> to memref<16xf32, strided<[1], offset: ?>>
        %out = memref.subview %y[%i, 0] [1, 16] [1, 1] : memref<37x16xf32> to memref<16xf32, strided<[1], offset: ?>>
        linalg.add ins(%row, %row : memref<16xf32, strided<[1], offset: ?>>, memref<16xf32, strided<[1], offset: ?>>)
                   outs(%t : {KIND})
        linalg.copy ins(%t : {KIND}) outs(%out : memref<16xf32, strided<[1], offset: ?>>)
      }}
      return
    }}"""
    return Payload("f", text, "f", (Argument("x", "input", (37, 16)), Argument("y", "output", (37, 16))))


@needs_runtime
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_compute_what_one_computes(threads):
    x, y = np.arange(37 * 16, dtype=np.float32).reshape(37, 16), np.zeros((37, 16), np.float32)
    program = compile_program(summed(), Candidate(None, tail(threads)))
    program.bind([x, y]).run(50)
    assert program.threads == threads
    assert np.array_equal(y, 2 * x)


def test_without_parallel_loops_no_runtime_is_asked_for(monkeypatch):
    monkeypatch.setattr(openmp, "find_openmp", lambda: None)
    assert compile_program(fma_payload(lanes=4, chains=2, steps=3), Candidate(None, tail(2))).threads == 1


def test_without_a_runtime_parallel_loops_are_refused_and_one_thread_is_said_to_be_used(monkeypatch):
    monkeypatch.setattr(openmp, "find_openmp", lambda: None)
    with pytest.raises(CompileError, match=r"need an OpenMP runtime, .* pip install"):
        compile_program(summed(), Candidate(None, tail(2)))
    assert openmp.usable_threads(2) == 1


@needs_runtime
def test_parallel_code_calls_its_runtime_by_names_that_no_other_runtime_has():
    # GCC's runtime, which PyTorch loads, exports `omp_get_thread_num` too: threads of another are all number 0 there.
    code = compile_to("code", summed(), Candidate(None, tail(2))).code
    called = set(re.findall(rb"\0(\w*(?:omp|kmp)_?[a-z]\w*)", code)) - {b"f..omp_par"}
    assert b"__kmpc_bound_thread_num" in called
    assert {name for name in called if not name.startswith(b"__kmpc_")} == set()


@needs_runtime
@pytest.mark.parametrize(
    "spec",
    ["matmul,m=150,n=200,k=90", "matmul,m=1,n=3000,k=200", "batch_matmul,batch=6,m=40,n=33,k=50"],
)
def test_default_schedules_of_several_threads_are_right(spec, monkeypatch):
    monkeypatch.setattr("schedules.shares.FORK_CYCLES", 0)
    payload = load_payload(spec)
    candidate = default_candidate(partition(payload), this_machine(3))
    assert "tile_using_forall" in candidate.script
    inputs = payload.make_inputs(0)
    found = run(payload, inputs, candidate.script, candidate.pipeline, text=candidate.text, panels=candidate.panels)
    agrees(payload, found, payload.reference(**inputs))


@needs_runtime
def test_machine_code_of_a_function_is_shown_with_its_parallel_loops():
    stage = compile_to("code", summed(), Candidate(None, tail(2)))
    shown = [line.split()[1] for line in disassemble(stage.code, "f").splitlines() if line.endswith(">:")]
    assert sorted(shown) == ["<f..omp_par>:", "<f>:"]
