"""What a thread stored itself is not loaded again, unless another thread may have written there."""

import numpy as np
import pytest

from autotune.compiler.ir.module import context, parse
from autotune.contrib.gpu.device import VULKAN
from autotune.contrib.gpu.examine import KernelCall, arrays_of, draw, judge
from autotune.contrib.gpu.interpret import interpret
from autotune.contrib.gpu.kernel import KernelSource, make_kernel, outline, read_kernel
from autotune.contrib.gpu.tune import only_task
from autotune.worker.loading.reading import open_payload

LAUNCH = """
func.func @kernel(%x: memref<9xf32>, %y: memref<8xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%t, %ty, %tz) in (%sx = %c8, %sy = %c1, %sz = %c1) {{
    %next = arith.addi %t, %c1 : index
    memref.store %one, %x[%t] : memref<9xf32>
    gpu.barrier
    {body}
    memref.store %read, %y[%t] : memref<8xf32>
    gpu.terminator
  }}
  return
}}"""
OWN = "%read = memref.load %x[%t] : memref<9xf32>"
OTHERS = "%read = memref.load %x[%next] : memref<9xf32>"
WRITES_NEXT = "memref.store %two, %x[%next] : memref<9xf32>"


def made(body):
    with context():
        module = parse(LAUNCH.format(body=body), "kernel")
        outline(module)
        return read_kernel(module, VULKAN)


def loads(kernel):
    return sum("memref.load %arg0" in line for line in kernel.text.splitlines())


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (OWN, 0),
        (OTHERS, 1),
        (f"gpu.barrier\n{OWN}", 0),
        (f"{WRITES_NEXT}\ngpu.barrier\n{OWN}", 1),
        (f"{OWN.replace('%read', '%a')}\n%read = arith.addf %a, %one : f32", 0),
        (f"scf.for %n = %c0 to %c4 step %c1 {{\n{WRITES_NEXT}\n}}\n{OWN}", 1),
        (f"scf.for %n = %c0 to %c4 step %c1 {{\ngpu.barrier\n}}\n{OWN}", 0),
        (f"scf.for %n = %c0 to %c4 step %c1 {{\ngpu.barrier\n}}\n{WRITES_NEXT}\ngpu.barrier\n{OWN}", 1),
        (f"memref.store %two, %x[%t] : memref<9xf32>\n{OWN}", 0),
    ],
)
def test_a_store_is_known_until_another_thread_may_write_there(body, kept):
    assert loads(made(body)) == kept


def test_what_another_thread_wrote_is_read():
    kernel = made(f"{WRITES_NEXT}\ngpu.barrier\n{OWN}")
    run = interpret(kernel, [np.zeros(9, np.float32), np.zeros(8, np.float32)])
    assert run.race == ""
    np.testing.assert_array_equal(run.outputs[1], [1, *[2] * 7])


EPILOGUE = """
func.func @behind(%a: tensor<32x24xf32>, %b: tensor<24x48xf32>, %bias: tensor<48xf32>, %x: tensor<32x48xf32>)
    -> tensor<32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x48xf32>) -> tensor<32x48xf32>
  %p = linalg.matmul ins(%a, %b : tensor<32x24xf32>, tensor<24x48xf32>) outs(%f : tensor<32x48xf32>)
      -> tensor<32x48xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p, %bias, %x : tensor<32x48xf32>, tensor<48xf32>, tensor<32x48xf32>) outs(%e : tensor<32x48xf32>) {
  ^bb0(%v: f32, %w: f32, %u: f32, %o: f32):
    %s = arith.addf %v, %w : f32
    %h = math.tanh %s : f32
    %t = arith.addf %h, %u : f32
    linalg.yield %t : f32
  } -> tensor<32x48xf32>
  return %r : tensor<32x48xf32>
}
"""


def test_ops_behind_a_product_take_its_sums_from_registers(tmp_path):
    (tmp_path / "behind.mlir").write_text(EPILOGUE)
    payload = open_payload(tmp_path / "behind.mlir")
    text, task, family = only_task(payload)
    assert (family.name, len(task.ops)) == ("matmul", 2)
    config = family.default(task, VULKAN)
    kernel = make_kernel(KernelSource(text, family.build(task, config, VULKAN), VULKAN))
    assert kernel.workgroup_bytes == 4 * config["block_k"] * (config["block_m"] + config["block_n"])  # A and B alone
    before, expected = arrays_of(payload, draw(KernelCall(payload)))
    run = interpret(kernel, [before[number] for number in kernel.arguments])
    assert not run.race
    assert judge(payload, kernel, run, before, expected).outcome == "ok"
    stored = [line for line in kernel.text.splitlines() if ".store" in line and "memref<32x48xf32>" in line]
    assert len(stored) * 4 == config["thread_m"] * config["thread_n"]  # each element of the result once, in fours
