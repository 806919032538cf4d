"""Rows of products are summed by vectors: also short ones, in a batch, whose one tile holds all of a row."""

import re

import numpy as np
import pytest
from tuning_support import MACHINES, contraction_payload, run_tuned

from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.host.machine import this_machine
from autotune.registry import family_for
from autotune.tuning.candidates import default_candidate

ADDED_ONE_BY_ONE = re.compile(r"vector\.fma .* : vector<1xf32>")


def dots(batch, rows, columns):
    """A payload that multiplies each row of several matrices by a vector of its matrix, and sums."""
    x, v, y = (
        f"tensor<{sizes}xf32>" for sizes in (f"{batch}x{rows}x{columns}", f"{batch}x{columns}", f"{batch}x{rows}")
    )
    maps = ", ".join(f"affine_map<(b, m, k) -> ({places})>" for places in ("b, m, k", "b, k", "b, m"))
    text = f"""func.func @dots(%x: {x}, %v: {v}) -> {y} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {y}
      %z = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel", "reduction"]}}
        ins(%x, %v : {x}, {v}) outs(%z : {y}) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %b : f32
        %s = arith.addf %p, %o : f32
        linalg.yield %s : f32
      }} -> {y}
      return %r : {y}
    }}"""
    return read_payload("dots.mlir", text)


@pytest.mark.parametrize("columns", [16, 42, 64, 202, 1000])
def test_rows_of_a_batch_are_summed_by_vectors(columns):
    payload = dots(3, 5, columns)
    candidate = default_candidate(partition(payload), this_machine())
    assert not ADDED_ONE_BY_ONE.search(compile_to("bufferized", payload, candidate).text)
    inputs = payload.make_inputs(0)
    (given,), _ = run_tuned(payload, inputs, this_machine())
    x, v = (array.astype(np.float64) for array in inputs.values())
    np.testing.assert_allclose(given, np.einsum("bmk,bk->bm", x, v), rtol=1e-4, atol=1e-4)


def default_of(rows, columns, *, turned):
    """The default of a matrix times a vector, of one that is stored by rows, or by columns."""
    kind = "km" if turned else "mk"
    sides = {"a": kind} if turned else {"a": "mk", "b": "nk"}
    m, n = (rows, 1) if turned else (1, rows)
    payload = read_payload("product.mlir", contraction_payload(m, n, columns, **sides).text)
    (task,) = partition(payload).tasks
    family = family_for(task)
    return family.name, family.default(task, MACHINES["avx512"])


def test_a_matrix_from_beyond_l2_is_read_a_row_at_a_time_and_by_columns_as_many_as_sums_allow():
    name, near = default_of(256, 512, turned=False)
    assert (name, near["rows"]) == ("vectorize", 4), "of what stays in L2, four rows share the vector"
    _, far = default_of(2048, 512, turned=False)
    assert (far["rows"], far["vectors"]) == (1, 2)
    name, near = default_of(512, 64, turned=True)
    assert name == "sliding_window"
    _, far = default_of(2048, 512, turned=True)
    assert far["width"] == 256 >= near["width"]


def weighted_sums(x, w, y, sizes, *, counted=""):
    """A payload that sums products of x by w, and by the index of a loop, over all loops that y lacks."""
    loops = sorted(set(x + w))
    of_x, of_w, of_y = (f"tensor<{''.join(f'{sizes[loop]}x' for loop in each)}f32>" for each in (x, w, y))
    maps = ", ".join(f"affine_map<({', '.join(loops)}) -> ({', '.join(each)})>" for each in (x, w, y))
    iterators = ", ".join('"parallel"' if loop in y else '"reduction"' for loop in loops)
    by_index = f"""%i = linalg.index {loops.index(counted or x[0])} : index
        %j = arith.index_cast %i : index to i64
        %f = arith.sitofp %j : i64 to f32
        %c = arith.mulf %f, %b : f32"""
    text = f"""func.func @sums(%x: {of_x}, %w: {of_w}) -> {of_y} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {of_y}
      %z = linalg.fill ins(%zero : f32) outs(%e : {of_y}) -> {of_y}
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
        ins(%x, %w : {of_x}, {of_w}) outs(%z : {of_y}) {{
      ^bb0(%a: f32, %b: f32, %o: f32):
        {by_index if counted else ""}
        %p = arith.mulf {"%c" if counted else "%b"}, %a : f32
        %s = arith.addf %p, %o : f32
        linalg.yield %s : f32
      }} -> {of_y}
      return %r : {of_y}
    }}"""
    return read_payload("sums.mlir", text)


@pytest.mark.parametrize(
    ("x", "w", "y", "counted"),
    [
        ("bmk", "k", "b", ""),
        ("bmk", "k", "", ""),
        ("bmk", "mk", "b", "k"),
        ("bmk", "bm", "b", ""),
        ("mk", "bk", "b", "m"),
    ],
)
def test_a_factor_that_a_summed_loop_does_not_move_is_multiplied(x, w, y, counted):
    """LLVM aborted the process on the contraction that tiles of one step make of such a product."""
    sizes = {"b": 6, "m": 5, "k": 33}
    payload = weighted_sums(x, w, y, sizes, counted=counted)
    inputs = payload.make_inputs(0)
    (found,), _ = run_tuned(payload, inputs, this_machine())
    factors = [array.astype(np.float64) for array in inputs.values()]
    equation = f"{x},{w}{',' + counted if counted else ''}->{y}"
    wanted = np.einsum(equation, *factors, *([np.arange(sizes[counted])] if counted else []))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
