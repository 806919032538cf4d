"""State of the integer rewrite of a quantized ONNX model, and the rewrites of nodes other than products."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.onnx_integer_windows import INT32, OWN_PLANE, Image, largest, window_of
from payload.importers.onnx_integers import (
    FLOAT,
    INT8,
    UINT8,
    Bytes,
    Ending,
    FixedWeight,
    Scaled,
    dequantised,
    rounded,
)
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, facts_of, of
from payload.importers.onnx_oracle import compute_node, inputs_of, to_array
from payload.importers.onnx_origins import take_origin
from payload.importers.onnx_quantised_checks import not_quantised
from payload.importers.onnx_sizes import fix_sizes
from payload.importers.onnx_values import is_foldable, replace_all

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

SHIFTS = {UINT8: 128, INT8: 0}  # amount to subtract to convert to i8
PLANES = 4  # rank of an image
MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Identity", "Expand", "Tile")
ELEMENTS = (
    *("Add", "Sub", "Mul", "Div", "Max", "Min"),
    *("Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "Tanh"),
)


@dataclass
class IntegerWriter:
    """Writer that rewrites the nodes of a model to integer arithmetic, in topological order.

    A tensor may be represented otherwise than in the model, such as in i8 or with channels last; `name_again`
    materializes it under its own name for nodes that are not rewritten.

    Attributes:
        model: Model that is rewritten in place.
        weights: Weights of the model, by name.
        writers: Rewrites by op type; each returns whether it applied.
        facts: Shapes, types and constants of the tensors in the original graph.
        known: Values that depend on no input, by name.
        readers: Consumers of each tensor; `None` stands for a result of the model.
        bytes: Integer tensors of the model that are represented in i8.
        scaled: Float tensors that are represented in i8 with a scale and a zero point.
        fixed: Float weights that are represented as integers with scales.
        images: Float tensors that are represented with channels last.
        zeros: Names of run-time zero points minus 128 in i32, by name.
        named: Tensors materialized so far under their own names.
        done: Outputs of nodes that were fused into another.
        left: Origins of products that stay in float.
        inputs: Names of the model's inputs that are not weights.
    """

    model: "ModelProto"
    weights: dict[str, Array]
    writers: "Mapping[str, Callable[[IntegerWriter, NodeWriter, NodeProto], bool]]"
    facts: KnownTensors
    known: dict[str, Array]
    readers: "dict[str, list[NodeProto | None]]"
    bytes: dict[str, Bytes] = field(default_factory=dict)
    scaled: dict[str, Scaled] = field(default_factory=dict)
    fixed: dict[str, FixedWeight] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    zeros: dict[str, str] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    left: list[str] = field(default_factory=list)
    inputs: frozenset[str] = frozenset()

    @classmethod
    def of_model(
        cls,
        model: "ModelProto",
        weights: dict[str, Array],
        writers: "Mapping[str, Callable[[IntegerWriter, NodeWriter, NodeProto], bool]]",
    ) -> "IntegerWriter":
        """Create a writer for a model."""
        graph = model.graph
        known = {**weights, **{tensor.name: to_array(tensor) for tensor in graph.initializer}}
        readers: dict[str, list[NodeProto | None]] = {}
        for node in graph.node:
            for name in inputs_of(node):
                readers.setdefault(name, []).append(node)
        for output in graph.output:
            readers.setdefault(output.name, []).append(None)
        inputs = frozenset(tensor.name for tensor in graph.input) - weights.keys()
        return cls(model, weights, writers, facts_of(graph), known, readers, inputs=inputs)

    def write(self) -> list[str]:
        """Rewrite all nodes; return the origins of products that stay in float."""
        graph, nodes = self.model.graph, list["NodeProto"]()
        for number, node in enumerate(list(graph.node)):
            if node.output[0] in self.done:
                continue
            writer = NodeWriter(graph, f"integers_{number}")
            self.learn(node)
            if not self.write_node(writer, node):
                for name in inputs_of(node):
                    self.name_again(writer, name)
                writer.nodes.append(node)
            nodes += take_origin(writer.nodes, node)
        end = NodeWriter(graph, "integers_end")
        for output in graph.output:
            self.name_again(end, output.name)
        replace_all(graph.node, without_unread([*nodes, *end.nodes], {output.name for output in graph.output}))
        self.forget_unread()
        fix_sizes(self.model, {}, self.weights)
        return self.left

    def learn(self, node: "NodeProto") -> None:
        """Evaluate a node that depends on no input, except DequantizeLinear of integer weights."""
        if node.op_type == "DequantizeLinear" or not is_foldable(node, self.known):
            return
        try:
            values = compute_node(self.model, node, {name: self.known[name] for name in node.input if name})
        except Exception:  # the reference lacks the op or rejects its inputs: then the node stays in the graph
            return
        self.known |= dict(zip((name for name in node.output if name), values, strict=True))

    def forget_unread(self) -> None:
        """Remove weights and constants without consumers."""
        graph = self.model.graph
        read = {name for node in graph.node for name in inputs_of(node)} | {output.name for output in graph.output}
        for name in self.weights.keys() - read:
            del self.weights[name]
        inputs = [tensor for tensor in graph.input if tensor.name in read or tensor.name in self.inputs]
        replace_all(graph.input, inputs)
        replace_all(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in read])

    def write_node(self, writer: NodeWriter, node: "NodeProto") -> bool:
        """Rewrite a node to integer arithmetic; return whether a rewrite applied."""
        op = node.op_type
        if op in self.writers:
            return self.writers[op](self, writer, node)
        if op in MOVES and self.move(writer, node):
            return True
        return op in ELEMENTS and self.by_elements(writer, node)

    def move(self, writer: NodeWriter, node: "NodeProto") -> bool:
        """Apply an op that only moves elements to the i8 representation."""
        x, others = node.input[0], list(node.input[1:])
        if x not in self.scaled and x not in self.bytes:
            return False
        source = self.scaled[x].bytes if x in self.scaled else self.bytes[x]
        for name in others:
            self.name_again(writer, name)
        attributes = {attribute.name: of(node, attribute.name, None) for attribute in node.attribute}
        moved = writer.add(
            node.op_type, self.natural(writer, source), *others, into=f"{node.output[0]}_bytes", **attributes
        )
        self.hold_as(node, Bytes(moved, source.shift))
        return True

    def hold_as(self, node: "NodeProto", result: Bytes) -> None:
        """Record the i8 result of a node, with the scale and zero point of its first input."""
        x, y = node.input[0], node.output[0]
        if x in self.scaled:
            self.scaled[y] = replace(self.scaled[x], bytes=result)
        else:
            self.bytes[y] = result

    def pool(self, writer: NodeWriter, node: "NodeProto") -> bool:
        """Rewrite MaxPool in i8, whose order is that of the floats."""
        x = node.input[0]
        source = self.scaled[x].bytes if x in self.scaled else self.bytes.get(x)
        if source is None or len(self.facts.shapes.get(x, [])) != PLANES or len([n for n in node.output if n]) > 1:
            return False
        window = window_of(node, of(node, "kernel_shape", []), self.facts.shapes[x][2:])
        if window is None:
            return False
        maxima = largest(writer, self.any_image(writer, source, self.facts.shapes[x]), window)
        self.hold_as(node, placed(maxima, f"{node.output[0]}_bytes", source.shift))
        return True

    def by_elements(self, writer: NodeWriter, node: "NodeProto") -> bool:
        """Rewrite an elementwise op with channels last, if its inputs are."""
        shape = self.facts.shapes.get(node.output[0], [])
        inputs = [name for name in node.input if name]
        last = [name for name in inputs if self.lies_last(name)]
        if len(shape) != PLANES or not last:
            return False
        for name in inputs:
            if name not in last and (name not in self.known or self.known[name].size != 1):
                return False
            if name in last and self.facts.shapes.get(name) != shape:
                return False
        names = {name: self.real_image(writer, name).name for name in last}
        attributes = {attribute.name: of(node, attribute.name, None) for attribute in node.attribute}
        y = writer.add(node.op_type, *(names.get(name, name) for name in node.input), **attributes)
        n, c, h, w = shape
        self.images[node.output[0]] = Image(y, (n, h, w, c))
        return True

    def lies_last(self, name: str) -> bool:
        """Return whether a float tensor is represented with channels last."""
        return name in self.images or (name in self.scaled and self.scaled[name].bytes.image is not None)

    def real_image(self, writer: NodeWriter, name: str) -> Image:
        """Return a float tensor with channels last; it must be represented so."""
        if name not in self.images:
            scaled = self.scaled[name]
            image = self.image_of(writer, scaled.bytes, self.facts.shapes[name])
            self.images[name] = replace(image, name=dequantised(writer, scaled, image.name))
        return self.images[name]

    def name_again(self, writer: NodeWriter, name: str) -> None:
        """Materialize a tensor under its own name, if it is represented otherwise."""
        if name in self.named:
            return
        self.named.add(name)
        if name in self.images:
            writer.add("Transpose", self.images[name].name, into=name, perm=[0, 3, 1, 2])
        elif name in self.scaled:
            scaled = self.scaled[name]
            dequantised(writer, scaled, self.natural(writer, scaled.bytes), into=name)
        elif name in self.fixed:
            real = self.fixed[name].real
            self.add_weight(name, real) if real.ndim else writer.add("Identity", writer.constant(real), into=name)
        elif name in self.zeros:
            writer.add("Cast", writer.add("Add", self.zeros[name], writer.number(128, INT32)), into=name, to=UINT8)
        elif name in self.bytes and self.bytes[name].name != name:
            signed_bytes = self.bytes[name]
            signed = self.natural(writer, signed_bytes)
            if signed_bytes.shift:
                wide = writer.add("Add", writer.add("Cast", signed, to=INT32), writer.number(signed_bytes.shift, INT32))
                writer.add("Cast", wide, into=name, to=UINT8)
            else:
                writer.add("Identity", signed, into=name)

    def add_weight(self, name: str, array: Array) -> str:
        """Add an array as a weight of the model; return its name."""
        from onnx import helper  # noqa: PLC0415 - comes with an extra

        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.weights[name] = array
        self.model.graph.input.append(helper.make_tensor_value_info(name, kind, list(array.shape)))
        return name

    def natural(self, writer: NodeWriter, source: Bytes) -> str:
        """Return i8 values in the layout of the model, transposed if they are held with channels last."""
        if source.image is not None and source.name not in self.named:
            self.named.add(source.name)
            writer.add("Transpose", source.image.name, into=source.name, perm=[0, 3, 1, 2])
        return source.name

    def image_of(self, writer: NodeWriter, source: Bytes, shape: Sequence[int]) -> Image:
        """Return i8 values with channels last, transposed if needed."""
        if source.image is not None:
            return source.image
        name, (n, c, h, w) = f"{source.name}_image", shape
        if name not in self.named:
            self.named.add(name)
            writer.add("Transpose", source.name, into=name, perm=[0, 2, 3, 1])
        return Image(name, (n, h, w, c))

    def any_image(self, writer: NodeWriter, source: Bytes, shape: Sequence[int]) -> Image:
        """Return i8 values in the layout that they already have."""
        return source.image or Image(self.natural(writer, source), tuple(shape), OWN_PLANE)

    def bytes_of(self, writer: NodeWriter, name: str) -> Bytes | None:
        """Return an integer tensor of the model in i8; `None` if it is not an 8-bit tensor."""
        shift = SHIFTS.get(self.facts.kinds.get(name, 0))
        if name not in self.bytes and shift is not None and name not in self.known:
            signed = name
            if shift:
                lower = writer.add("Sub", writer.add("Cast", name, to=INT32), writer.number(shift, INT32))
                signed = writer.add("Cast", lower, to=INT8, into=f"{name}_bytes")
            self.bytes[name] = Bytes(signed, shift)
            self.named.add(name)
        return self.bytes.get(name)

    def scale_and_zero(self, node: "NodeProto", kind: int) -> tuple[np.float32, int] | None:
        """Return the scalar scale and the zero point in i8 of a node; `None` if they are not constant scalars."""
        _, scale, zero = [*node.input, ""][:3]
        step, at = self.known.get(scale), self.known.get(zero, np.zeros((), np.int8 if kind == INT8 else np.uint8))
        if step is None or step.size > 1 or step.dtype != np.float32 or at.size > 1:
            return None
        if kind not in SHIFTS or of(node, "block_size", 0) or (zero and zero not in self.known):
            return None
        check_scale(step, node)
        return np.float32(step.reshape(())), int(at.reshape(())) - SHIFTS[kind]

    def quantise(self, writer: NodeWriter, node: "NodeProto") -> bool:
        """Rewrite QuantizeLinear: divide, round to even, saturate."""
        x, y = node.input[0], node.output[0]
        kind = self.facts.kinds.get(y, 0)
        settings = self.scale_and_zero(node, kind)
        if settings is None or x in self.known or self.facts.kinds.get(x) != FLOAT:
            return False
        if x in self.scaled and (self.scaled[x].scale, self.scaled[x].zero) == settings:
            self.bytes[y] = replace(self.scaled[x].bytes, shift=SHIFTS[kind])
            return True
        ending = Ending(y, scale=settings[0], zero=settings[1], shift=SHIFTS[kind])
        if self.lies_last(x):
            image = self.real_image(writer, x)
            quantized = rounded(writer, writer.add("Div", image.name, writer.real(settings[0])), ending)
            self.bytes[y] = Bytes(f"{y}_bytes", ending.shift, replace(image, name=quantized))
            return True
        self.name_again(writer, x)
        divided = writer.add("Div", x, writer.real(settings[0]))
        self.bytes[y] = Bytes(rounded(writer, divided, ending, f"{y}_bytes"), ending.shift)
        return True

    def dequantise(self, writer: NodeWriter, node: "NodeProto") -> bool:
        """Record DequantizeLinear as an i8 representation, materialized only for float consumers."""
        (x, scale, zero), y = [*node.input, ""][:3], node.output[0]
        kind = self.facts.kinds.get(x, 0)
        if x in self.known:
            weight = fixed_weight(self.known[x], self.known.get(scale), self.known.get(zero) if zero else None, node)
            if weight is not None and (not zero or zero in self.known):
                self.fixed[y] = weight
            return weight is not None
        settings = self.scale_and_zero(node, kind)
        source = self.bytes_of(writer, x) if settings is not None else None
        if settings is None or source is None:
            return False
        self.scaled[y] = Scaled(source, *settings)
        return True

    def dynamic(self, writer: NodeWriter, node: "NodeProto") -> bool:
        """Rewrite DynamicQuantizeLinear by its definition; u8 values are held in i8."""
        x, (y, scale, zero) = node.input[0], node.output
        self.name_again(writer, x)
        nothing, steps = writer.real(0.0), writer.real(255.0)
        most = writer.add("Max", writer.add("ReduceMax", x, keepdims=0), nothing)
        least = writer.add("Min", writer.add("ReduceMin", x, keepdims=0), nothing)
        step = writer.add("Div", writer.add("Sub", most, least), steps, into=scale)
        at = writer.add("Round", writer.add("Clip", writer.add("Div", writer.add("Neg", least), step), nothing, steps))
        shifted = writer.add("Add", writer.add("Round", writer.add("Div", x, step)), at)
        lower = writer.add("Sub", writer.add("Clip", shifted, nothing, steps), writer.real(128.0))
        self.bytes[y] = Bytes(writer.add("Cast", lower, into=f"{y}_bytes", to=INT8), 128)
        whole = writer.add("Cast", writer.add("Sub", at, writer.real(128.0)), to=INT32)
        self.zeros[zero] = whole
        return True

    def ending_of(self, name: str) -> Ending:
        """Return the chain of Relu, Clip and QuantizeLinear after a product that can be fused with it."""
        ending = Ending(name)
        while len(readers := self.readers.get(ending.output, [])) == 1:
            node = readers[0]
            if node is None or node.input[0] != ending.output:
                break
            y, nodes = node.output[0], (*ending.nodes, node)
            if node.op_type == "Relu":
                ending = replace(ending, output=y, low=max(ending.low, 0.0), high=max(ending.high, 0.0), nodes=nodes)
            elif node.op_type == "Clip" and all(not n or n in self.known for n in node.input[1:]):
                low, high = ([*node.input[1:], "", ""][position] for position in (0, 1))
                least = float(self.known[low].reshape(())) if low else -np.inf
                most = float(self.known[high].reshape(())) if high else np.inf
                ends = (min(max(end, least), most) for end in (ending.low, ending.high))
                ending = replace(ending, output=y, low=next(ends), high=next(ends), nodes=nodes)
            elif node.op_type == "QuantizeLinear":
                kind = self.facts.kinds.get(y, 0)
                settings = self.scale_and_zero(node, kind)
                if settings is None:
                    break
                return replace(ending, output=y, scale=settings[0], zero=settings[1], shift=SHIFTS[kind], nodes=nodes)
            else:
                break
        return ending


def placed(image: Image, name: str, shift: int) -> Bytes:
    """Return the i8 representation of an image under a name."""
    return Bytes(image.name, shift) if image.plane == OWN_PLANE else Bytes(name, shift, image)


def without_unread(nodes: "Sequence[NodeProto]", results: set[str]) -> "list[NodeProto]":
    """Remove nodes whose results are not read; keep the order."""
    read, live = set(results), list["NodeProto"]()
    for node in reversed(nodes):
        if read & set(node.output):
            live.append(node)
            read.update(inputs_of(node))
    return live[::-1]


def check_scale(scale: Array, node: "NodeProto") -> None:
    """Raise unless all scales are positive and finite.

    Raises:
        UnsupportedError: A scale is 0, negative or not finite.
    """
    wrong = scale[~(np.isfinite(scale) & (scale > 0))]
    if wrong.size:
        raise not_quantised(node, f"scales must be positive and finite, one is {wrong.flat[0]:g}")


def fixed_weight(whole: Array, scale: Array | None, zero: Array | None, node: "NodeProto") -> FixedWeight | None:
    """Return an integer weight with its scales; `None` if it is quantized by blocks, or not an integer weight."""
    wide = whole.dtype.name in ("int8", "uint8", "int4", "uint4", "int32")
    if scale is None or scale.dtype != np.float32 or scale.ndim > 1 or of(node, "block_size", 0) or not wide:
        return None
    check_scale(scale, node)
    axis = of(node, "axis", 1)
    if scale.size > 1 and (not -whole.ndim <= axis < whole.ndim or whole.shape[axis] != scale.size):
        return None
    numbers = whole.astype(np.int64)
    if zero is not None:
        sizes = [1] * whole.ndim
        if zero.size > 1:
            sizes[axis] = zero.size
        numbers = numbers - zero.astype(np.int64).reshape(sizes if whole.ndim else ())
    return FixedWeight(numbers, scale.reshape(-1), axis)
