"""Quantised ONNX models, computed in whole numbers: products that are read dequantised and quantised again.

    QuantizeLinear(Relu(Conv(DequantizeLinear(x), DequantizeLinear(w), bias)))
        ->   a product of bytes, summed in 32 bits, times one factor in f32, rounded to even and held in range

All bytes are signed in what is written: an unsigned tensor is held with 128 less, and so is its zero point. Zero points
of weights and inputs are taken out of the sums by sums of columns, which are known. What is no product is computed as
its nodes say, in f32, between the same roundings.
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
    """Tell whether a graph quantises, or multiplies whole numbers."""
    return any(node.op_type in READ for node in graph.node)


def write_in_integers(model: "ModelProto", weights: dict[str, Array]) -> list[str]:
    """Compute what a model has quantised in whole numbers, in place; its shapes must be inferred.

    Args:
        model: Model in standard ops.
        weights: Arrays of the graph's inputs that are weights, by name; those that products read are added.

    Returns:
        The products that are left in real numbers though all that they read is quantised, by their origins.
    """
    return IntegerWriter.of_model(model, weights, WRITERS).write()
