"""Rewrites of LSTM, GRU and RNN in forms that torch-mlir does not lower, or lowers incorrectly.

reverse over x   ->   forward over the reverse of x, reversed
bidirectional   ->   one of each, concatenated
peepholes, sequence lengths, custom activations   ->   unrolled steps
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from payload.importers.linalg import cannot_lower
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, Rewrite, of

if TYPE_CHECKING:
    from onnx import NodeProto

MOST_STEPS = 512  # maximum number of unrolled steps
INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
STATES = {"LSTM": 2, "GRU": 1, "RNN": 1}
ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
KNOWN = ("Sigmoid", "Tanh", "Relu", "LeakyRelu", "HardSigmoid", "Elu", "Softsign", "Softplus")  # ops of the same name
ROLLED = ("W", "R", "B", "initial_h", "initial_c", "P")  # first dimension: directions; of states in layout 1 the second
PLAIN = ("hidden_size", "linear_before_reset")  # attributes that forward ops keep
PARAMETERS = ("clip", "activation_alpha", "activation_beta")
NOT_PLAIN = {"P", "sequence_lens", *PARAMETERS}  # inputs and attributes of those that are written as steps


def split_directions(writer: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite a recurrent op as plain forward ones, or unroll it; return whether that was necessary."""
    inputs = {name: tensor for name, tensor in zip(INPUTS, node.input, strict=False) if tensor}
    if any(name not in known.shapes for name in inputs.values()):
        return False
    reversals = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}[of(node, "direction", "forward")]
    by_batch, op = of(node, "layout", 0), node.op_type
    shape = known.shapes[inputs["X"]]
    time, batch = (shape[1], shape[0]) if by_batch else (shape[0], shape[1])
    lengths = known.constants.get(inputs.get("sequence_lens", ""))
    if lengths is not None and (lengths == time).all():
        del inputs["sequence_lens"]
    functions = [name.lower() for name in activations_of(node, len(reversals))]
    plain = functions == [name.lower() for name in ACTIVATIONS[op]] * len(reversals)
    plain &= not NOT_PLAIN & {*inputs, *(each.name for each in node.attribute)} and not of(node, "input_forget", 0)
    if reversals == [0] and plain and not by_batch and len(inputs) == len([name for name in node.input if name]):
        return False
    check(node, functions, 1 if plain else time)
    x = writer.add("Transpose", inputs["X"], perm=[1, 0, 2]) if by_batch else inputs["X"]
    if by_batch:
        states = [name for name in ("initial_h", "initial_c") if name in inputs]
        inputs |= {name: writer.add("Transpose", inputs[name], perm=[1, 0, 2]) for name in states}
    results = []
    for index, backward in enumerate(reversals):
        of_direction = {
            name: writer.slice(tensor, index, index + 1, 0) if name in ROLLED and len(reversals) > 1 else tensor
            for name, tensor in inputs.items()
        }
        of_direction["X"] = x
        each = len(functions) // len(reversals)
        cell = Cell(writer, node, of_direction, time, batch, functions[index * each : (index + 1) * each], known)
        results.append(cell.plain(backward=bool(backward)) if plain else cell.steps(backward=bool(backward)))
    for number, output in enumerate(node.output):
        if output:
            joined = [each[number] for each in results]
            axis = 1 if number == 0 else 0
            last = writer.add("Concat", *joined, axis=axis) if len(joined) > 1 else joined[0]
            order = ([2, 0, 1, 3] if number == 0 else [1, 0, 2]) if by_batch else list(range(4 if number == 0 else 3))
            writer.add("Transpose", last, into=output, perm=order)
    return True


def activations_of(node: "NodeProto", ways: int) -> list[str]:
    """Return the activation functions of a recurrent op, for each direction."""
    names = of(node, "activations", None)
    return [name.decode() for name in names] if names else [*ACTIVATIONS[node.op_type]] * ways


def check(node: "NodeProto", functions: Sequence[str], steps: int) -> None:
    """Raise for unsupported forms.

    Raises:
        UnsupportedError: An activation is unknown or has parameters, values are clipped, or there are too many steps.
    """
    unknown = [name for name in functions if name not in [each.lower() for each in KNOWN]]
    named = [each.name for each in node.attribute if each.name in PARAMETERS]
    if unknown or named:
        raise cannot_lower(node.doc_string, f"{', '.join(dict.fromkeys([*unknown, *named]))} of it is not known here")
    if steps > MOST_STEPS:
        raise cannot_lower(node.doc_string, f"its {steps} steps are more than the {MOST_STEPS} that are written out")


@dataclass
class Cell:
    """One direction of a recurrent op.

    Attributes:
        writer: Writer of the nodes.
        node: Recurrent op.
        inputs: Names of the inputs of this direction; X and states are time-major.
        time: Number of steps.
        batch: Number of sequences.
        functions: Activations, in lower case.
        known: Shapes and types of the tensors.
    """

    writer: NodeWriter
    node: "NodeProto"
    inputs: Mapping[str, str]
    time: int
    batch: int
    functions: Sequence[str]
    known: KnownTensors

    def plain(self, *, backward: bool) -> list[str]:
        """Add a forward op; return the names of Y (T, 1, B, H), Y_h and Y_c (1, B, H)."""
        w, op = self.writer, self.node.op_type
        inputs = [self.inputs.get(name, "") for name in INPUTS[: 5 + STATES[op]]]
        inputs[0] = w.backwards(inputs[0], 0) if backward else inputs[0]
        attributes = {a.name: of(self.node, a.name, None) for a in self.node.attribute if a.name in PLAIN}
        names = [f"{w.stem}_{len(w.nodes)}_{number}" for number in range(1 + STATES[op])]
        while inputs and not inputs[-1]:
            inputs.pop()
        w.add(op, *inputs, into=names, **attributes)
        return [w.backwards(names[0], 0) if backward else names[0], *names[1:]]

    def steps(self, *, backward: bool) -> list[str]:
        """Unroll all steps; return the same names as `plain`."""
        w, op = self.writer, self.node.op_type
        hidden = self.known.shapes[self.node.input[2]][-1]
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
        kind = self.known.kinds[self.node.input[0]]
        wide = gates * hidden
        weight, again = (self.matrix(name, wide) for name in ("W", "R"))
        zero = w.number(0.0, kind)
        rows = w.add("MatMul", self.inputs["X"], weight)
        bias = self.biases(wide)
        if bias:
            rows = w.add("Add", rows, bias[0])
        zeros = w.add("Expand", zero, w.numbers(self.batch, hidden))
        states = [
            w.reshape(self.inputs[name], self.batch, hidden) if name in self.inputs else zeros
            for name in ("initial_h", "initial_c")[: STATES[op]]
        ]
        gaps = self.peepholes(hidden)
        results = []
        for t in reversed(range(self.time)) if backward else range(self.time):
            x = w.reshape(w.slice(rows, t, t + 1, 0), self.batch, wide)
            fresh = {"LSTM": self.lstm, "GRU": self.gru, "RNN": self.rnn}[op](
                x, states, again, bias[1] if bias else "", gaps
            )
            if "sequence_lens" not in self.inputs:
                states, result = fresh, fresh[0]
            else:
                lengths = w.reshape(self.inputs["sequence_lens"], self.batch, 1)
                inside = w.add("Less", w.constant(np.array(t, np.int32)), lengths)
                result = w.add("Where", inside, fresh[0], zeros)
                states = [w.add("Where", inside, new, old) for new, old in zip(fresh, states, strict=True)]
            results.append(w.reshape(result, 1, 1, self.batch, hidden))
        ordered = results[::-1] if backward else results
        last = [w.reshape(state, 1, self.batch, hidden) for state in states]
        return [w.add("Concat", *ordered, axis=0), *last]

    def matrix(self, name: str, wide: int) -> str:
        """Transpose weights (1, G, I) to (I, G)."""
        inner = self.known.shapes[self.node.input[INPUTS.index(name)]][-1]
        return self.writer.add("Transpose", self.writer.reshape(self.inputs[name], wide, inner), perm=[1, 0])

    def biases(self, wide: int) -> list[str]:
        """Return the biases of the input and of the recurrent state, if there are any."""
        if "B" not in self.inputs:
            return []
        flat = self.writer.reshape(self.inputs["B"], 2 * wide)
        return [self.writer.slice(flat, each * wide, (each + 1) * wide, 0) for each in range(2)]

    def peepholes(self, hidden: int) -> list[str]:
        """Return the peephole weights of the gates i, o, f, if there are any."""
        if "P" not in self.inputs:
            return []
        flat = self.writer.reshape(self.inputs["P"], 3 * hidden)
        return [self.writer.slice(flat, each * hidden, (each + 1) * hidden, 0) for each in range(3)]

    def act(self, number: int, x: str) -> str:
        """Apply an activation function."""
        name = next(each for each in KNOWN if each.lower() == self.functions[number])
        return self.writer.add(name, x)

    def parts(self, x: str, count: int) -> list[str]:
        """Split concatenated gates."""
        hidden = self.known.shapes[self.node.input[2]][-1]
        return [self.writer.slice(x, each * hidden, (each + 1) * hidden, 1) for each in range(count)]

    def lstm(self, x: str, states: Sequence[str], again: str, bias: str, gaps: Sequence[str]) -> list[str]:
        """Add a step of an LSTM; gates i, o, f, c."""
        w, (h, c) = self.writer, states
        recurrent = w.add("MatMul", h, again)
        total = w.add("Add", x, w.add("Add", recurrent, bias) if bias else recurrent)
        i, o, f, g = self.parts(total, 4)
        if gaps:
            i, f = (w.add("Add", gate, w.add("Mul", gap, c)) for gate, gap in ((i, gaps[0]), (f, gaps[2])))
        i, g = self.act(0, i), self.act(1, g)
        f = self.one_less(i) if of(self.node, "input_forget", 0) else self.act(0, f)
        fresh = w.add("Add", w.add("Mul", f, c), w.add("Mul", i, g))
        if gaps:
            o = w.add("Add", o, w.add("Mul", gaps[1], fresh))
        return [w.add("Mul", self.act(0, o), self.act(2, fresh)), fresh]

    def gru(self, x: str, states: Sequence[str], again: str, bias: str, _: Sequence[str]) -> list[str]:
        """Add a step of a GRU; gates z, r, h."""
        w, (h,) = self.writer, states
        hidden = self.known.shapes[self.node.input[2]][-1]
        recurrent = w.add("MatMul", h, again)
        recurrent = w.add("Add", recurrent, bias) if bias else recurrent
        zx, rx, hx = self.parts(x, 3)
        zh, rh, hh = self.parts(recurrent, 3)
        z, r = self.act(0, w.add("Add", zx, zh)), self.act(0, w.add("Add", rx, rh))
        if of(self.node, "linear_before_reset", 0):
            inner = w.add("Mul", r, hh)
        else:
            inner = w.add("MatMul", w.add("Mul", r, h), w.slice(again, 2 * hidden, 3 * hidden, 1))
            inner = w.add("Add", inner, w.slice(bias, 2 * hidden, 3 * hidden, 0)) if bias else inner
        fresh = self.act(1, w.add("Add", hx, inner))
        return [w.add("Add", w.add("Mul", self.one_less(z), fresh), w.add("Mul", z, h))]

    def rnn(self, x: str, states: Sequence[str], again: str, bias: str, _: Sequence[str]) -> list[str]:
        """Add a step of a plain RNN."""
        w = self.writer
        recurrent = w.add("MatMul", states[0], again)
        return [self.act(0, w.add("Add", x, w.add("Add", recurrent, bias) if bias else recurrent))]

    def one_less(self, x: str) -> str:
        """Add ``1 - x``."""
        return self.writer.add("Sub", self.writer.number(1.0, self.known.kinds[self.node.input[0]]), x)


RECURRENT: dict[str, Rewrite] = dict.fromkeys(STATES, split_directions)
