"""Payload modules with tensors instead of memrefs in the signature, and weights as program parameters.

A payload's graph is lowered by the payload's own emitters with every layer of a GPT unrolled: a compiler that packs
constant weights cannot do so through a slice at a loop index (nano: 0.144 instead of 0.193 ms). The text of a payload
without a graph is rewritten.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autotune.core.errors import ComparatorError
from autotune.core.payload import DTYPES, Argument, Array, Payload
from payload.builder import Builder, Value, tensor_type
from payload.comparators.constants import fold_constants, weights_of
from payload.lowering import RULES, lower

SCOPE = "model"
ELEMENT_TYPES = {kind: name for name, kind in DTYPES.items()}


@dataclass(frozen=True)
class TensorModule:
    """A module as text.

    Attributes:
        text: One public function over tensors, of the payload's name.
        inputs: Names of the payload's arguments that the function takes, in order.
        weights: Arrays of its parameters, by name in the scope `SCOPE`.
    """

    text: str
    inputs: tuple[str, ...]
    weights: dict[str, Array]


def write(payload: Payload, inputs: Mapping[str, Array]) -> TensorModule:
    """Return the tensor module of a payload.

    Raises:
        ComparatorError: An op of its graph has no lowering, or its text uses memrefs for more than arguments.
    """
    return lower_graph(payload, inputs) if payload.graph else rewrite(payload, inputs)


def parameter(name: str, kind: str) -> str:
    """Return the declaration of a constant that is bound at module load time (IREE's dialects)."""
    return f'util.global private @"{name}" = #flow.parameter.named<"{SCOPE}"::"{name}"> : {kind}'


def load(name: str, kind: str) -> str:
    """Return the operation that loads the constant declared by `parameter`."""
    return f'util.global.load @"{name}" : {kind}'


def lower_graph(payload: Payload, inputs: Mapping[str, Array]) -> TensorModule:
    """Lower the payload's graph to a function from its inputs to its outputs.

    Raises:
        ComparatorError: An op of the graph has no lowering.
    """
    folded = fold_constants(payload, inputs, weights_of(payload), RULES, "iree")
    f, weights = Builder(), {name: np.ascontiguousarray(array) for name, array in folded.constants.items()}
    arguments = [argument for argument in payload.arguments if argument.role == "input"]
    tensors = {a.name: Value(f.fresh(a.name), a.shape, a.dtype) for a in arguments}
    signature = ", ".join(f"{value.name}: {value.type}" for value in tensors.values())
    for name, array in weights.items():
        kind = ELEMENT_TYPES[array.dtype]
        tensors[name] = f.define(name, array.shape, load(name, tensor_type(array.shape, kind)), kind)
    results = lower(f, folded.nodes, tensors, [argument.name for argument in payload.outputs])
    names, types = (", ".join(getattr(value, part) for value in results) for part in ("name", "type"))
    globals_ = [parameter(name, tensors[name].type) for name in weights]
    head = f"func.func @{payload.entry}({signature}) -> ({types}) {{"
    text = "\n".join(["module {", *globals_, head, *f.lines, f"return {names} : {types}", "}", "}"])
    return TensorModule(text, tuple(argument.name for argument in arguments), weights)


def rewrite(payload: Payload, inputs: Mapping[str, Array]) -> TensorModule:
    """Rewrite the payload's text to take tensors, load its weights, and return its results.

    Raises:
        ComparatorError: The text uses memrefs for more than arguments.
    """
    source = re.sub(r"//[^\n]*", "", payload.text)
    start, end = find_signature(source, payload.entry)
    names = re.findall(r"(%[\w$.-]+)\s*:\s*memref<", source[start:end])
    body = source[end:]
    results: list[tuple[str, str]] = []
    for name, argument in zip(names, payload.arguments, strict=True):
        kind = tensor_type(argument.shape, argument.dtype)
        if argument.role == "output":
            body, result = take_result(body, name)
            results.append((result, kind))
        else:
            body = read_tensor(body, name, argument, kind)
    types = ", ".join(kind for _, kind in results)
    body = re.sub(r"\n\s*return\b", f"\n    return {', '.join(name for name, _ in results)} : {types}", body, count=1)
    body = MATERIALIZE.sub(r"\1 = tensor.cast \2 : \3 to \3", body)
    if re.search(r"\bmemref[<.]", body):
        raise ComparatorError(f"{payload.name} must work on tensors to be compiled by IREE, it works on memrefs")
    arguments = [(n, a) for n, a in zip(names, payload.arguments, strict=True) if a.role == "input"]
    signature = ", ".join(f"{name}: {tensor_type(a.shape, a.dtype)}" for name, a in arguments)
    weights = [a for a in payload.arguments if a.role == "weight"]
    declared = "".join(f"  {parameter(a.name, tensor_type(a.shape, a.dtype))}\n" for a in weights)
    before = source[:start].replace("func.func", f"{declared}  func.func", 1)
    text = f"{before}({signature}) -> ({types}) {body[1:].lstrip()}"
    return TensorModule(text, tuple(a.name for _, a in arguments), {a.name: inputs[a.name] for a in weights})


MATERIALIZE = re.compile(
    r"(%[\w$.-]+) = bufferization\.materialize_in_destination (%[\w$.-]+) in %[\w$.-]+ : \((\S+), \S+\) -> \S+"
)


def find_signature(source: str, entry: str) -> tuple[int, int]:
    """Return the start and end positions of the entry's parameter list, the end at its closing parenthesis."""
    start = source.index("(", source.index(f"@{entry}("))
    depth = 0
    for position in range(start, len(source)):
        depth += {"(": 1, ")": -1}.get(source[position], 0)
        if depth == 0:
            break
    return start, position


def read_tensor(body: str, name: str, argument: Argument, kind: str) -> str:
    """Replace the memref-to-tensor conversion: the tensor is an argument or a constant now."""
    pattern = rf"(%[\w$.-]+) = bufferization\.to_tensor {re.escape(name)}\b[^\n]* to tensor<[^>]*>"
    definition = load(argument.name, kind) if argument.role == "weight" else f"tensor.cast {name} : {kind} to {kind}"
    return re.sub(pattern, rf"\1 = {definition}", body)


def take_result(body: str, name: str) -> tuple[str, str]:
    """Remove the operation that writes a result to a memref; return the text without it, and the result's name."""
    pattern = (
        r"bufferization\.materialize_in_destination (%[\w$.-]+) in restrict writable "
        rf"{re.escape(name)}\s*:\s*\([^)]*\)\s*->\s*\(\)"
    )
    matches = re.findall(pattern, body)
    if len(matches) != 1:
        raise ComparatorError(f"{name} must be written once, by materialize_in_destination, to be taken as a tensor")
    return re.sub(pattern, "", body), str(matches[0])
