"""Maxima and minima of rows that may hold NaN: looked for apart, where -0 and 0 are not told apart."""

import numpy as np
import pytest
from tuning_support import run_tuned

from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate

FIRST = {"maximumf": "0xFF800000", "minimumf": "0x7F800000"}
NUMPY = {"maximumf": np.max, "minimumf": np.min}


def rows(columns, kind, flags):
    """A payload that gives the largest, or least, element of each of 40 rows."""
    x, y = f"tensor<40x{columns}xf32>", "tensor<40xf32>"
    text = f"""func.func @f(%x: {x}) -> {y} {{
      %first = arith.constant {FIRST[kind]} : f32
      %e = tensor.empty() : {y}
      %start = linalg.fill ins(%first : f32) outs(%e : {y}) -> {y}
      %y = linalg.generic {{indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>],
        iterator_types = ["parallel", "reduction"]}} ins(%x : {x}) outs(%start : {y}) {{
      ^bb0(%a: f32, %b: f32):
        %m = arith.{kind} %a, %b {flags} : f32
        linalg.yield %m : f32
      }} -> {y}
      return %y : {y}
    }}"""
    return read_payload("rows.mlir", text)


@pytest.mark.parametrize("kind", FIRST)
@pytest.mark.parametrize("columns", [3, 16, 29, 42, 100, 257])
def test_rows_that_hold_nan_or_infinities_give_what_numpy_gives(columns, kind):
    payload = rows(columns, kind, "fastmath<nsz>")
    ((name, x),) = payload.make_inputs(0).items()
    x[range(0, 40, 3), np.arange(14) * 7 % columns] = np.nan
    x[1::6, -1], x[4::6, 0] = np.inf, -np.inf
    (found,), _ = run_tuned(payload, {name: x}, this_machine())
    np.testing.assert_array_equal(found, NUMPY[kind](x, 1))
    first = np.full_like(x, -np.inf if kind == "maximumf" else np.inf)
    (rest,), _ = run_tuned(payload, {name: first}, this_machine())
    np.testing.assert_array_equal(rest, first[:, 0])


@pytest.mark.parametrize(("flags", "apart"), [("fastmath<nsz>", True), ("fastmath<nnan,nsz>", False), ("", False)])
def test_nan_is_looked_for_apart_where_it_may_be_and_minus_zero_is_zero(flags, apart):
    payload = rows(64, "maximumf", flags)
    text = compile_to("arena", payload, default_candidate(partition(payload), this_machine())).text
    assert ("arith.cmpf uno" in text) == apart


def test_minus_zero_is_less_than_zero_where_they_are_told_apart():
    payload = rows(42, "maximumf", "")
    ((name, x),) = payload.make_inputs(0).items()
    x[...] = -0.0
    x[::2, 5] = 0.0
    (found,), _ = run_tuned(payload, {name: x}, this_machine())
    assert np.array_equal(np.signbit(found), np.arange(40) % 2 == 1)
