"""Conversion of a graph to a payload, which is the same for all graphs of the same structure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import cast

import numpy as np

from autotune.core.c_names import identifier
from autotune.core.payload import Argument, Array, Payload
from autotune.tensor.dtypes import storage_of
from autotune.tensor.graph import ARRAY, INPUT, Node, behind
from autotune.tensor.lower import lower
from autotune.tensor.text import Writer
from autotune.tensor.views import Stored, squeezed

ENTRY, WEIGHT = "tensors", "weight"
ANY = (-1.0, 1.0)


@dataclass(frozen=True)
class TensorProgram:
    """The payload of a graph.

    Attributes:
        payload: Payload that computes the results; `None` if no result has elements.
        inputs: Nodes of the arguments of the traced function; the payload omits those without elements.
        constants: Nodes of the constant arrays, in the order of the payload's arguments after the inputs.
        results: Nodes of the results.
        bounds: Pairs of an input's index and the exclusive upper bound of its elements, for inputs used as indices.
    """

    payload: Payload | None
    inputs: tuple[Node, ...]
    constants: tuple[Node, ...]
    results: tuple[Node, ...]
    bounds: tuple[tuple[int, int], ...]


def write_program(
    results: tuple[Node, ...], inputs: tuple[Node, ...], name: str = ENTRY, *, role: str = WEIGHT
) -> TensorProgram:
    """Convert a graph to a payload.

    Args:
        results: Nodes to compute.
        inputs: Arguments of the function, in order.
        name: Prefix of the payload's name.
        role: Role of constant arrays; only weights of equal elements are merged.
    """
    nodes = behind(results)
    arrays = [node for node in nodes if node.op == ARRAY and 0 not in node.shape]
    stand_in_of = stand_ins(arrays) if role == WEIGHT else {node: node for node in arrays}
    constants = tuple(dict.fromkeys(stand_in_of.values()))
    nonempty = [node for node in results if 0 not in node.shape]
    bounds = tuple((inputs.index(node), size) for node, size in indices_read(nodes) if node.op == INPUT)
    if not nonempty:
        return TensorProgram(None, inputs, constants, results, bounds)
    sources = [*((f"x{i}", node, "input") for i, node in enumerate(inputs) if 0 not in node.shape)]
    sources += [(f"w{i}", node, role) for i, node in enumerate(constants)]
    arguments = [Argument(n, r, squeezed(node.shape), storage_of(node.dtype)) for n, node, r in sources]
    arguments += [
        Argument(f"y{i}", "output", squeezed(node.shape), storage_of(node.dtype)) for i, node in enumerate(nonempty)
    ]
    names = {node: name for name, node, _ in sources}
    text = write_text(
        nodes, names | {node: names[stand_in] for node, stand_in in stand_in_of.items()}, nonempty, arguments
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    payload = Payload(
        name=f"{identifier(name).strip('_') or ENTRY}_{digest}",
        text=text,
        entry=ENTRY,
        arguments=tuple(arguments),
        flops=sum(map(operations, nodes)),
        reduction=longest_sum(nodes),
        foreign=True,
    )
    return TensorProgram(payload, inputs, constants, results, bounds)


def stand_ins(constants: Sequence[Node]) -> dict[Node, Node]:
    """Map every constant array to the first one of equal elements, so that duplicates are passed once."""
    first_equal: dict[Node, Node] = {}
    for node in constants:
        candidates = (first for first in first_equal.values() if (first.shape, first.dtype) == (node.shape, node.dtype))
        first_equal[node] = next((first for first in candidates if have_same_bytes(first, node)), node)
    return first_equal


def have_same_bytes(node: Node, other: Node) -> bool:
    """Return whether two constant arrays of the same shape and dtype are bitwise equal."""
    mine, others = (np.ascontiguousarray(cast(Array, each.array)).reshape(-1).view(np.uint8) for each in (node, other))
    return np.array_equal(mine, others)


def write_text(
    nodes: tuple[Node, ...], names: dict[Node, str], wanted: Sequence[Node], arguments: Sequence[Argument]
) -> str:
    """Return the text of the module: one function on memrefs."""
    writer, leaves = Writer(), {}
    types = {argument.name: argument.type for argument in arguments}
    stored: dict[str, Stored] = {}
    for node, name in names.items():
        shape, element = squeezed(node.shape), storage_of(node.dtype)
        text = f"bufferization.to_tensor %{name} restrict : {types[name]} to TYPE"
        leaves[node] = stored[name] = stored.get(name) or writer.define(text, shape, element)
    views = lower(writer, nodes, leaves)
    for index, node in enumerate(wanted):
        value: Stored = writer.stored(views[node], storage_of(node.dtype))
        writer.lines.append(
            f"bufferization.materialize_in_destination {value.name} in restrict writable %y{index} : "
            f"({value.type}, {types[f'y{index}']}) -> ()"
        )
    signature = ", ".join(f"%{argument.name}: {argument.type}" for argument in arguments)
    body = "\n".join(f"    {line}" for line in [*writer.lines, "return"])
    return f"module {{\n  func.func @{ENTRY}({signature}) {{\n{body}\n  }}\n}}\n"


def indices_read(nodes: Sequence[Node]) -> list[tuple[Node, int]]:
    """Return every node that is used as indices, with the size of the indexed axis; the smallest of several."""
    bounds: dict[Node, int] = {}
    for node in nodes:
        if node.op == "take":
            source, indices = node.inputs
            size = source.shape[node.attributes[0]]
            bounds[indices] = min(size, bounds.get(indices, size))
    return list(bounds.items())


def operations(node: Node) -> float:
    """Return the multiplications and additions of a contraction; 0 for other operations, which are negligible."""
    if node.op == "matmul":
        return 2.0 * prod(node.shape) * node.inputs[0].shape[-1]
    return 2.0 * prod(node.shape) * prod(node.inputs[1].shape[1:]) if node.op == "conv2d" else 0.0


def longest_sum(nodes: Sequence[Node]) -> int:
    """Return the number of additions on the longest path of the graph, which bounds the rounding error."""
    additions: dict[Node, int] = {}
    for node in nodes:
        additions[node] = max((additions[each] for each in node.inputs), default=0) + summed(node)
    return max(1, *additions.values())


def summed(node: Node) -> int:
    """Return the number of elements that an operation reduces to one."""
    if node.op == "fold" and node.attributes[0] in ("sum", "prod"):
        return prod(node.inputs[0].shape[axis] for axis in node.attributes[1])
    if node.op == "matmul":
        return node.inputs[0].shape[-1]
    return prod(node.inputs[1].shape[1:]) if node.op == "conv2d" else 0


def range_of(array: Array) -> tuple[float, float]:
    """Return the range to draw random data like an array from: its smallest element and a number above its largest."""
    if array.dtype == np.bool_:
        return 0.0, 2.0
    finite = array[np.isfinite(array.astype(np.float64))] if array.dtype.kind != "i" else array
    if not finite.size:
        return ANY
    low, high = finite.min(), finite.max()
    if array.dtype.kind == "i":
        return float(low), float(high) + 1
    return (float(low), float(high)) if low < high else (float(low), float(np.nextafter(np.float32(low), np.inf)))


def like(payload: Payload, arrays: Sequence[Array]) -> Payload:
    """Return a payload whose random inputs are drawn from the ranges of the given arrays."""
    ranges = iter(map(range_of, arrays))
    arguments = []
    for argument in payload.arguments:
        low, high = ANY if argument.role == "output" else next(ranges)
        arguments.append(replace(argument, low=low, high=high))
    return replace(payload, arguments=tuple(arguments))
