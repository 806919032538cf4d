"""A part of a program: it runs one in so many iterations of its outermost long loops, whatever lowers it to loops."""

import numpy as np
import pytest
from tuning_support import contraction_payload

from autotune.compiler.guard import passes_of
from autotune.compiler.lower import PLAIN, TAIL
from autotune.compiler.part import split_pipeline
from autotune.compiler.program import compile_program
from autotune.core.errors import CompileError
from autotune.core.pages import aligned_empty
from autotune.registry import BASELINES, load_baseline, load_payload, registered

PIPELINES = [load_baseline(name).pipeline for name in registered(BASELINES)] + [PLAIN]


def written_by(payload, pipeline, part):
    """Inputs of a payload, and its output after a call of a part; NaN where nothing was written."""
    arrays = [aligned_empty(argument, "huge") for argument in payload.arguments]
    values = payload.make_inputs(0)
    for argument, array in zip(payload.arguments, arrays, strict=True):
        array[...] = values.get(argument.name, np.nan)
    compile_program(payload, None, pipeline, part=part).bind(arrays).run()
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
    written_by(load_payload("nano"), load_baseline("passes").pipeline, 4)


@pytest.mark.parametrize("pipeline", [PIPELINES[0], "builtin.module(canonicalize)"], ids=["short", "no-loops"])
def test_program_without_long_loops_has_no_part(pipeline):
    with pytest.raises(CompileError, match="loops of 64 steps"):
        compile_program(contraction_payload(9, 11, 5), None, pipeline, part=64)


@pytest.mark.parametrize("pipeline", [*PIPELINES, TAIL])
def test_pipeline_is_split_into_its_passes(pipeline):
    passes = split_pipeline(pipeline)
    assert f"builtin.module({','.join(passes)})" == pipeline
    assert set().union(*(passes_of(f"builtin.module({each})") for each in passes)) == set(passes_of(pipeline))
