"""Transformers with open sizes as ONNX files, at their own widths and with random weights; needs `onnx` alone."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model

WIDTH, HEADS, HIDDEN, TOKENS = 768, 12, 3072, 512  # of BERT-base and GPT-2 alike
LAYERS = 1  # of 12: layers are alike
WORDS = 1000  # of 30522 and 50257: a table costs a row for each token, however long it is
LOW = np.float32(np.finfo(np.float32).min)


@dataclass
class Builder:
    """A graph that is being written, with weights drawn at random."""

    nodes: list[Any] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:  # noqa: ANN401 - whatever ONNX has
        """Name of an op's only result."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:  # noqa: ANN401 - whatever NumPy takes
        """Name of a tensor."""
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape: int) -> str:
        """Name of a random tensor."""
        return self.constant((0.02 * self.rng.standard_normal(shape)).astype(np.float32))

    def linear(self, x: str, rows: int, columns: int) -> str:
        """A product with a weight, and a bias."""
        return self.op("Add", self.op("MatMul", x, self.weight(rows, columns)), self.weight(columns))

    def norm(self, x: str) -> str:
        """A layer norm of rows."""
        gain = self.constant(np.ones(WIDTH, np.float32))
        return self.op("LayerNormalization", x, gain, self.weight(WIDTH), axis=-1, epsilon=1e-5)

    def attend(self, x: str, bias: str) -> str:
        """Attention of all heads, with what is added to the scores; its last product included."""
        split, joined = self.constant([0, 0, HEADS, WIDTH // HEADS]), self.constant([0, 0, WIDTH])
        q, k, v = (
            self.op("Transpose", self.op("Reshape", self.linear(x, WIDTH, WIDTH), split), perm=order)
            for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scale = self.constant(np.float32((WIDTH // HEADS) ** -0.5))
        scores = self.op("Add", self.op("Mul", self.op("MatMul", q, k), scale), bias)
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        return self.linear(self.op("Reshape", self.op("Transpose", mixed, perm=[0, 2, 1, 3]), joined), WIDTH, WIDTH)

    def feed(self, x: str) -> str:
        """The two products behind attention."""
        return self.linear(self.op("Gelu", self.linear(x, WIDTH, HIDDEN)), HIDDEN, WIDTH)

    def embed(self) -> tuple[str, str]:
        """Rows of tokens at their positions, and how many tokens there are."""
        length = self.op("Slice", self.op("Shape", "ids"), self.constant([1]), self.constant([2]))
        positions = self.op("Slice", self.weight(TOKENS, WIDTH), self.constant([0]), length)
        return self.op("Add", self.op("Gather", self.weight(WORDS, WIDTH), "ids"), positions), length


def bert(builder: Builder) -> str:
    """Encoder whose mask hides tokens; norms stand behind what they normalise."""
    x, _ = builder.embed()
    shown = builder.op("Cast", "mask", to=TensorProto.FLOAT)
    hidden = builder.op("Mul", builder.op("Sub", builder.constant(np.float32(1)), shown), builder.constant(LOW))
    bias = builder.op("Unsqueeze", hidden, builder.constant([1, 2]))
    x = builder.norm(x)
    for _ in range(LAYERS):
        x = builder.norm(builder.op("Add", builder.attend(x, bias), x))
        x = builder.norm(builder.op("Add", builder.feed(x), x))
    return x


def gpt2(builder: Builder) -> str:
    """Causal decoder without its head; norms stand before what they feed."""
    x, length = builder.embed()
    square = builder.op("Concat", length, length, axis=0)
    lows = builder.op("ConstantOfShape", square, value=numpy_helper.from_array(np.array([LOW])))
    bias = builder.op("Trilu", lows, builder.constant(1), upper=1)
    for _ in range(LAYERS):
        x = builder.op("Add", builder.attend(builder.norm(x), bias), x)
        x = builder.op("Add", builder.feed(builder.norm(x)), x)
    return builder.norm(x)


MODELS = {"bert": (bert, ("ids", "mask")), "gpt2": (gpt2, ("ids",))}


def write(name: str, path: Path) -> None:
    """Write a model as an ONNX file whose batch and tokens are open."""
    make, inputs = MODELS[name]
    builder = Builder()
    result = make(builder)
    open_sizes = ["batch", "tokens"]
    graph = helper.make_graph(
        builder.nodes,
        name,
        [helper.make_tensor_value_info(each, TensorProto.INT64, open_sizes) for each in inputs],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, [*open_sizes, WIDTH])],
        builder.tensors,
    )
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
