"""Maxima keep what their payload says of NaN and -0, and nothing is taken for granted that it does not say."""

import numpy as np
import pytest
from compile_support import schedule
from tuning_support import run, tensor_payload

from autotune.compiler.ir.module import context, parse
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument
from autotune.core.scripts.assembly import assemble, write_step
from autotune.registry import family_for

ROWS, COLUMNS = 5, 96


def row_maxima(*flags, kind="maximumf"):
    """The maxima of rows, of x and then of them and 1, each op with its flags."""
    first, second = flags
    body = f"""%low = arith.constant -1.0e30 : f32
    %empty = tensor.empty() : tensor<{ROWS}xf32>
    %start = linalg.fill ins(%low : f32) outs(%empty : tensor<{ROWS}xf32>) -> tensor<{ROWS}xf32>
    %highest = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
        iterator_types = ["parallel", "reduction"]}}
        ins(%x : tensor<{ROWS}x{COLUMNS}xf32>) outs(%start : tensor<{ROWS}xf32>) {{
    ^bb0(%e: f32, %acc: f32):
      %y = arith.{kind} %acc, %e {first} : f32
      linalg.yield %y : f32
    }} -> tensor<{ROWS}xf32>
    %result = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]}} ins(%highest : tensor<{ROWS}xf32>) outs(%empty : tensor<{ROWS}xf32>) {{
    ^bb0(%e: f32, %acc: f32):
      %one = arith.constant 1.0 : f32
      %y = arith.{kind} %one, %e {second} : f32
      linalg.yield %y : f32
    }} -> tensor<{ROWS}xf32>"""
    return tensor_payload("maxima", [Argument("x", "input", (ROWS, COLUMNS)), Argument("y", "output", (ROWS,))], body)


def script_of(payload):
    """The whole script, by default configs, and the module it applies to."""
    parts, machine = partition(payload), this_machine()
    steps = []
    for task in parts.tasks:
        family = family_for(task)
        steps.append(write_step(task, family, family.default(task, machine), machine))
    return assemble(steps), parts.payload.text


def scheduled(payload):
    script, text = script_of(payload)
    with context():
        module = parse(text, "payload")
        schedule(module, script)
        return str(module)


FLAGS = "fastmath<nnan,nsz>"


def test_reductions_of_vectors_keep_the_flags_of_all_maxima():
    lines = [line for line in scheduled(row_maxima(FLAGS, FLAGS)).splitlines() if "maximumf" in line]
    assert any("vector.reduction" in line for line in lines)
    assert all(FLAGS in line for line in lines)


@pytest.mark.parametrize("flags", [("", ""), ("", FLAGS), (FLAGS, ""), ("fastmath<nsz>", FLAGS)], ids=str)
def test_maxima_get_the_flags_that_all_of_them_have(flags):
    lines = [line for line in scheduled(row_maxima(*flags)).splitlines() if "vector.reduction" in line]
    assert lines
    assert not any("nnan" in line for line in lines)
    assert all(("nsz" in line) == all("nsz" in each for each in flags) for line in lines)


@pytest.mark.parametrize("kind", ["maximumf", "minimumf"])
def test_nan_reaches_the_result_where_no_flag_says_otherwise(kind):
    payload = row_maxima("", "", kind=kind)
    x = np.random.default_rng(0).uniform(-1, 1, (ROWS, COLUMNS)).astype("f4")
    x[1, 3] = x[2, 95] = np.nan
    script, text = script_of(payload)
    (found,) = run(payload, {"x": x}, script, TAIL, text=text)
    assert list(np.isnan(found)) == [False, True, True, False, False]
