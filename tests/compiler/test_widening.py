"""Bytes that several ops read in a wider type are widened by each of them, and what is summed flat stays flat."""

import numpy as np
from tuning_support import agrees, loaded, run_tuned

from autotune.core.host.machine import this_machine
from autotune.worker.loading.reading import partition

ROWS = """func.func @f(%x: tensor<6x80xi8>) -> tensor<6x80xf32> {
  %zero = arith.constant 0.0 : f32
  %point = arith.constant 3.0 : f32
  %e = tensor.empty() : tensor<6x80xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
    iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x80xi8>) outs(%e : tensor<6x80xf32>) {
  ^bb0(%b: i8, %o: f32):
    %f = arith.sitofp %b : i8 to f32
    %r = arith.subf %f, %point : f32
    linalg.yield %r : f32
  } -> tensor<6x80xf32>
  %t = tensor.empty() : tensor<6xf32>
  %n = linalg.fill ins(%zero : f32) outs(%t : tensor<6xf32>) -> tensor<6xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>],
    iterator_types = ["parallel", "reduction"]} ins(%w : tensor<6x80xf32>) outs(%n : tensor<6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>,
    affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
    ins(%w, %s : tensor<6x80xf32>, tensor<6xf32>) outs(%e : tensor<6x80xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<6x80xf32>
  return %y : tensor<6x80xf32>
}"""

FLAT = """func.func @f(%x: tensor<40x14x14xi8>) -> tensor<40xi32> {
  %zero = arith.constant 0 : i32
  %c = tensor.collapse_shape %x [[0], [1, 2]] : tensor<40x14x14xi8> into tensor<40x196xi8>
  %e = tensor.empty() : tensor<40x196xi32>
  %w = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
    iterator_types = ["parallel", "parallel"]} ins(%c : tensor<40x196xi8>) outs(%e : tensor<40x196xi32>) {
  ^bb0(%b: i8, %o: i32):
    %r = arith.extsi %b : i8 to i32
    linalg.yield %r : i32
  } -> tensor<40x196xi32>
  %t = tensor.empty() : tensor<40xi32>
  %n = linalg.fill ins(%zero : i32) outs(%t : tensor<40xi32>) -> tensor<40xi32>
  %s = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>],
    iterator_types = ["parallel", "reduction"]} ins(%w : tensor<40x196xi32>) outs(%n : tensor<40xi32>) {
  ^bb0(%a: i32, %o: i32):
    %r = arith.addi %a, %o : i32
    linalg.yield %r : i32
  } -> tensor<40xi32>
  return %s : tensor<40xi32>
}"""


def test_each_reader_widens_bytes_for_itself(tmp_path):
    payload = loaded(tmp_path, ROWS)
    inputs = payload.make_inputs(0)
    (x,) = inputs.values()
    wide = x.astype(np.float32) - 3
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], [wide * wide.sum(axis=1, keepdims=True)])
    text = partition(payload).payload.text
    assert text.count("arith.sitofp") == 2
    assert text.count("linalg.generic") == 2


def test_bytes_of_a_plane_are_summed_as_one_row(tmp_path):
    payload = loaded(tmp_path, FLAT)
    inputs = payload.make_inputs(0)
    (x,) = inputs.values()
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], [x.astype(np.int32).sum(axis=(1, 2))])
    (task,) = partition(payload).tasks
    assert task.nest.sizes == (40, 196)
