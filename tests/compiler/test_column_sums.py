"""Sums down columns are vectors along the columns, in the family for windows, and right for odd sizes."""

from dataclasses import replace

import pytest
from tuning_support import agrees, loaded, run

from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.registry import family_for
from autotune.tuning.candidates import default_candidate

SUM = """func.func @f(%x: tensor<SHAPE> WEIGHT) -> tensor<WRITTEN> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<WRITTEN>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<WRITTEN>) -> tensor<WRITTEN>
  %r = linalg.generic {indexing_maps = [READ, WRITE], iterator_types = [LOOPS]}
    ins(%x : tensor<SHAPE>) outs(%z : tensor<WRITTEN>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<WRITTEN>
  return %r : tensor<WRITTEN>
}"""
ROW = """func.func @f(%x: tensor<21xf32>, %w: tensor<MATRIX> {autotune.role = "weight"}) -> tensor<37xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<37xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<37xf32>) -> tensor<37xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, k) -> (k)>, affine_map<(n, k) -> READ>,
                                        affine_map<(n, k) -> (n)>], iterator_types = ["parallel", "reduction"]}
    ins(%x, %w : tensor<21xf32>, tensor<MATRIX>) outs(%z : tensor<37xf32>) {
  ^bb0(%v: f32, %m: f32, %o: f32):
    %p = arith.mulf %v, %m : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<37xf32>
  return %r : tensor<37xf32>
}"""


def sums(shape, written, read, write, loops):
    text = SUM.replace("SHAPE", f"{shape}xf32").replace("WRITTEN", f"{written}xf32").replace("WEIGHT", "")
    text = text.replace("READ", f"affine_map<{read}>").replace("WRITE", f"affine_map<{write}>")
    return text.replace("LOOPS", ", ".join(f'"{kind}"' for kind in loops))


POOL = sums("5x6x37", "37", "(c, h, w) -> (h, w, c)", "(c, h, w) -> (c)", ["parallel", *["reduction"] * 2])
BATCH = sums("2x5x40", "2x40", "(n, c, h) -> (n, h, c)", "(n, c, h) -> (n, c)", [*["parallel"] * 2, "reduction"])
ROWS = sums("5x40", "5", "(n, c) -> (n, c)", "(n, c) -> (n)", ["parallel", "reduction"])
TRANSPOSED = ROW.replace("READ", "(n, k)").replace("MATRIX", "37x21xf32")
CASES = {
    "a pool with channels last": (POOL, "sliding_window"),
    "sums of a batch": (BATCH, "sliding_window"),
    "a row times a matrix": (ROW.replace("READ", "(k, n)").replace("MATRIX", "21x37xf32"), "sliding_window"),
    "sums along rows": (ROWS, "vectorize"),
    "a matrix times a column": (TRANSPOSED, "vectorize"),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_go_to_the_family_that_reads_what_lies_side_by_side(name, tmp_path):
    text, family = CASES[name]
    payload = loaded(tmp_path, text)
    parts = partition(payload)
    (task,) = parts.tasks
    assert family_for(task).name == family
    inputs = payload.make_inputs(0)
    candidate = default_candidate(parts, this_machine())
    ours = run(
        payload, inputs, candidate.script, candidate.pipeline, text=candidate.text, panels=dict(candidate.panels)
    )
    agrees(payload, ours, run(payload, inputs, None, PLAIN))


@pytest.mark.parametrize(("rows", "width"), [(2000, 256), (20, 128)])
def test_columns_that_are_read_once_from_beyond_l2_are_wide(rows, width, tmp_path):
    text = sums(f"{rows}x1000", "1000", "(c, h) -> (h, c)", "(c, h) -> (c)", ["parallel", "reduction"])
    (task,) = partition(loaded(tmp_path, text)).tasks
    machine = replace(this_machine(), vector_bits=512, vector_registers=32, l2_bytes=1 << 20)
    assert family_for(task).default(task, machine)["width"] == width
