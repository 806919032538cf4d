"""A folder as an importer writes it: a product with a weight and recorded results."""

import json

import numpy as np

from autotune.core.plugs.imported import DESCRIPTION, ORACLE, WEIGHTS
from autotune.worker.loading.importing import import_model

PRODUCT = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%zeros : tensor<4x16xf32>)
    -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}
"""


def import_product(around, name="product"):
    """Write the folder; gives its path."""
    from safetensors.numpy import save_file

    (around / "product.mlir").write_text(PRODUCT)
    import_model(str(around / "product.mlir"), around / name)
    rng = np.random.default_rng(0)
    weight = rng.uniform(-1, 1, (8, 16)).astype(np.float32)
    inputs = [rng.uniform(-1, 1, (4, 8)).astype(np.float32) for _ in range(2)]
    save_file({"w": weight}, around / name / WEIGHTS)
    recorded = {f"input/{seed}/x": x for seed, x in enumerate(inputs)}
    recorded |= {f"result/{seed}/0": x.astype(np.float64) @ weight for seed, x in enumerate(inputs)}
    np.savez(around / name / ORACLE, **recorded)
    describe(around / name, importer="onnx", arguments=[named("x"), named("w", "weight"), named("y", "output")])
    return around / name


def named(name, role="input", **more):
    """An argument as a description has it."""
    return {"name": name, "role": role, **more}


def describe(folder, **changes):
    """Change what a folder says of its model."""
    path = folder / DESCRIPTION
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
