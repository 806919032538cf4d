"""A BERT with random weights as an ONNX file, the way exporters write it; for tests and tutorials, without PyTorch."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from payload.comparators.onnx_graph import IR_VERSION, OPSET, OnnxGraph

SPREAD = 0.02  # standard deviation of BERT's initial weights


@dataclass(frozen=True)
class BertSizes:
    """Sizes of a BERT.

    Attributes:
        tokens: Tokens of the one text, T.
        width: Width of the residual stream, C.
        layers: Number of blocks.
        heads: Attention heads, H; divides `width`.
        hidden: Width of the hidden layer of the feed-forward network, F.
        vocab: Size of the vocabulary, V.
    """

    tokens: int = 64
    width: int = 128
    layers: int = 2
    heads: int = 2
    hidden: int = 512
    vocab: int = 1000


def write_bert(path: Path, sizes: BertSizes | None = None, seed: int = 0) -> Path:
    """Write a BERT from token ids ``(1, T)`` to hidden states ``(1, T, C)``; return the path."""
    import onnx  # noqa: PLC0415 - comes with an extra
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    sizes = sizes or BertSizes()
    network = BertWriter(sizes, np.random.default_rng(seed))
    last = network.write()
    g, shape = network.g, [1, sizes.tokens, sizes.width]
    g.finish({last: "hidden"})
    graph = helper.make_graph(
        [helper.make_node(n.kind, n.inputs, n.outputs, **n.attributes) for n in g.nodes],
        "bert",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, sizes.tokens])],
        [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(array, name) for name, array in {**g.constants, **g.weights}.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION), path)
    return path


class BertWriter:
    """Writer of the operators of a BERT.

    Attributes:
        g: Graph so far.
    """

    def __init__(self, sizes: BertSizes, rng: np.random.Generator) -> None:
        self.g = OnnxGraph({})
        self._sizes = sizes
        self._rng = rng

    def write(self) -> str:
        """Add all operators; return the name of the last value."""
        sizes = self._sizes
        words = self.g.op("Gather", self.weight("words", sizes.vocab, sizes.width), "ids")  # 1 x T x C
        x = self.g.op("Add", words, self.weight("positions", sizes.tokens, sizes.width))
        x = self.norm(x, "embedded")
        for layer in range(sizes.layers):
            x = self.block(x, f"layer.{layer}")
        return x

    def block(self, x: str, name: str) -> str:
        """Add attention and two linear layers, each with a residual connection and a norm: ``(1, T, C)``."""
        g, sizes = self.g, self._sizes
        wide = sizes.width
        mixed = self.linear(self.attention(x, name), f"{name}.mix", wide, wide)
        x = self.norm(g.op("Add", mixed, x), f"{name}.attended")
        hidden = g.op("Gelu", self.linear(x, f"{name}.up", wide, sizes.hidden))  # 1 x T x F
        return self.norm(g.op("Add", self.linear(hidden, f"{name}.down", sizes.hidden, wide), x), f"{name}.done")

    def attention(self, x: str, name: str) -> str:
        """Add unmasked self-attention: ``(1, T, C)`` to ``(1, T, C)``."""
        g, sizes = self.g, self._sizes
        depth = sizes.width // sizes.heads
        shape = g.constant([1, sizes.tokens, sizes.heads, depth], "heads")
        q, k, v = (
            g.transpose(g.op("Reshape", self.linear(x, f"{name}.{part}", sizes.width, sizes.width), shape), order)
            for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))
        )
        scores = g.op("Mul", g.op("MatMul", q, k), g.constant(depth**-0.5, "scale"))  # 1 x H x T x T
        mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)  # 1 x H x T x D
        whole = g.constant([1, sizes.tokens, sizes.width], "whole")
        return g.op("Reshape", g.transpose(mixed, [0, 2, 1, 3]), whole)

    def linear(self, x: str, name: str, before: int, after: int) -> str:
        """Add a product with a weight ``(before, after)``, and a bias."""
        product = self.g.op("MatMul", x, self.weight(f"{name}.weight", before, after))
        return self.g.op("Add", product, self.weight(f"{name}.bias", after))

    def norm(self, x: str, name: str) -> str:
        """Add a layer norm of every token."""
        gain, bias = self.weight(f"{name}.gain", self._sizes.width), self.weight(f"{name}.bias", self._sizes.width)
        self.g.weights[gain] += 1
        return self.g.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=1e-12)

    def weight(self, name: str, *shape: int) -> str:
        """Add a weight with random values; return its name."""
        self.g.weights[name] = (SPREAD * self._rng.standard_normal(shape)).astype(np.float32)
        return name
