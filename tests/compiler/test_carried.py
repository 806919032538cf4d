"""Tensors that loops carry through products: bufferized, right by NumPy, with schedules and without."""

import numpy as np
import pytest

from autotune.bundles.call import compile_payload
from autotune.worker.loading.reading import open_payload

T = "tensor<16x16xf32>"
M = "memref<16x16xf32>"
PRODUCT = f"""
%e = tensor.empty() : {T}
%f = linalg.fill ins(%zero : f32) outs(%e : {T}) -> {T}
%m = linalg.matmul ins(%a, %t : {T}, {T}) outs(%f : {T}) -> {T}"""


def loop(body, carried="%t = %x", kinds=T, result="%r"):
    """A payload that carries tensors through a loop of four iterations."""
    return f"""
func.func @power(%ma: {M}, %mx: {M}, %my: {M}) {{
  %a = bufferization.to_tensor %ma restrict : {M} to {T}
  %x = bufferization.to_tensor %mx restrict : {M} to {T}
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  {result} = scf.for %i = %c0 to %c4 step %c1 iter_args({carried}) -> ({kinds}) {{
    {body}
  }}
  bufferization.materialize_in_destination %r in restrict writable %my : ({T}, {M}) -> ()
  return
}}"""


NESTED = f"""
%n = scf.for %j = %c0 to %c2 step %c1 iter_args(%t = %s) -> ({T}) {{{PRODUCT}
  scf.yield %m : {T}
}}
scf.yield %n : {T}"""
SAME = "affine_map<(i, j) -> (i, j)>"
STEP = f"""{PRODUCT}
%d = linalg.generic {{indexing_maps = [{SAME}, {SAME}, {SAME}], iterator_types = ["parallel", "parallel"]}}
    ins(%m, %t : {T}, {T}) outs(%e : {T}) {{
^bb0(%p: f32, %q: f32, %o: f32):
  %s = arith.addf %p, %q : f32
  linalg.yield %s : f32
}} -> {T}
scf.yield %d : {T}"""
POWERS = {
    "added": (loop(STEP), lambda a, x: np.linalg.matrix_power(a + np.eye(16), 4) @ x),
    "product": (loop(f"{PRODUCT}\nscf.yield %m : {T}"), lambda a, x: np.linalg.matrix_power(a, 4) @ x),
    "nested": (loop(NESTED, "%s = %x"), lambda a, x: np.linalg.matrix_power(a, 8) @ x),
    "swapped": (
        loop(f"{PRODUCT}\nscf.yield %m, %t : {T}, {T}", "%t = %x, %u = %a", f"{T}, {T}", "%q, %r"),
        lambda a, x: np.linalg.matrix_power(a, 3) @ x,
    ),
    "changed in place": (
        loop(f"%m = linalg.max ins(%a, %t : {T}, {T}) outs(%t : {T}) -> {T}\nscf.yield %m : {T}"),
        np.maximum,
    ),
    "beside a pack": (
        loop(
            f"""%p = tensor.empty() : tensor<4x4x4x4xf32>
    %packed = linalg.pack %t inner_dims_pos = [0, 1] inner_tiles = [4, 4] into %p : {T} -> tensor<4x4x4x4xf32>
    %u = tensor.empty() : {T}
    %m = linalg.unpack %packed inner_dims_pos = [0, 1] inner_tiles = [4, 4] into %u : tensor<4x4x4x4xf32> -> {T}
    %n = linalg.add ins(%a, %m : {T}, {T}) outs(%u : {T}) -> {T}
    scf.yield %n : {T}"""
        ),
        lambda a, x: 4 * a + x,
    ),
    "kept": (loop(f"scf.yield %t : {T}"), lambda a, x: x),
}


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("name", POWERS)
def test_loop_that_carries_a_tensor_is_right(name, scheduled, tmp_path):
    text, reference = POWERS[name]
    path = tmp_path / "loop.mlir"
    path.write_text(text)
    rng = np.random.default_rng(0)
    a, x = (rng.uniform(-1, 1, (16, 16)).astype(np.float32) for _ in range(2))
    found = compile_payload(path, scheduled=scheduled)(a, x)
    expected = reference(a.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_loop_that_needs_no_copy_is_left_alone(tmp_path):
    path = tmp_path / "loop.mlir"
    added = f"%m = linalg.matmul ins(%a, %a : {T}, {T}) outs(%t : {T}) -> {T}\nscf.yield %m : {T}"
    path.write_text(loop(added))
    assert open_payload(path).text == path.read_text()


def test_what_one_branch_changes_and_the_other_gives_is_copied(tmp_path):
    path = tmp_path / "branch.mlir"
    path.write_text(f"""func.func @f(%a: {T}, %n: tensor<i32>) -> {T} {{
      %e = tensor.empty() : {T}
      %w = linalg.add ins(%a, %a : {T}, {T}) outs(%e : {T}) -> {T}
      %number = tensor.extract %n[] : tensor<i32>
      %zero = arith.constant 0 : i32
      %is_first = arith.cmpi eq, %number, %zero : i32
      %r = scf.if %is_first -> ({T}) {{
        %twice = linalg.add ins(%w, %w : {T}, {T}) outs(%w : {T}) -> {T}
        scf.yield %twice : {T}
      }} else {{
        scf.yield %w : {T}
      }}
      return %r : {T}
    }}""")
    a, found = np.ones((16, 16), np.float32), compile_payload(path)
    assert [found(a, np.int32(n)).max() for n in (0, 1)] == [4, 2]


def test_a_loop_of_one_turn_writes_to_no_argument(tmp_path):
    path = tmp_path / "once.mlir"
    path.write_text(loop(f"{PRODUCT}\nscf.yield %m : {T}").replace("constant 4 : index", "constant 1 : index"))
    a, x = np.random.default_rng(0).uniform(-1, 1, (2, 16, 16)).astype(np.float32)
    np.testing.assert_allclose(compile_payload(path)(a, x), a @ x, atol=1e-4)
