"""Programs: a graph as a payload, the same for every graph of its structure."""

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
    """A graph as a payload.

    Attributes:
        payload: Payload that computes it; `None` where no result has elements.
        inputs: Arguments of the traced function, as nodes; an argument without elements is not one of the payload's.
        constants: Known arrays that it reads, as nodes, in the order of the payload's arguments behind the inputs.
        results: Nodes that it gives.
        bounds: Number of indices that each input is read at, by its number: it holds whole numbers below that.
    """

    payload: Payload | None
    inputs: tuple[Node, ...]
    constants: tuple[Node, ...]
    results: tuple[Node, ...]
    bounds: tuple[tuple[int, int], ...]


def write_program(
    results: tuple[Node, ...], inputs: tuple[Node, ...], name: str = ENTRY, *, role: str = WEIGHT
) -> TensorProgram:
    """Write a graph as a payload.

    Args:
        results: Nodes to compute.
        inputs: Arguments of the function, in order.
        name: What the payload's name begins with.
        role: Role of known arrays; as inputs they may hold anything, and each stays one of its own.
    """
    nodes = behind(results)
    arrays = [node for node in nodes if node.op == ARRAY and 0 not in node.shape]
    same = stand_ins(arrays) if role == WEIGHT else {node: node for node in arrays}
    constants = tuple(dict.fromkeys(same.values()))
    wanted = [node for node in results if 0 not in node.shape]
    bounds = tuple((inputs.index(node), size) for node, size in indices_read(nodes) if node.op == INPUT)
    if not wanted:
        return TensorProgram(None, inputs, constants, results, bounds)
    read = [*((f"x{i}", node, "input") for i, node in enumerate(inputs) if 0 not in node.shape)]
    read += [(f"w{i}", node, role) for i, node in enumerate(constants)]
    arguments = [Argument(n, r, squeezed(node.shape), storage_of(node.dtype)) for n, node, r in read]
    arguments += [
        Argument(f"y{i}", "output", squeezed(node.shape), storage_of(node.dtype)) for i, node in enumerate(wanted)
    ]
    names = {node: name for name, node, _ in read}
    text = write_text(nodes, names | {node: names[stand_in] for node, stand_in in same.items()}, wanted, arguments)
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
    """For every known array the first of the same elements: a function that reads an array twice has it once."""
    found: dict[Node, Node] = {}
    for node in constants:
        alike = (first for first in found.values() if (first.shape, first.dtype) == (node.shape, node.dtype))
        found[node] = next((first for first in alike if have_same_bytes(first, node)), node)
    return found


def have_same_bytes(node: Node, other: Node) -> bool:
    """Return whether two known arrays of one shape and dtype hold the same, signs of zeros and NaNs too."""
    mine, others = (np.ascontiguousarray(cast(Array, each.array)).reshape(-1).view(np.uint8) for each in (node, other))
    return np.array_equal(mine, others)


def write_text(
    nodes: tuple[Node, ...], names: dict[Node, str], wanted: Sequence[Node], arguments: Sequence[Argument]
) -> str:
    """The module: one function over memrefs."""
    writer, leaves = Writer(), {}
    kinds = {argument.name: argument.type for argument in arguments}
    opened: dict[str, Stored] = {}
    for node, name in names.items():
        shape, element = squeezed(node.shape), storage_of(node.dtype)
        text = f"bufferization.to_tensor %{name} restrict : {kinds[name]} to TYPE"
        leaves[node] = opened[name] = opened.get(name) or writer.define(text, shape, element)
    views = lower(writer, nodes, leaves)
    for index, node in enumerate(wanted):
        value: Stored = writer.stored(views[node], storage_of(node.dtype))
        writer.lines.append(
            f"bufferization.materialize_in_destination {value.name} in restrict writable %y{index} : "
            f"({value.type}, {kinds[f'y{index}']}) -> ()"
        )
    signature = ", ".join(f"%{argument.name}: {argument.type}" for argument in arguments)
    body = "\n".join(f"    {line}" for line in [*writer.lines, "return"])
    return f"module {{\n  func.func @{ENTRY}({signature}) {{\n{body}\n  }}\n}}\n"


def indices_read(nodes: Sequence[Node]) -> list[tuple[Node, int]]:
    """Every node whose elements are indices, with how many there are: the least where it is read several times."""
    found: dict[Node, int] = {}
    for node in nodes:
        if node.op == "take":
            source, indices = node.inputs
            size = source.shape[node.attributes[0]]
            found[indices] = min(size, found.get(indices, size))
    return list(found.items())


def operations(node: Node) -> float:
    """Multiplications and additions of a contraction; nothing for what is below one percent of one."""
    if node.op == "matmul":
        return 2.0 * prod(node.shape) * node.inputs[0].shape[-1]
    return 2.0 * prod(node.shape) * prod(node.inputs[1].shape[1:]) if node.op == "conv2d" else 0.0


def longest_sum(nodes: Sequence[Node]) -> int:
    """Length of the longest chain of additions behind an element: what is summed, along what feeds what."""
    chain: dict[Node, int] = {}
    for node in nodes:
        chain[node] = max((chain[each] for each in node.inputs), default=0) + summed(node)
    return max(1, *chain.values())


def summed(node: Node) -> int:
    """How many elements an operation adds up for one."""
    if node.op == "fold" and node.attributes[0] in ("sum", "prod"):
        return prod(node.inputs[0].shape[axis] for axis in node.attributes[1])
    if node.op == "matmul":
        return node.inputs[0].shape[-1]
    return prod(node.inputs[1].shape[1:]) if node.op == "conv2d" else 0


def range_of(array: Array) -> tuple[float, float]:
    """What random data like an array are drawn from: its least element, and what is above its largest."""
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
    """A payload whose random inputs look like some arrays, which a search measures with, and a replay again."""
    ranges = iter(map(range_of, arrays))
    arguments = []
    for argument in payload.arguments:
        low, high = ANY if argument.role == "output" else next(ranges)
        arguments.append(replace(argument, low=low, high=high))
    return replace(payload, arguments=tuple(arguments))
