"""Regions: neighbours share one, what one thread must do is done by one, and whoever cannot share keeps its own."""

import re

import pytest
from arena_support import lines

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.regions import share_regions
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.registry import load_payload
from autotune.tuning.candidates import default_candidate

KIND = "memref<64xf32>"
STORE = f"memref.store %zero, %a[%c0] : {KIND}"
HEAD = lines(
    f"func.func @f(%a: {KIND}, %b: {KIND}) {{",
    "%c0 = arith.constant 0 : index",
    "%c1 = arith.constant 1 : index",
    "%c64 = arith.constant 64 : index",
    "%zero = arith.constant 0.0 : f32",
)
STEPS = re.compile(
    r"omp\.parallel|omp\.wsloop nowait|omp\.wsloop|omp\.single|scf\.for|memref\.store %cst, %arg0\[%c0\]"
)


def parallel(*body, number=0):
    """A parallel loop as upstream's conversion writes it."""
    body = body or (f"memref.store %zero, %b[%i] : {KIND}",)
    return lines(
        f"%n{number} = llvm.mlir.constant(2 : i32) : i32",
        f"omp.parallel num_threads(%n{number} : i32) {{",
        "omp.wsloop {",
        "omp.loop_nest (%i) : index = (%c0) to (%c64) step (%c1) {",
        *body,
        "omp.yield",
        "}",
        "}",
        "omp.terminator",
        "}",
    )


def loop(*body, carried=False):
    """A loop of one thread."""
    if not carried:
        return lines("scf.for %k = %c0 to %c64 step %c1 {", *body, "}")
    head = "%r = scf.for %k = %c0 to %c64 step %c1 iter_args(%s = %zero) -> (f32) {"
    return lines(head, *body, "scf.yield %s : f32", "}")


def shared(*body):
    """The steps of a function after its regions were shared, in order."""
    with context():
        module = parse(lines(HEAD, *body, "return", "}"), "test")
        share_regions(module)
        assert module.operation.verify()
        return STEPS.findall(str(module))


def test_a_loop_alone_waits_once():
    assert shared(parallel()) == ["omp.parallel", "omp.wsloop nowait"]


def test_neighbours_share_a_region_with_a_barrier_between_them():
    add = "%d0 = arith.addi %c0, %c1 : index"
    assert shared(parallel(), add, parallel(f"memref.store %zero, %b[%d0] : {KIND}", number=1), parallel(number=2)) == [
        "omp.parallel",
        "omp.wsloop",
        "omp.wsloop",
        "omp.wsloop nowait",
    ]


def test_what_writes_between_two_loops_is_done_by_one_thread():
    load = f"%x = memref.load %b[%c0] : {KIND}"
    use = f"memref.store %x, %b[%c1] : {KIND}"
    found = shared(STORE, parallel(), load, STORE, use, parallel(number=1), STORE)
    store = "memref.store %cst, %arg0[%c0]"
    assert found == [store, "omp.parallel", "omp.wsloop", "omp.single", store, "omp.wsloop nowait", store]


@pytest.mark.parametrize("behind", [False, True])
def test_what_is_read_between_two_loops_and_needed_by_others_keeps_them_apart(behind):
    load = f"%x = memref.load %b[%c0] : {KIND}"
    use = f"memref.store %x, %b[%c1] : {KIND}"
    last = (parallel(number=1), use) if behind else (parallel(use, number=1),)
    assert shared(parallel(), load, *last) == ["omp.parallel", "omp.wsloop nowait"] * 2


def test_a_loop_around_a_region_goes_into_it_with_all_its_threads_and_every_barrier():
    found = shared(loop(STORE, parallel(), parallel(number=1), STORE))
    alone = ["omp.single", "memref.store %cst, %arg0[%c0]"]
    assert found == ["omp.parallel", "scf.for", *alone, "omp.wsloop", "omp.wsloop", *alone]


def test_a_loop_in_a_region_has_neighbours_there():
    assert shared(parallel(), loop(loop(parallel(number=1)).replace("%k", "%l")), parallel(number=2)) == [
        "omp.parallel",
        "omp.wsloop",
        "scf.for",
        "scf.for",
        "omp.wsloop",
        "omp.wsloop nowait",
    ]


def test_a_loop_that_carries_a_value_stays_around_its_region_and_is_left_to_no_single_thread():
    found = shared(parallel(), loop(parallel(number=1), carried=True), parallel(number=2))
    alone = ["omp.parallel", "omp.wsloop nowait"]
    assert found == [*alone, "scf.for", *alone, *alone]


def test_a_loop_whose_steps_need_what_one_thread_reads_stays_around_its_region():
    load = f"%x = memref.load %b[%c0] : {KIND}"
    found = shared(loop(load, parallel(f"memref.store %x, %b[%i] : {KIND}")))
    assert found == ["scf.for", "omp.parallel", "omp.wsloop nowait"]


def test_a_model_is_one_region(monkeypatch):
    monkeypatch.setattr("schedules.shares.FORK_CYCLES", 0)  # so that all that can be shared out is
    nano = load_payload("nano")
    found = compile_to("lowered", nano, default_candidate(partition(nano), this_machine(2))).text
    assert found.count("omp.parallel") == 1
    assert found.count("omp.wsloop") > 10
