"""Rewrite of quantized ONNX models (QDQ format) to integer arithmetic.

    QuantizeLinear(Relu(Conv(DequantizeLinear(x), DequantizeLinear(w), bias)))
        ->   an i8 product with i32 accumulation, times one f32 factor, rounded to even and saturated

All 8-bit tensors are i8 after the rewrite: an unsigned tensor and its zero point are shifted by -128. Zero points of
weights and inputs are corrected with column sums, which are constants. Ops other than products are computed as in the
model, in f32, between the same roundings.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from autotune.core.payload import Array
from payload.importers import onnx_integer_products as products
from payload.importers import onnx_integer_rows as rows
from payload.importers.onnx_integer_writer import IntegerWriter
from payload.importers.onnx_nodes import NodeWriter

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

READ = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger")
WRITERS: "Mapping[str, Callable[[IntegerWriter, NodeWriter, NodeProto], bool]]" = {
    "Conv": products.convolve,
    "ConvInteger": products.convolve_integers,
    "DequantizeLinear": IntegerWriter.dequantise,
    "DynamicQuantizeLinear": IntegerWriter.dynamic,
    "Gemm": products.gemm,
    "GlobalAveragePool": products.average,
    "LayerNormalization": rows.normalise,
    "MatMul": products.multiply,
    "MatMulInteger": products.multiply_integers,
    "MaxPool": IntegerWriter.pool,
    "QuantizeLinear": IntegerWriter.quantise,
    "Softmax": rows.softmax,
}


def is_quantised(graph: "GraphProto") -> bool:
    """Return whether a graph quantizes, or multiplies integers."""
    return any(node.op_type in READ for node in graph.node)


def write_in_integers(model: "ModelProto", weights: dict[str, Array]) -> list[str]:
    """Rewrite the quantized part of a model to integers, in place; its shapes must be inferred.

    Args:
        model: Model in standard ops.
        weights: Arrays of the graph's inputs that are weights, by name; rewritten weights are added.

    Returns:
        Origins of the products that stay in float although all their inputs are quantized.
    """
    return IntegerWriter.of_model(model, weights, WRITERS).write()
