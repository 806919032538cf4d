"""Models of the corpus of quantised ONNX models: networks and single ops in the sizes that people have, random weights.

Each is written as it is before quantisation and as ONNX Runtime's quantiser makes it. Single ops of the corpus read and
give bytes, as they do within a network: what quantises around them is taken off.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
OPSET, IR = 21, 10
TOKENS, WIDTH, HEADS, HIDDEN = 128, 768, 12, 3072
BLOCK = 32  # elements of a weight that share a scale, where it is quantised by blocks


@dataclass
class Net:
    """A model that is being written; every method adds a layer to a tensor, and gives the tensor that it makes."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    nodes: list[Any] = field(default_factory=list)
    held: dict[str, Array] = field(default_factory=dict)

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        """A node of one result."""
        from onnx import helper

        y = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [y], **attributes))
        return y

    def hold(self, array: object) -> str:
        """A weight."""
        name = f"w{len(self.held)}"
        self.held[name] = np.asarray(array)
        return name

    def weight(self, *shape: int, inner: int) -> str:
        """A weight whose products are about as large as what they multiply."""
        return self.hold((self.rng.standard_normal(shape) * np.sqrt(2 / inner)).astype(np.float32))

    def conv(self, x: str, into: int, out: int, size: int = 3, **given: int) -> str:
        """A convolution with a bias, borders as large as half its window."""
        stride, groups = given.get("stride", 1), given.get("groups", 1)
        w = self.weight(out, into // groups, size, size, inner=into // groups * size * size)
        b = self.weight(out, inner=200)
        return self.add("Conv", x, w, b, pads=[size // 2] * 4, strides=[stride] * 2, group=groups)

    def linear(self, x: str, into: int, out: int) -> str:
        """A product with a weight, and a bias."""
        return self.add(
            "Add", self.add("MatMul", x, self.weight(into, out, inner=2 * into)), self.weight(out, inner=200)
        )

    def norm(self, x: str, width: int) -> str:
        """A LayerNormalization."""
        return self.add(
            "LayerNormalization", x, self.hold(np.ones(width, np.float32)), self.weight(width, inner=200), axis=-1
        )


Shape = tuple[int, ...]
Written = tuple[Net, dict[str, Shape]]  # and shapes of what it reads


def resnet18() -> Written:
    """He et al., Deep Residual Learning for Image Recognition, 2015; batch normalisation is folded."""
    net = Net()
    x = net.add("Relu", net.conv("x", 3, 64, 7, stride=2))
    x, width = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for out in (64, 128, 256, 512):
        for number in range(2):
            stride = 2 if number == 0 and out > width else 1
            y = net.conv(net.add("Relu", net.conv(x, width, out, stride=stride)), out, out)
            aside = net.conv(x, width, out, 1, stride=stride) if out != width else x
            x, width = net.add("Relu", net.add("Add", y, aside)), out
    flat = net.add("Flatten", net.add("GlobalAveragePool", x))
    net.add("Gemm", flat, net.weight(1000, 512, inner=1024), net.weight(1000, inner=200), transB=1)
    return net, {"x": (1, 3, 224, 224)}


def mobilenet_v2() -> Written:
    """Sandler et al., MobileNetV2, 2018; batch normalisation is folded."""
    net = Net()
    low, high = net.hold(np.float32(0)), net.hold(np.float32(6))
    x, width = net.add("Clip", net.conv("x", 3, 32, stride=2), low, high), 32
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for wider, out, count, first in rows:
        for number in range(count):
            stride, inner = (first if number == 0 else 1), width * wider
            y = net.add("Clip", net.conv(x, width, inner, 1), low, high) if wider > 1 else x
            y = net.add("Clip", net.conv(y, inner, inner, stride=stride, groups=inner), low, high)
            y = net.conv(y, inner, out, 1)
            x, width = net.add("Add", x, y) if stride == 1 and width == out else y, out
    x = net.add("Clip", net.conv(x, width, 1280, 1), low, high)
    flat = net.add("Flatten", net.add("GlobalAveragePool", x))
    net.add("Gemm", flat, net.weight(1000, 1280, inner=2560), net.weight(1000, inner=200), transB=1)
    return net, {"x": (1, 3, 224, 224)}


def vgg() -> Written:
    """Convolutions one after the other, pools between them, two layers at the end."""
    net, x, width = Net(), "x", 3
    for out in (32, 64, 128, 128):
        x, width = net.add("Relu", net.conv(x, width, out)), out
        x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Flatten", x)
    x = net.add("Relu", net.add("Gemm", x, net.weight(256, 2048, inner=2048), net.weight(256, inner=200), transB=1))
    net.add("Gemm", x, net.weight(10, 256, inner=512), net.weight(10, inner=200), transB=1)
    return net, {"x": (1, 3, 64, 64)}


def resnext_stage() -> Written:
    """A block of ResNeXt-50's kind, its middle convolution by 32 groups."""
    net = Net()
    y = net.add("Relu", net.conv("x", 256, 128, 1))
    y = net.add("Relu", net.conv(y, 128, 128, groups=32))
    net.add("Relu", net.add("Add", net.conv(y, 128, 256, 1), "x"))
    return net, {"x": (1, 256, 28, 28)}


def attention(net: Net, x: str, *, causal: bool) -> str:
    """Attention of several heads and its projection."""
    apart, joined = net.hold(np.array([1, TOKENS, HEADS, -1])), net.hold(np.array([1, TOKENS, WIDTH]))
    heads = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        heads.append(net.add("Transpose", net.add("Reshape", net.linear(x, WIDTH, WIDTH), apart), perm=order))
    scores = net.add("Mul", net.add("MatMul", heads[0], heads[1]), net.hold(np.float32(1 / np.sqrt(WIDTH // HEADS))))
    if causal:
        scores = net.add("Add", scores, net.hold(np.where(np.tri(TOKENS) > 0, 0, -1e3).astype(np.float32)))
    mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), heads[2])
    return net.linear(net.add("Reshape", net.add("Transpose", mixed, perm=[0, 2, 1, 3]), joined), WIDTH, WIDTH)


def bert_block() -> Written:
    """A block of BERT base."""
    net = Net()
    x = net.norm(net.add("Add", attention(net, "x", causal=False), "x"), WIDTH)
    bent = net.add("Gelu", net.linear(x, WIDTH, HIDDEN))
    net.norm(net.add("Add", net.linear(bent, HIDDEN, WIDTH), x), WIDTH)
    return net, {"x": (1, TOKENS, WIDTH)}


def gpt_block() -> Written:
    """A block of GPT-2."""
    net = Net()
    x = net.add("Add", attention(net, net.norm("x", WIDTH), causal=True), "x")
    bent = net.add("Gelu", net.linear(net.norm(x, WIDTH), WIDTH, HIDDEN))
    net.add("Add", net.linear(bent, HIDDEN, WIDTH), x)
    return net, {"x": (1, TOKENS, WIDTH)}


def mlp(rows: int) -> Written:
    """Three layers."""
    net, x = Net(), "x"
    for into, out in ((784, 1024), (1024, 1024)):
        x = net.add("Relu", net.add("Gemm", x, net.weight(into, out, inner=into), net.weight(out, inner=200)))
    net.add("Gemm", x, net.weight(1024, 10, inner=2048), net.weight(10, inner=200))
    return net, {"x": (rows, 784)}


def product(m: int, k: int, n: int) -> Written:
    """One product with a weight."""
    net = Net()
    net.add("MatMul", "x", net.weight(k, n, inner=2 * k))
    return net, {"x": (m, k)}


def convolution(channels: int, out: int, size: int, image: int, **given: int) -> Written:
    """One convolution."""
    net = Net()
    net.conv("x", channels, out, size, **given)
    return net, {"x": (1, channels, image, image)}


def two_activations() -> Written:
    """Scores of attention: a product of two activations."""
    net = Net()
    net.add("MatMul", "x", "y")
    return net, {"x": (HEADS, TOKENS, 64), "y": (HEADS, 64, TOKENS)}


def single(op: str, *shapes: Shape, **attributes: object) -> Callable[[], Written]:
    """One op of activations alone."""

    def write() -> Written:
        net, names = Net(), ("x", "y")[: len(shapes)]
        net.add(op, *names, **attributes)
        return net, dict(zip(names, shapes, strict=True))

    return write


def normalisation() -> Written:
    """One LayerNormalization."""
    net = Net()
    net.norm("x", WIDTH)
    return net, {"x": (1, TOKENS, WIDTH)}


@dataclass(frozen=True)
class Case:
    """A model and how it is quantised.

    Attributes:
        network: Writes it.
        layout: `QDQ` or `QOperator`, both static; `dynamic`; `blocks`, of a weight alone.
        kinds: Types of activations and weights; of a weight alone where it is the only one.
        per_channel: Whether weights have a scale a channel.
        in_bytes: Whether it reads and gives bytes.
    """

    network: Callable[[], Written]
    layout: str = "QDQ"
    kinds: str = "u8s8"
    per_channel: bool = True
    in_bytes: bool = False

    @property
    def scheme(self) -> str:
        """Told in words."""
        spread = {"dynamic": "", "blocks": f" of {BLOCK}"}.get(
            self.layout, " per channel" if self.per_channel else " per tensor"
        )
        return f"{self.layout} {self.kinds}{spread}{', bytes in and out' * self.in_bytes}"


def op(network: Callable[[], Written]) -> Case:
    """A single op of signed bytes."""
    return Case(network, kinds="s8s8", in_bytes=True)


IMAGE = (1, 64, 112, 112)
CASES = {
    "resnet18": Case(resnet18),
    "resnet18-tensor": Case(resnet18, kinds="s8s8", per_channel=False),
    "resnet18-qlinear": Case(resnet18, "QOperator", "u8u8", per_channel=False),
    "mobilenet_v2": Case(mobilenet_v2),
    "mobilenet_v2-qlinear": Case(mobilenet_v2, "QOperator", "s8s8"),
    "vgg": Case(vgg, kinds="s8s8"),
    "resnext-block": Case(resnext_stage),
    "bert-block": Case(bert_block),
    "bert-block-qlinear": Case(bert_block, "QOperator", "u8u8", per_channel=False),
    "bert-block-dynamic": Case(bert_block, "dynamic", "s8"),
    "gpt-block": Case(gpt_block, kinds="s8s8"),
    "gpt-block-tensor": Case(gpt_block, per_channel=False),
    "gpt-block-dynamic": Case(gpt_block, "dynamic", "u8"),
    "mlp-1": Case(lambda: mlp(1)),
    "mlp-64": Case(lambda: mlp(64), kinds="s8s8", per_channel=False),
    "mlp-64-dynamic": Case(lambda: mlp(64), "dynamic", "s8"),
    "matmul-1x4096x4096": Case(lambda: product(1, 4096, 4096)),
    "matmul-64x1024x1024": Case(lambda: product(64, 1024, 1024), "QOperator", "u8u8"),
    "matmul-512x1024x1024": op(lambda: product(512, 1024, 1024)),
    "matmul-1x4096x4096-blocks": Case(lambda: product(1, 4096, 4096), "blocks", "u4"),
    "matmul-64x1024x1024-blocks": Case(lambda: product(64, 1024, 1024), "blocks", "u4"),
    "matmul-of-activations": op(two_activations),
    "conv-3x3": op(lambda: convolution(128, 128, 3, 28)),
    "conv-1x1": op(lambda: convolution(256, 64, 1, 56)),
    "conv-7x7-stride-2": op(lambda: convolution(3, 64, 7, 224, stride=2)),
    "conv-depthwise": op(lambda: convolution(144, 144, 3, 56, groups=144)),
    "conv-32-groups": op(lambda: convolution(128, 128, 3, 28, groups=32)),
    "max-pool": op(single("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)),
    "average-pool": op(single("GlobalAveragePool", (1, 512, 14, 14))),
    "add": op(single("Add", IMAGE, IMAGE)),
    "mul": op(single("Mul", IMAGE, IMAGE)),
    "sigmoid": op(single("Sigmoid", IMAGE)),
    "softmax": op(single("Softmax", (HEADS, TOKENS, TOKENS), axis=-1)),
    "layer-normalization": op(normalisation),
}


def write_case(name: str, folder: Path) -> tuple[Path, Path]:
    """Write a model before and after quantisation; gives both files."""
    case, plain, quantised = CASES[name], folder / "plain.onnx", folder / "quantised.onnx"
    net, given = case.network()
    save(net, given, plain)
    logging.disable(logging.WARNING)
    if case.layout == "dynamic":
        quantise_in_calls(case, plain, quantised)
    elif case.layout == "blocks":
        quantise_blocks(plain, quantised)
    else:
        quantise(case, given, plain, quantised)
    logging.disable(logging.NOTSET)
    if case.in_bytes:
        take_off_ends(quantised)
    return plain, quantised


def save(net: Net, given: dict[str, Shape], path: Path) -> None:
    """Write a model of real numbers, whose result is that of its last node."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in given.items()]
    outputs = [helper.make_tensor_value_info(net.nodes[-1].output[0], TensorProto.FLOAT, None)]
    weights = [numpy_helper.from_array(array, name) for name, array in net.held.items()]
    graph = helper.make_graph(net.nodes, "model", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)


def quantise(case: Case, given: dict[str, Shape], plain: Path, quantised: Path) -> None:
    """Quantise all of a model by two sets of random inputs."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    kinds, rng = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}, np.random.default_rng(2)

    class Calibration(CalibrationDataReader):  # type: ignore[misc]  # of a library without types
        def __init__(self) -> None:
            self.left = [{n: rng.standard_normal(s).astype(np.float32) for n, s in given.items()} for _ in range(2)]

        def get_next(self) -> dict[str, Array] | None:
            return self.left.pop() if self.left else None

    quantize_static(
        plain,
        quantised,
        Calibration(),
        quant_format=QuantFormat[case.layout],
        per_channel=case.per_channel,
        activation_type=kinds[case.kinds[:2]],
        weight_type=kinds[case.kinds[2:]],
        extra_options={"ForceQuantizeNoInputCheck": case.in_bytes},
    )


def quantise_in_calls(case: Case, plain: Path, quantised: Path) -> None:
    """Quantise weights alone; what they multiply is quantised in each call."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(plain, quantised, weight_type=QuantType.QInt8 if case.kinds == "s8" else QuantType.QUInt8)


def quantise_blocks(plain: Path, quantised: Path) -> None:
    """Quantise the weight of one product to 4 bits, by blocks."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(plain)
    graph = model.graph
    weight = numpy_helper.to_array(graph.initializer[0])
    k, n = weight.shape
    blocks = weight.T.reshape(n, k // BLOCK, BLOCK)
    scale = np.abs(blocks).max(axis=-1, keepdims=True) / np.float32(7)
    whole = (np.clip(np.rint(blocks / scale), -8, 7) + 8).astype(np.uint8)  # 8 stands for 0, unless said otherwise
    names, sizes = [f"{graph.initializer[0].name}_{what}" for what in ("blocks", "scales")], {"K": k, "N": n}
    node = helper.make_node(
        "MatMulNBits",
        [graph.node[0].input[0], *names],
        graph.node[0].output,
        domain="com.microsoft",
        bits=4,
        block_size=BLOCK,
        **sizes,
    )
    del graph.node[:], graph.initializer[:]
    graph.node.append(node)
    for name, array in zip(names, (whole[..., ::2] | whole[..., 1::2] << 4, scale.reshape(-1)), strict=True):
        graph.initializer.append(numpy_helper.from_array(array, name))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, quantised)


def take_off_ends(path: Path) -> None:
    """Let a model read what its inputs are quantised to, and give what its results are dequantised from."""
    import onnx
    from onnx import helper

    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    graph = model.graph
    known = {tensor.name: tensor.type.tensor_type for tensor in (*graph.value_info, *graph.input, *graph.output)}

    def swapped(tensors: Sequence[Any], op_type: str, *, ours: int) -> list[Any]:
        names = [tensor.name for tensor in tensors]
        ends = [
            node for node in graph.node if node.op_type == op_type and (node.input[0], node.output[0])[ours] in names
        ]
        found = []
        for node in ends:
            inner = (node.input[0], node.output[0])[1 - ours]
            kind = known[inner].elem_type
            shape = [size.dim_value for size in known[inner].shape.dim]
            found.append(helper.make_tensor_value_info(inner, kind, shape))
            graph.node.remove(node)
        return found

    inputs = swapped(graph.input, "QuantizeLinear", ours=0)
    outputs = swapped(graph.output, "DequantizeLinear", ours=1)
    del graph.input[:], graph.output[:]
    graph.input.extend(inputs)
    graph.output.extend(outputs)
    onnx.checker.check_model(model)
    onnx.save(model, path)
