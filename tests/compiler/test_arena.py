"""The arena: a call allocates nothing, results stay the same, and no other memory is touched."""

import re

import numpy as np
import pytest
from arena_support import KIND, SWAPPED, alloc, copy, fill_and_use, function, plan
from compile_support import schedule
from mlir.execution_engine import ExecutionEngine
from tuning_support import default_steps, run

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.pipeline import run_pipeline
from autotune.compiler.lowering.program import compile_program
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.passes.arena import NAME, plan_arena
from autotune.compiler.passes.pipelines import ARENA_PASS, PLAIN, TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError
from autotune.core.host.machine import this_machine
from autotune.core.host.pages import aligned_empty
from autotune.core.payload import Argument, Payload
from autotune.core.scripts.assembly import assemble
from autotune.registry import load_payload
from schedules.baseline import LOOPS, PASSES

ALLOCATING = TAIL.replace(f"{ARENA_PASS},", "")
MODELS = ("nano", "gpt,d_model=72,heads=3,d_ff=200,vocab=101,seq=17")
KERNELS = ("softmax,rows=13,cols=37", "layer_norm,rows=13,cols=37", "attention,heads=3,seq=17,d=12")
CALL = f"func.call @g(%in) : ({KIND}) -> ()"


# The arena in the IR.


def test_the_arena_is_an_uninitialised_global_of_whole_cache_lines():
    _, text = plan(fill_and_use("a"))
    (line,) = re.findall(r"memref.global .*", text)
    assert line == f'memref.global "private" @{NAME} : memref<64xi8> = uninitialized {{alignment = 64 : i64}}'


def test_a_module_without_buffers_gets_no_arena():
    found, text = plan(copy("%in", "%out"))
    assert not found.buffers
    assert NAME not in text


def test_a_name_that_is_taken_is_left_alone():
    _, text = plan(fill_and_use("a"), before=f'memref.global "private" @{NAME} : memref<4xi8> = uninitialized')
    assert len(set(re.findall(r'memref.global "private" (@\w+)', text))) == 2


def test_a_function_and_one_it_calls_have_parts_of_their_own():
    callee = f"func.func @g(%in: {KIND}) {{\n{alloc('a')}\n{copy('%in', '%a')}\nreturn\n}}"
    found, text = plan(alloc("a"), copy("%in", "%a"), CALL, copy("%a", "%out"), before=callee)
    assert len(set(found.offsets)) == 2
    assert found.peak_bytes == 128
    assert text.count("memref.global ") == 1


def test_a_function_that_may_call_itself_keeps_its_allocations():
    back = f"func.call @f(%in, %in, %yes, %one) : ({KIND}, {KIND}, i1, index) -> ()"
    constants = "%yes = arith.constant true\n%one = arith.constant 1 : index"
    callee = f"func.func @g(%in: {KIND}) {{\n{constants}\n{back}\nreturn\n}}"
    found, text = plan(fill_and_use("a"), CALL, before=callee)
    assert (len(found.buffers), found.others) == (0, 1)
    assert text.count("memref.alloc()") == 1


def test_only_a_pipeline_that_names_it_plans_an_arena():
    assert TAIL.startswith(f"builtin.module({ARENA_PASS},")
    assert not any(ARENA_PASS in pipeline for pipeline in (PLAIN, LOOPS.pipeline, PASSES.pipeline))
    for pipeline, expected in ((TAIL, False), (ALLOCATING, True)):
        with context():
            module = parse(function(fill_and_use("a")), "test")
            assert (run_pipeline(Unit(module), pipeline) is None) == expected
            assert ("@malloc" in str(module)) == expected


def test_what_stays_allocated_is_freed():
    dynamic = ("%d = memref.alloc(%n) : memref<?xf32>", "%l = memref.load %d[%c0] : memref<?xf32>")
    with context():
        module = parse(function(fill_and_use("a"), *dynamic, f"memref.store %l, %out[%c0] : {KIND}"), "test")
        found = run_pipeline(Unit(module), TAIL)
        lowered = str(module)
    assert (len(found.buffers), found.others) == (1, 1)
    assert lowered.count("llvm.call @malloc") == lowered.count("llvm.call @free") == 1


# What is computed.


def test_buffers_swapped_by_a_loop_give_the_right_result():
    text = function(SWAPPED).replace(", %flag: i1, %n: index", "")
    payload = Payload("swapped", text, "f", (Argument("in", "input", (16,)), Argument("out", "output", (16,))))
    x = np.arange(16, dtype=np.float32)
    (got,) = run(payload, {"in": x}, assemble([]), TAIL)
    a, b = x, x
    for _ in range(5):
        a, b = b, a + b
    np.testing.assert_array_equal(got, a + b)


def scheduled(spec):
    """A payload, its tagged text, and the script of every task's default config, weights left as they are."""
    payload = load_payload(spec)
    parts = partition(payload)
    steps = [step for step in default_steps(parts, this_machine()) if not step.rewrites.panel]
    return payload, parts.payload.text, assemble(steps)


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return scheduled(request.param)


def test_a_model_allocates_nothing(model):
    _, text, script = model
    with context():
        module = parse(text, "model")
        schedule(module, script)
        found = run_pipeline(Unit(module), TAIL)
        lowered = str(module)
    assert found.others == 0
    assert not re.findall(r"@(malloc|aligned_alloc|free)\b", lowered)
    assert found.peak_bytes < found.naive_bytes / 2


def test_a_model_gives_the_same_without_an_arena_and_call_after_call(model):
    payload, text, script = model
    first, second = payload.make_inputs(0), payload.make_inputs(1)
    (wanted,) = run(payload, first, script, ALLOCATING, text=text)
    arrays = [aligned_empty(argument, "huge") for argument in payload.arguments]
    bound = compile_program(payload, Candidate(script, TAIL, text=text)).bind(arrays)
    results = []
    for inputs in (first, second, first):
        for argument, array in zip(payload.arguments, arrays, strict=True):
            array[...] = inputs.get(argument.name, np.nan)
        bound.run(2)
        results.append(arrays[-1].copy())
    np.testing.assert_array_equal(results[0], wanted)
    np.testing.assert_array_equal(results[2], wanted)
    np.testing.assert_allclose(results[1], payload.reference(**second)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spec", KERNELS)
def test_a_kernel_gives_the_same_without_an_arena(spec):
    payload, text, script = scheduled(spec)
    inputs = payload.make_inputs(0)
    got, wanted = (run(payload, inputs, script, pipeline, text=text)[0] for pipeline in (TAIL, ALLOCATING))
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_allclose(got, payload.reference(**inputs)[0], rtol=1e-4, atol=1e-5)


def test_two_programs_have_an_arena_each():
    payload, text, script = scheduled(KERNELS[1])
    inputs = [payload.make_inputs(seed) for seed in (0, 1)]
    arrays = [[aligned_empty(argument, "huge") for argument in payload.arguments] for _ in inputs]
    programs = [compile_program(payload, Candidate(script, TAIL, text=text)).bind(mine) for mine in arrays]
    for values, mine in zip(inputs, arrays, strict=True):
        for argument, array in zip(payload.arguments, mine, strict=True):
            array[...] = values.get(argument.name, np.nan)
    for program in (*programs, *programs):
        program.run()
    for values, mine in zip(inputs, arrays, strict=True):
        np.testing.assert_allclose(mine[-1], payload.reference(**values)[0], rtol=1e-4, atol=1e-5)


def test_an_arena_of_hundreds_of_megabytes_compiles_and_takes_no_room_in_the_object(tmp_path):
    kind, part = f"memref<{75 << 20}xf32>", "memref<16xf32, strided<[1], offset: ?>>"
    last = f"%v = memref.subview %a[%n] [16] [1] : {kind} to {part}"
    use = (f"linalg.copy ins(%in : {KIND}) outs(%v : {part})", copy("%v", "%out", part))
    with context():
        module = parse(function(f"%a = memref.alloc() : {kind}", last, *use), "large")
        found = run_pipeline(Unit(module), TAIL)
        engine = ExecutionEngine(module, opt_level=0)
        assert engine.raw_lookup("_mlir_ciface_f")
        engine.dump_to_object_file(str(tmp_path / "large.o"))
    assert found.peak_bytes == 300 << 20
    assert (tmp_path / "large.o").stat().st_size < 100_000


def test_an_arena_that_memory_cannot_hold_is_refused():
    kind = f"memref<{1 << 40}xf32>"
    last = f"%v = memref.subview %a[%n] [16] [1] : {kind} to memref<16xf32, strided<[1], offset: ?>>"
    copied = copy("%v", "%out", "memref<16xf32, strided<[1], offset: ?>>")
    with context():
        module = parse(function(f"%a = memref.alloc() : {kind}", last, copied), "large")
        with pytest.raises(CompileError, match=r"must fit the memory of this machine, .* they take 4.1e\+03 GiB"):
            run_pipeline(Unit(module), TAIL)


def test_planning_again_changes_nothing():
    with context():
        module = parse(function(SWAPPED), "test")
        plan_arena(module)
        before = str(module)
        assert not plan_arena(module).buffers
        assert str(module) == before
