"""Contrib ops of ONNX Runtime, which models that it optimised hold, each by its definition in standard ops.

A definition writes the nodes that compute what a node does, and returns whether it did: it does not where the shape or
type of what the node reads is not known yet, or where it has no standard ops for what the node's attributes ask. It is
asked again when more shapes are known. Nodes that no definition writes are refused by their names.
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
    """``alpha * A B``, either transposed in its last two dimensions, or the first of the two moved to the front."""
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
    """One of the tensors of a `fused_matmul`, as MatMul reads it."""
    name, letter = node.input[side], "AB"[side]
    order = list(range(len(known.shapes[name])))
    if len(order) > 1 and of(node, f"transBatch{letter}", 0):
        order = [*order[1:-1], order[0], order[-1]]
    if len(order) > 1 and of(node, f"trans{letter}", 0):
        order[-2:] = order[:-3:-1]
    return name if order == sorted(order) else writer.add("Transpose", name, perm=order)


def gelu(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """``x (1 + erf(x / sqrt 2)) / 2``."""
    x = node.input[0]
    return x in known.kinds and by_erf(writer, x, known.kinds[x], node.output[0])


def bias_gelu(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """``gelu(a + b)``."""
    a, b = node.input
    if a not in known.kinds:
        return False
    return by_erf(writer, writer.add("Add", a, b), known.kinds[a], node.output[0])


def by_erf(writer: NodeWriter, x: str, kind: int, into: str) -> bool:
    """The exact Gelu of a tensor of a type."""
    half, one, root = (writer.number(value, kind) for value in (0.5, 1.0, np.sqrt(2.0)))
    bent = writer.add("Add", writer.add("Erf", writer.add("Div", x, root)), one)
    writer.add("Mul", writer.add("Mul", x, half), bent, into=into)
    return True


def fast_gelu(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """``x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2``, of a sum with a bias where there is one."""
    x = node.input[0]
    if x not in known.kinds:
        return False
    kind = known.kinds[x]
    if len(node.input) > 1 and node.input[1]:
        x = writer.add("Add", x, node.input[1])
    return by_tanh(writer, x, kind, node.output[0])


def by_tanh(writer: NodeWriter, x: str, kind: int, into: str) -> bool:
    """The approximate Gelu of a tensor of a type."""
    half, one, root, cubic = (writer.number(value, kind) for value in (0.5, 1.0, np.sqrt(2 / np.pi), 0.044715))
    cube = writer.add("Mul", writer.add("Mul", writer.add("Mul", x, x), x), cubic)
    bent = writer.add("Tanh", writer.add("Mul", writer.add("Add", x, cube), root))
    writer.add("Mul", writer.add("Mul", x, half), writer.add("Add", bent, one), into=into)
    return True


def quick_gelu(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """``x sigmoid(alpha x)``."""
    x = node.input[0]
    if x not in known.kinds:
        return False
    scaled = writer.add("Mul", x, writer.number(of(node, "alpha", 1.702), known.kinds[x]))
    writer.add("Mul", x, writer.add("Sigmoid", scaled), into=node.output[0])
    return True


def with_activation(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """FusedConv and FusedGemm: a Conv, and a sum with what follows, or a Gemm; then an activation."""
    op, names = node.op_type.removeprefix("Fused"), list(node.input)
    function = of(node, "activation", "")
    given = list(of(node, "activation_params", ()))
    parameters = dict(zip(PARAMETERS.get(function, ()), given, strict=False))
    parameters |= {a.name.removeprefix("activation_"): a.f for a in node.attribute if a.name in SCALARS}
    if function not in ("", *PARAMETERS) or names[0] not in known.kinds:
        return False
    kept = {a.name: of(node, a.name, None) for a in node.attribute if not a.name.startswith("activation")}
    added = names.pop(3) if op == "Conv" and len(names) > 3 else ""
    while names and not names[-1]:
        names.pop()
    found = writer.add(op, *names, **kept)
    found = writer.add("Add", found, added) if added else found
    if function == "Clip":
        low, high = (writer.number(parameters[name], known.kinds[names[0]]) for name in PARAMETERS["Clip"])
        found = writer.add("Min", writer.add("Max", found, low), high)
    elif function:
        found = writer.add(function, found, **parameters)
    writer.add("Identity", found, into=node.output[0])
    return True


def scaled_integers(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """MatMulIntegerToFloat: a product of integers, scaled, and a bias."""
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
    """An op that is as ONNX's own of the same name."""
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
