"""Small models for quantisers: a network of convolutions, and blocks of transformers, quantised by ONNX Runtime."""

import logging
from itertools import product

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
SCHEMES = ("u8s8", "s8s8", "u8u8")  # types of activations and weights
WIDTH, HEADS, HIDDEN, TOKENS = 32, 2, 48, 6
node = helper.make_node


def build(path, nodes, held, given, results):
    """Write a model of real numbers."""
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in given.items()]
    outputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in results.items()]
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "model", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def random_weight(rng, *shape):
    """A weight whose products are about as large as what they multiply."""
    return (rng.standard_normal(shape) / np.sqrt(max(np.prod(shape[1:]), 1))).astype(np.float32)


def convolutions(path):
    """Convolutions with strides, dilations, groups and uneven borders, pools, a residual sum, and a classifier."""
    rng = np.random.default_rng(0)
    held = {"w0": random_weight(rng, 8, 3, 3, 3), "w1": random_weight(rng, 8, 8, 3, 3)}
    held |= {"w2": random_weight(rng, 8, 8, 1, 1), "w3": random_weight(rng, 8, 1, 3, 3)}
    held |= {"w4": random_weight(rng, 6, 8, 2, 3), "w5": random_weight(rng, 5, 6)}
    held |= {f"b{n}": random_weight(rng, count) for n, count in enumerate((8, 8, 8, 8, 6, 5))}
    held |= {"low": np.float32(0), "high": np.float32(1.5)}
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1] * 4, strides=[2, 2]),
        node("Relu", ["c0"], ["r0"]),
        node("MaxPool", ["r0"], ["p0"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        node("Conv", ["p0", "w1", "b1"], ["c1"], pads=[2] * 4, dilations=[2, 2]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2", "b2"], ["c2"]),
        node("Add", ["c2", "p0"], ["a0"]),
        node("Relu", ["a0"], ["r2"]),
        node("Conv", ["r2", "w3", "b3"], ["c3"], pads=[1] * 4, group=8),
        node("Clip", ["c3", "low", "high"], ["r3"]),
        node("Conv", ["r3", "w4", "b4"], ["c4"], pads=[0, 1, 1, 1]),
        node("GlobalAveragePool", ["c4"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w5", "b5"], ["y"], transB=1),
    ]
    return build(path, nodes, held, {"x": [1, 3, 20, 20]}, {"y": [1, 5]})


def transformer(path, causal=False):
    """A block of BERT's kind, or of GPT's."""
    rng = np.random.default_rng(1)
    held = {f"gain{n}": np.ones(WIDTH, np.float32) for n in range(2)}
    held |= {f"shift{n}": 0.1 * random_weight(rng, WIDTH) for n in range(2)}
    held |= {"apart": np.array([1, TOKENS, HEADS, -1]), "joined": np.array([1, TOKENS, WIDTH])}
    held["scale"] = np.float32(1 / np.sqrt(WIDTH // HEADS))
    held["mask"] = np.where(np.tri(TOKENS) > 0, 0, -1e3).astype(np.float32) if causal else np.zeros(1, np.float32)
    nodes = []

    def linear(x, into, inner, outer):
        held[f"w_{into}"], held[f"b_{into}"] = (
            random_weight(rng, outer, inner).T.copy(),
            0.1 * random_weight(rng, outer),
        )
        nodes.extend([node("MatMul", [x, f"w_{into}"], [f"m_{into}"]), node("Add", [f"m_{into}", f"b_{into}"], [into])])

    def norm(x, into, number):
        nodes.append(node("LayerNormalization", [x, f"gain{number}", f"shift{number}"], [into], axis=-1))

    x = "x"
    if causal:
        norm("x", "normed", 0)
        x = "normed"
    for part in "qkv":
        linear(x, part, WIDTH, WIDTH)
        nodes.append(node("Reshape", [part, "apart"], [f"{part}_apart"]))
        order = [0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]
        nodes.append(node("Transpose", [f"{part}_apart"], [f"{part}_heads"], perm=order))
    nodes += [
        node("MatMul", ["q_heads", "k_heads"], ["scores"]),
        node("Mul", ["scores", "scale"], ["scaled"]),
        node("Add", ["scaled", "mask"], ["masked"]),
        node("Softmax", ["masked"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v_heads"], ["mixed"]),
        node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        node("Reshape", ["turned", "joined"], ["flat"]),
    ]
    linear("flat", "projected", WIDTH, WIDTH)
    nodes.append(node("Add", ["projected", "x"], ["summed"]))
    norm("summed", "between", 1 if causal else 0)
    linear("between", "up", WIDTH, HIDDEN)
    nodes.append(node("Gelu", ["up"], ["bent"]))
    linear("bent", "down", HIDDEN, WIDTH)
    nodes.append(node("Add", ["down", "summed" if causal else "between"], ["y" if causal else "whole"]))
    if not causal:
        norm("whole", "y", 1)
    shape = [1, TOKENS, WIDTH]
    return build(path, nodes, held, {"x": shape}, {"y": shape})


def causal_transformer(path):
    """A block of GPT's kind."""
    return transformer(path, causal=True)


MODELS = {"convolutions": convolutions, "transformer": transformer, "causal_transformer": causal_transformer}
STATIC = [*product(MODELS, ("QDQ", "QOperator"), (False, True), SCHEMES)]
DYNAMIC = [*product(MODELS, ("QInt8", "QUInt8"))]


def quantise(plain, path, layout="QDQ", per_channel=True, scheme="u8s8"):
    """Quantise a model by four sets of random inputs."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    kinds = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}
    rng = np.random.default_rng(2)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in onnx.load(plain).graph.input}

    class Calibration(CalibrationDataReader):
        def __init__(self):
            self.left = [{n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()} for _ in range(4)]

        def get_next(self):
            return self.left.pop() if self.left else None

    logging.disable(logging.WARNING)
    quantize_static(
        plain,
        path,
        Calibration(),
        quant_format=QuantFormat[layout],
        per_channel=per_channel,
        activation_type=kinds[scheme[:2]],
        weight_type=kinds[scheme[2:]],
    )
    logging.disable(logging.NOTSET)
    return path


def quantise_in_calls(plain, path, kind):
    """Quantise the weights of a model alone; what they multiply is quantised in each call."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.disable(logging.WARNING)
    quantize_dynamic(plain, path, weight_type=QuantType[kind])
    logging.disable(logging.NOTSET)
    return path
