"""A part of a program: it runs one in so many iterations of its outermost long loops, whatever lowers it to loops."""

from dataclasses import replace

import numpy as np
import pytest
from tuning_support import contraction_payload, tensor, tensor_payload

from autotune.compiler.lowering.part import split_pipeline
from autotune.compiler.lowering.program import compile_program
from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.compiler.script.checks import passes_of
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError
from autotune.core.host.pages import aligned_empty
from autotune.core.payload import Argument
from autotune.registry import BASELINES, load_baseline, load_payload, registered
from autotune.worker.bench.evaluate import build_and_verify
from autotune.worker.bench.testbench import Testbench

PIPELINES = [load_baseline(name).pipeline for name in registered(BASELINES)] + [PLAIN]


def written_by(payload, pipeline, part):
    """Inputs of a payload, and its output after a call of a part; NaN where nothing was written."""
    arrays = [aligned_empty(argument, "huge") for argument in payload.arguments]
    values = payload.make_inputs(0)
    for argument, array in zip(payload.arguments, arrays, strict=True):
        array[...] = values.get(argument.name, np.nan)
    compile_program(payload, Candidate(None, pipeline, part=part), poisoned=True, level=0).bind(arrays).run()
    return arrays


@pytest.mark.parametrize("pipeline", PIPELINES, ids=[*registered(BASELINES), "plain"])
@pytest.mark.parametrize("part", [2, 8])
def test_part_computes_so_many_rows_and_no_others(pipeline, part):
    a, b, c = written_by(contraction_payload(32, 9, 11), pipeline, part)
    rows = 32 // part
    assert np.allclose(c[:rows], a[:rows] @ b, atol=1e-5)
    assert not np.isclose(c[rows:], (a @ b)[rows:], atol=1e-5).any()


def test_part_of_what_does_not_divide_is_the_nearest_number_of_rows():
    a, b, c = written_by(contraction_payload(30, 9, 11), PIPELINES[0], 8)  # 3.75 of 30
    assert np.allclose(c[:4], a[:4] @ b, atol=1e-5)
    assert not np.isclose(c[4:], (a @ b)[4:], atol=1e-5).any()


def test_loop_shorter_than_the_part_stays_and_those_inside_are_shortened():
    payload = load_payload("batch_matmul,batch=3,m=16,n=5,k=7")
    a, b, c = written_by(payload, PIPELINES[0], 8)
    assert np.allclose(c[:, :2], (a @ b)[:, :2], atol=1e-5)
    assert not np.isclose(c[:, 2:], (a @ b)[:, 2:], atol=1e-5).any()


def test_part_of_a_whole_model_is_a_program():
    written_by(
        load_payload("gpt,d_model=72,heads=3,d_ff=200,vocab=101,seq=17,layers=1"), load_baseline("passes").pipeline, 4
    )


@pytest.mark.parametrize(("rows", "part", "scale"), [(100, 64, 50.0), (30, 8, 7.5), (64, 64, 64.0), (96, 64, 48.0)])
def test_times_are_multiplied_by_the_share_that_was_run(rows, part, scale):
    """100 steps by 64 keep 2, which are one in 50."""
    program = compile_program(contraction_payload(rows, 90, 110), Candidate(None, PIPELINES[0], part=part))
    assert program.part.scale == pytest.approx(scale, rel=5e-3)


def test_nests_count_by_what_they_do():
    """Of 48 rows and of 64 two are run each: the one in 24, the other, of three times the work, in 32."""
    two = product_of_product(first=48)
    assert compile_program(two, Candidate(None, PIPELINES[0], part=32)).part.scale == pytest.approx(
        (24 + 3 * 32) / 4, rel=3e-2
    )


@pytest.mark.parametrize("pipeline", [PIPELINES[0], "builtin.module(canonicalize)"], ids=["short", "no-loops"])
def test_program_without_long_loops_has_no_part(pipeline):
    with pytest.raises(CompileError, match="loops of 64 steps"):
        compile_program(contraction_payload(9, 11, 5), Candidate(None, pipeline, part=64))


@pytest.mark.parametrize("pipeline", [*PIPELINES, TAIL])
def test_pipeline_is_split_into_its_passes(pipeline):
    passes = split_pipeline(pipeline)
    assert f"builtin.module({','.join(passes)})" == pipeline
    assert set().union(*(passes_of(f"builtin.module({each})") for each in passes)) == set(passes_of(pipeline))


def product_of_product(first):
    """Y = A (B C) of 64 columns, where B has so many rows."""
    b, c, a, y = (tensor(shape) for shape in ((first, 16), (16, 64), (64, first), (64, 64)))
    made = tensor((first, 64))
    return tensor_payload(
        "two",
        [
            Argument("b", "input", (first, 16)),
            Argument("c", "input", (16, 64)),
            Argument("a", "input", (64, first)),
            Argument("y", "output", (64, 64)),
        ],
        f"""%zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : {made}
    %z0 = linalg.fill ins(%zero : f32) outs(%e0 : {made}) -> {made}
    %bc = linalg.matmul ins(%b, %c : {b}, {c}) outs(%z0 : {made}) -> {made}
    %e1 = tensor.empty() : {y}
    %z1 = linalg.fill ins(%zero : f32) outs(%e1 : {y}) -> {y}
    %result = linalg.matmul ins(%a, %bc : {a}, {made}) outs(%z1 : {y}) -> {y}""",
    )


def each(body, reduced=False):
    """A function of every element of 64 rows, or the sum of it over them all."""
    kind, result = tensor((64, 8)), tensor(() if reduced else (64, 8))
    iterators = '"reduction", "reduction"' if reduced else '"parallel", "parallel"'
    return tensor_payload(
        "each",
        [Argument("x", "input", (64, 8)), Argument("y", "output", () if reduced else (64, 8))],
        f"""%zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : {result}
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : {result}) -> {result}
    %result = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>,
        affine_map<(i, j) -> ({"" if reduced else "i, j"})>], iterator_types = [{iterators}]}}
      ins(%x : {kind}) outs(%zeros : {result}) {{
    ^bb0(%a: f32, %b: f32):
      {body}
      linalg.yield %r : f32
    }} -> {result}""",
    )


RELU = "%n = arith.cmpf olt, %a, %zero : f32\n%r = arith.select %n, %zero, %a : f32"
PRODUCT = contraction_payload(64, 9, 11)
STATE = replace(PRODUCT, arguments=(*PRODUCT.arguments[:2], replace(PRODUCT.arguments[2], role="state")))
VERIFIED = {
    "a product": (PRODUCT, ""),
    "of what a part computes": (product_of_product(first=8), ""),
    "of what a part leaves out": (product_of_product(first=64), "follows from what a part leaves out"),
    "a sum over all": (each("%r = arith.addf %a, %b : f32", reduced=True), "adds to what it wrote before"),
    "what hides NaN": (each(RELU), "arith.cmpf gives a number"),
    "a state": (STATE, "keeps what was there before"),
}


@pytest.mark.parametrize("name", VERIFIED)
def test_part_is_verified_as_far_as_what_was_not_computed_shows(name):
    payload, why = VERIFIED[name]
    candidate = Candidate(None, PIPELINES[0], part=32)
    bound, found = build_and_verify(payload, candidate, Testbench(payload, 0))
    assert bound is not None
    assert found.outcome == "ok"
    assert why in found.diagnostic
    assert (found.diagnostic == "") == (why == "") == (found.max_error is not None)


@pytest.mark.parametrize("name", [name for name, (_, why) in VERIFIED.items() if not why])
def test_part_that_computes_something_else_is_wrong(name):
    payload, _ = VERIFIED[name]
    zero = "arith.constant 0.0 : f32"
    assert zero in payload.text
    other = Candidate(None, PIPELINES[0], text=payload.text.replace(zero, "arith.constant 0.5 : f32"), part=32)
    bound, found = build_and_verify(payload, other, Testbench(payload, 0))
    assert (bound, found.outcome) == (None, "wrong-result")
