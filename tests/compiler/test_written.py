"""Arguments that a function may write are no inputs: calls would write arrays of the caller."""

import numpy as np
import pytest
from tuning_support import loaded

from autotune.compiler.lowering.program import compile_program
from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.candidate import Candidate
from autotune.core.errors import PayloadError

M, V = "memref<8xf32>", "vector<8xf32>"
REAL, INDEX = "%one = arith.constant 1.0 : f32", "%c0 = arith.constant 0 : index"
STORE = "memref.store %one, %{0}[%c0] : {1}"
WIDE = "%v = vector.broadcast %one : f32 to vector<8xf32>"
MASK = "%all = arith.constant dense<true> : vector<8xi1>"
IDS = "%ids = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : vector<8xindex>"
HELPERS = f"""
func.func private @writes(%h: {M}) {{
  {REAL}
  {INDEX}
  {STORE.format("h", M)}
  return
}}
func.func private @passes(%h: {M}) {{
  call @writes(%h) : ({M}) -> ()
  return
}}
func.func private @reads(%h: {M}) {{
  {INDEX}
  %x = memref.load %h[%c0] : {M}
  return
}}"""
TENSOR = "%t = bufferization.to_tensor %a restrict : memref<8xf32> to tensor<8xf32>"
STRIDED = "memref<4xf32, strided<[1]>>"

WRITERS = {
    "memref.store": STORE.format("a", M),
    "affine.store": f"affine.store %one, %a[0] : {M}",
    "affine.vector_store": f"affine.vector_store %v, %a[0] : {M}, {V}",
    "vector.store": f"vector.store %v, %a[%c0] : {M}, {V}",
    "vector.maskedstore": f"vector.maskedstore %a[%c0], %all, %v : {M}, vector<8xi1>, {V}",
    "vector.compressstore": f"vector.compressstore %a[%c0], %all, %v : {M}, vector<8xi1>, {V}",
    "vector.scatter": f"vector.scatter %a[%c0] [%ids], %all, %v : {M}, vector<8xindex>, vector<8xi1>, {V}",
    "vector.transfer_write": f"vector.transfer_write %v, %a[%c0] : {V}, {M}",
    "memref.atomic_rmw": f"%old = memref.atomic_rmw addf %one, %a[%c0] : (f32, {M}) -> f32",
    "memref.generic_atomic_rmw": f"%old = memref.generic_atomic_rmw %a[%c0] : {M} {{\n^bb0(%x: f32):\n"
    "memref.atomic_yield %one : f32 }",
    "memref.copy": f"memref.copy %out, %a : {M} to {M}",
    "memref.dealloc": f"memref.dealloc %a : {M}",
    "linalg.fill": f"linalg.fill ins(%one : f32) outs(%a : {M})",
    "linalg.reduce": f"""%m = memref.alloc() : memref<8x2xf32>
      linalg.reduce ins(%m, %m : memref<8x2xf32>, memref<8x2xf32>) outs(%a, %out : {M}, {M}) dimensions = [1]
        (%p: f32, %q: f32, %r: f32, %s: f32) {{ linalg.yield %p, %q : f32, f32 }}""",
    "linalg.generic": f"""linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      outs(%a : {M}) {{\n^bb0(%x: f32):\n linalg.yield %one : f32 }}""",
    "bufferization.to_tensor": TENSOR.replace("restrict", "restrict writable"),
    "bufferization.materialize_in_destination": f"""%e = tensor.empty() : tensor<8xf32>
      bufferization.materialize_in_destination %e in restrict writable %a : (tensor<8xf32>, {M}) -> ()""",
    "func.call": f"func.call @passes(%a) : ({M}) -> ()",
    "memref.cast": f"%w = memref.cast %a : {M} to memref<?xf32>\n{STORE.format('w', 'memref<?xf32>')}",
    "memref.subview": f"%w = memref.subview %a[0] [4] [1] : {M} to {STRIDED}\n{STORE.format('w', STRIDED)}",
    "memref.reinterpret_cast": "%w = memref.reinterpret_cast %a to offset: [0], sizes: [4], strides: [1] : "
    f"{M} to {STRIDED}\n{STORE.format('w', STRIDED)}",
    "memref.expand_shape": f"%w = memref.expand_shape %a [[0, 1]] output_shape [2, 4] : {M} into memref<2x4xf32>\n"
    "memref.store %one, %w[%c0, %c0] : memref<2x4xf32>",
    "arith.select": f"%no = arith.constant false\n%w = arith.select %no, %a, %out : {M}\n{STORE.format('w', M)}",
}
READERS = {
    "memref.load": f"%x = memref.load %a[%c0] : {M}",
    "affine.load": f"%x = affine.load %a[0] : {M}",
    "vector.load": f"%x = vector.load %a[%c0] : {M}, {V}",
    "vector.transfer_read": f"%x = vector.transfer_read %a[%c0], %one : {M}, {V}",
    "memref.copy": f"memref.copy %a, %out : {M} to {M}",
    "memref.subview": f"%w = memref.subview %a[0] [4] [1] : {M} to {STRIDED}\n%x = memref.load %w[%c0] : {STRIDED}",
    "linalg.copy": f"linalg.copy ins(%a : {M}) outs(%out : {M})",
    "bufferization.to_tensor": TENSOR,
    "func.call": f"func.call @reads(%a) : ({M}) -> ()",
}
KEEPS = {  # tensors of an input that are changed: each must be a copy
    "insert": "%r = tensor.insert %one into %t[%c0] : tensor<8xf32>",
    "insert_slice": """%e = tensor.splat %one : tensor<4xf32>
      %r = tensor.insert_slice %e into %t[0] [4] [1] : tensor<4xf32> into tensor<8xf32>""",
    "loop": """%c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%x = %t) -> tensor<8xf32> {
        %n = tensor.insert %one into %x[%i] : tensor<8xf32>
        scf.yield %n : tensor<8xf32> }""",
    "outs": "%r = linalg.fill ins(%one : f32) outs(%t : tensor<8xf32>) -> tensor<8xf32>",
    "to_buffer": f"%r = tensor.splat %one : tensor<8xf32>\n%w = bufferization.to_buffer %t : tensor<8xf32> to {M}\n"
    f"{STORE.format('w', M)}",
}


def function(body, role=None):
    said = f' {{autotune.role = "{role}"}}' if role else ""
    return f"""func.func @mine(%a: {M}{said}, %out: {M}) {{
      {REAL}\n{INDEX}\n{WIDE}\n{MASK}\n{IDS}
      {body}
      memref.store %one, %out[%c0] : {M}
      return }}{HELPERS}"""


def roles(folder, body, role=None):
    return [argument.role for argument in loaded(folder, function(body, role)).arguments]


@pytest.mark.parametrize("name", WRITERS)
def test_an_argument_that_is_written_is_an_output(name, tmp_path):
    assert roles(tmp_path, WRITERS[name]) == ["output", "output"]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("role", ["input", "weight"])
def test_what_is_declared_to_be_read_alone_must_not_be_written(name, role, tmp_path):
    with pytest.raises(PayloadError, match=rf"argument 0 of @mine .* must only be read, .* is {role}, .* may write it"):
        roles(tmp_path, WRITERS[name], role)


@pytest.mark.parametrize("name", READERS)
def test_an_argument_that_is_only_read_is_an_input_or_what_it_is_declared(name, tmp_path):
    assert roles(tmp_path, READERS[name]) == ["input", "output"]
    assert roles(tmp_path, READERS[name], "weight") == ["weight", "output"]


def test_a_buffer_that_is_read_only_must_not_be_written(tmp_path):
    body = f"{TENSOR}\n%w = bufferization.to_buffer %t read_only : tensor<8xf32> to {M}\n{STORE.format('w', M)}"
    with pytest.raises(PayloadError, match=r"that are read_only must not be written, memref.store may write one"):
        loaded(tmp_path, function(body))


@pytest.mark.parametrize("name", KEEPS)
def test_bufferization_copies_inputs_before_it_writes_them(name, tmp_path):
    put = f"bufferization.materialize_in_destination %r in restrict writable %out : (tensor<8xf32>, {M}) -> ()"
    payload = loaded(tmp_path, function(f"{TENSOR}\n{KEEPS[name]}\n{put}"))
    array, out = np.full(8, 5, np.float32), np.zeros(8, np.float32)
    compile_program(payload, Candidate(None, PLAIN)).bind([array, out]).run()
    assert (array == 5).all()
    assert out[0] == 1
