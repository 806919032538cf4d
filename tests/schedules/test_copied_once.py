"""Results are written where they lie, and a B that is copied in a call is copied once for all pieces of rows."""

import re

import pytest
from tuning_support import agrees, call, contraction_payload, run

from autotune.compiler.ir.module import context
from autotune.compiler.lowering.program import compile_program
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import apply_schedule
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.scripts.assembly import write_step
from autotune.registry import family_for
from autotune.tuning.candidates import candidate_whole
from autotune.tuning.tunable import payload as payload_of

CONVOLUTION = """#window = affine_map<(d0, d1, d2, d3, d4) -> (d0 + d3, d1 + d4)>
#kernel = affine_map<(d0, d1, d2, d3, d4) -> (d3, d4, d2)>
#sums = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
func.func @f(%x: tensor<14x16xf32>, %w: tensor<3x3x35xf32>) -> tensor<12x14x35xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<12x14x35xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<12x14x35xf32>) -> tensor<12x14x35xf32>
  %r = linalg.generic {indexing_maps = [#window, #kernel, #sums],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<14x16xf32>, tensor<3x3x35xf32>) outs(%z : tensor<12x14x35xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<12x14x35xf32>
  return %r : tensor<12x14x35xf32>
}"""
RESHAPED = """func.func @f(%a: tensor<20x12xf32>, %b: tensor<12x35xf32>) -> tensor<4x5x35xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x5x35xf32>
  %flat = tensor.collapse_shape %e [[0, 1], [2]] : tensor<4x5x35xf32> into tensor<20x35xf32>
  %z = linalg.fill ins(%zero : f32) outs(%flat : tensor<20x35xf32>) -> tensor<20x35xf32>
  %r = linalg.matmul ins(%a, %b : tensor<20x12xf32>, tensor<12x35xf32>) outs(%z : tensor<20x35xf32>)
    -> tensor<20x35xf32>
  %x = tensor.expand_shape %r [[0, 1], [2]] output_shape [4, 5, 35] : tensor<20x35xf32> into tensor<4x5x35xf32>
  return %x : tensor<4x5x35xf32>
}"""


def candidate_of(payload, **knobs):
    """Default configs but for these knobs."""
    parts, machine, steps = partition(payload), this_machine(), []
    for task in parts.tasks:
        family = family_for(task, machine)
        config = {**family.default(task, machine), **knobs}
        assert family.space(task, machine).broken_constraint(config) is None, config
        steps.append(write_step(task, family, config, machine))
    return candidate_whole(steps, 1, parts.payload.text)


def scheduled(payload, candidate):
    """The text of a payload after its schedule."""
    with context():
        unit = Unit.open(payload, candidate)
        apply_schedule(unit)
        return str(unit.module)


def panels_copied(text):
    """How many buffers of panels there are, each of three dimensions."""
    return len(re.findall(r"memref\.alloc\(\).* : memref<\d+x\d+x\d+xf32>", text))


def check(payload, candidate, copies):
    text = scheduled(payload, candidate)
    assert not re.search(r"(linalg|memref)\.copy", text)
    assert panels_copied(text) == copies
    inputs = payload.make_inputs(0)
    plain = run(payload, inputs, None, PLAIN)
    agrees(payload, call(payload, compile_program(payload, candidate, level=0), inputs), plain)


@pytest.mark.parametrize("b", ["kn", "nk"])
def test_pieces_of_rows_read_the_same_panels_of_a_product(b):
    """70 rows are tiles of 6, and 4 more: without the panels of the others these would read B as it lies."""
    payload = contraction_payload(70, 131, 40, b=b)
    knobs = {"tile_n": 0, "tile_k": 0, "order": "mnk", "register_m": 6, "register_n": 1, "register_order": "nm"}
    check(payload, candidate_of(payload, **knobs, pack_b="panels", ends="peeled"), 1)


def test_pieces_of_rows_read_the_same_panels_of_attention_and_write_its_scores_where_they_lie():
    """Blocks of 25 rows are not whole register tiles, 100 columns are not whole vectors."""
    payload = payload_of("attention,heads=2,seq=100,d=64")
    tiles = {"register_m_1": 6, "register_m_2": 6, "register_n_1": 2, "register_n_2": 2}
    check(payload, candidate_of(payload, rows=25, **tiles, pack_b_1="panels", pack_b_2="panels"), 2)


def test_a_register_tile_of_positions_and_what_it_leaves_over_write_where_the_result_lies(tmp_path):
    path = tmp_path / "windows.mlir"
    path.write_text(CONVOLUTION)
    payload = payload_of(str(path))
    check(payload, candidate_of(payload), 0)


def test_a_result_whose_empty_tensor_is_reshaped_is_written_where_it_is_wanted(tmp_path):
    path = tmp_path / "reshaped.mlir"
    path.write_text(RESHAPED)
    payload = payload_of(str(path))
    check(payload, candidate_of(payload), 0)


def test_equal_copies_in_several_layers_stay_apart():
    """Merged in the whole function, empty tensors of other tasks became one, and the interpreter died."""
    payload = payload_of("gpt,d_model=128,heads=2,d_ff=256,vocab=31,seq=100,layers=2")
    text = scheduled(payload, candidate_of(payload))
    assert panels_copied(text) >= 2
