"""Rewrites of ONNX Runtime's contrib ops, found in models that it optimized, to standard ops.

A rewrite adds the nodes that replace a node, and returns whether it did: it does not if the shape or type of an input
is not known yet, or if the node's attributes have no equivalent in standard ops. It is tried again when more shapes are
known. Nodes that remain are rejected.
"""

from typing import TYPE_CHECKING

import numpy as np

from payload.importers.onnx_nodes import KnownTensors, NodeWriter, Rewrite, of
from payload.importers.onnx_qlinear import QUANTISED
from payload.importers.onnx_transformers import (
    attention,
    embed_norm,
    multi_head_attention,
    rotary,
    simple_norm,
    skip_norm,
)

if TYPE_CHECKING:
    from onnx import NodeProto

MICROSOFT = "com.microsoft"


def fused_matmul(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite FusedMatMul: ``alpha * A B``, with transposed operands or batch dimensions."""
    if any(name not in known.shapes or name not in known.kinds for name in node.input):
        return False
    sides = [transposed(writer, node, known, side) for side in (0, 1)]
    scale = of(node, "alpha", 1.0)
    if scale == 1.0:
        writer.add("MatMul", *sides, into=node.output[0])
        return True
    scaled = writer.number(scale, known.kinds[node.input[0]])
    writer.add("Mul", writer.add("MatMul", *sides), scaled, into=node.output[0])
    return True


def transposed(writer: NodeWriter, node: "NodeProto", known: KnownTensors, side: int) -> str:
    """Return an operand of a `fused_matmul` in the layout of MatMul."""
    name, letter = node.input[side], "AB"[side]
    order = list(range(len(known.shapes[name])))
    if len(order) > 1 and of(node, f"transBatch{letter}", 0):
        order = [*order[1:-1], order[0], order[-1]]
    if len(order) > 1 and of(node, f"trans{letter}", 0):
        order[-2:] = order[:-3:-1]
    return name if order == sorted(order) else writer.add("Transpose", name, perm=order)


def gelu(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite Gelu: ``x (1 + erf(x / sqrt 2)) / 2``."""
    x = node.input[0]
    return x in known.kinds and by_erf(writer, x, known.kinds[x], node.output[0])


def bias_gelu(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite BiasGelu: ``gelu(a + b)``."""
    a, b = node.input
    if a not in known.kinds:
        return False
    return by_erf(writer, writer.add("Add", a, b), known.kinds[a], node.output[0])


def by_erf(writer: NodeWriter, x: str, kind: int, into: str) -> bool:
    """Add the exact GELU of a tensor of the given type."""
    half, one, root = (writer.number(value, kind) for value in (0.5, 1.0, np.sqrt(2.0)))
    bent = writer.add("Add", writer.add("Erf", writer.add("Div", x, root)), one)
    writer.add("Mul", writer.add("Mul", x, half), bent, into=into)
    return True


def fast_gelu(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite FastGelu: ``x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2``, after an optional bias."""
    x = node.input[0]
    if x not in known.kinds:
        return False
    kind = known.kinds[x]
    if len(node.input) > 1 and node.input[1]:
        x = writer.add("Add", x, node.input[1])
    return by_tanh(writer, x, kind, node.output[0])


def by_tanh(writer: NodeWriter, x: str, kind: int, into: str) -> bool:
    """Add the tanh approximation of GELU of a tensor of the given type."""
    half, one, root, cubic = (writer.number(value, kind) for value in (0.5, 1.0, np.sqrt(2 / np.pi), 0.044715))
    cube = writer.add("Mul", writer.add("Mul", writer.add("Mul", x, x), x), cubic)
    bent = writer.add("Tanh", writer.add("Mul", writer.add("Add", x, cube), root))
    writer.add("Mul", writer.add("Mul", x, half), writer.add("Add", bent, one), into=into)
    return True


def quick_gelu(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite QuickGelu: ``x sigmoid(alpha x)``."""
    x = node.input[0]
    if x not in known.kinds:
        return False
    scaled = writer.add("Mul", x, writer.number(of(node, "alpha", 1.702), known.kinds[x]))
    writer.add("Mul", x, writer.add("Sigmoid", scaled), into=node.output[0])
    return True


def with_activation(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite FusedConv and FusedGemm: a Conv with an optional addend, or a Gemm; then an activation."""
    op, names = node.op_type.removeprefix("Fused"), list(node.input)
    function = of(node, "activation", "")
    values = list(of(node, "activation_params", ()))
    parameters = dict(zip(PARAMETERS.get(function, ()), values, strict=False))
    parameters |= {a.name.removeprefix("activation_"): a.f for a in node.attribute if a.name in SCALARS}
    if function not in ("", *PARAMETERS) or names[0] not in known.kinds:
        return False
    attributes = {a.name: of(node, a.name, None) for a in node.attribute if not a.name.startswith("activation")}
    added = names.pop(3) if op == "Conv" and len(names) > 3 else ""
    while names and not names[-1]:
        names.pop()
    y = writer.add(op, *names, **attributes)
    y = writer.add("Add", y, added) if added else y
    if function == "Clip":
        low, high = (writer.number(parameters[name], known.kinds[names[0]]) for name in PARAMETERS["Clip"])
        y = writer.add("Min", writer.add("Max", y, low), high)
    elif function:
        y = writer.add(function, y, **parameters)
    writer.add("Identity", y, into=node.output[0])
    return True


def scaled_integers(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite MatMulIntegerToFloat: an integer product, its scales, and a bias."""
    names = [*node.input, *[""] * (7 - len(node.input))]
    a, b, a_scale, b_scale, a_zero, b_zero, bias = names
    if a_scale not in known.kinds:
        return False
    integers = [a, b, a_zero, b_zero]
    while not integers[-1]:
        integers.pop()
    real = writer.add("Cast", writer.add("MatMulInteger", *integers), to=known.kinds[a_scale])
    scaled = writer.add("Mul", real, writer.add("Mul", a_scale, b_scale))
    scaled = writer.add("Add", scaled, bias) if bias else scaled
    writer.add("Identity", scaled, into=node.output[0])
    return True


def standard(writer: NodeWriter, node: "NodeProto", _: KnownTensors) -> bool:
    """Rewrite an op that equals the standard op of the same name."""
    from onnx import NodeProto  # noqa: PLC0415

    own = NodeProto()
    own.CopyFrom(node)
    own.domain = ""
    writer.nodes.append(own)
    return True


# Functions that may follow a fused op, and names of their parameters.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("low", "high"),
}
SCALARS = ("activation_alpha", "activation_beta")
# By domain and op. ONNX Runtime also has ops in ONNX's own domain that no version of the standard knows.
CONTRIB: dict[tuple[str, str], Rewrite] = {
    (MICROSOFT, "FusedMatMul"): fused_matmul,
    (MICROSOFT, "Gelu"): gelu,
    (MICROSOFT, "BiasGelu"): bias_gelu,
    (MICROSOFT, "FastGelu"): fast_gelu,
    (MICROSOFT, "QuickGelu"): quick_gelu,
    (MICROSOFT, "FusedConv"): with_activation,
    (MICROSOFT, "FusedGemm"): with_activation,
    (MICROSOFT, "MatMulIntegerToFloat"): scaled_integers,
    (MICROSOFT, "QuantizeLinear"): standard,
    (MICROSOFT, "DequantizeLinear"): standard,
    (MICROSOFT, "SkipLayerNormalization"): skip_norm,
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): skip_norm,
    (MICROSOFT, "EmbedLayerNormalization"): embed_norm,
    (MICROSOFT, "Attention"): attention,
    (MICROSOFT, "MultiHeadAttention"): multi_head_attention,
    (MICROSOFT, "RotaryEmbedding"): rotary,
    **{(MICROSOFT, op): rewrite for op, rewrite in QUANTISED.items()},
    ("", "SimplifiedLayerNormalization"): simple_norm,
    ("", "SkipLayerNormalization"): skip_norm,
}
