"""A folder as an importer writes it: a product with a weight and recorded results."""

import json

import numpy as np
import pytest

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


def one_node_model(op, x, weights, **attributes):
    """An ONNX model of one node of an input and weights, whose shapes are inferred."""
    onnx = pytest.importorskip("onnx")
    info = onnx.helper.make_tensor_value_info
    inputs = [info(name, onnx.TensorProto.FLOAT, array.shape) for name, array in {"x": x, **weights}.items()]
    node = onnx.helper.make_node(op, ["x", *weights], ["y"], **attributes)
    graph = onnx.helper.make_graph([node], "one", inputs, [info("y", onnx.TensorProto.FLOAT, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model)


def run_onnx(model, **arrays):
    """What ONNX Runtime gives: ONNX's reference refuses groups."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, arrays)[0]
