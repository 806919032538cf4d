"""Functional graphs, kept by the graphs of Dynamo's that PyTorch made them of; read as data, no pickle.

    store/KEY.functional: sha256 of the next line, which is JSON: the inputs it takes, their kinds, its nodes, and the
    small tensors that it holds

Kept are graphs of PyTorch's own ops that write none of their inputs and give new tensors alone: such a one is called as
it stands, whereas PyTorch wraps others in what writes and views. Whatever is damaged counts as not there.
"""

import hashlib
import json
import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Node

from autotune.contrib.torch_backend.kept import MOST_JSON, keep_text
from autotune.contrib.torch_backend.regions import GraphRegion, is_item, is_own_op
from autotune.core.host.files import read_file

MOST_HELD = 1 << 12  # elements of a tensor that a graph holds
ITEM = "getitem"
PLAIN = (type(None), bool, int, float, str)
NAMED = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}


class NotPlainError(Exception):
    """A graph has something that the format has not."""


@dataclass(frozen=True, eq=False)
class FunctionalGraph:
    """A graph that PyTorch made functional.

    Attributes:
        module: The graph, with the tensors that it holds.
        kinds: Kinds of its placeholders, as `GraphFunction` takes them.
        given: Number of the input of Dynamo's graph for each placeholder.
    """

    module: GraphModule
    kinds: tuple[str, ...]
    given: tuple[int, ...]


def inputs_of(graph: Graph) -> tuple[int, ...] | None:
    """Which inputs of Dynamo's graph a functional one takes, as PyTorch describes them.

    Returns:
        Numbers of them; `None` where one is written, or given out as it is or as a view: PyTorch is to say the rest.
    """
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None or metadata.tokens or metadata.num_intermediate_bases or metadata.grad_enabled_mutation:
        return None
    if any(each.mutates_data or each.mutates_metadata or each.mutates_storage_metadata for each in metadata.input_info):
        return None
    if any(each.output_type is not OutputType.non_alias for each in metadata.output_info):
        return None
    indices = [getattr(node.meta.get("desc"), "idx", None) for node in graph.nodes if node.op == "placeholder"]
    known = tuple(index for index in indices if index is not None)
    whole = len(known) == len(indices) and len(graph.output_node().args[0]) == len(metadata.output_info)
    return known if whole else None


def keep_functional(path: Path, functional: FunctionalGraph) -> None:
    """Keep a functional graph, if the format has all that it has and the file can be written."""
    with suppress(NotPlainError):
        text = json.dumps(written(functional))
        if len(text) < MOST_JSON and same(read_text(text), functional):
            keep_text(path, f"{hash_of(text)}\n{text}")


def read_functional(path: Path) -> FunctionalGraph | None:
    """The functional graph that was kept, if it is whole."""
    with suppress(OSError, UnicodeDecodeError):
        digest, _, text = read_file(path, MOST_JSON).decode().partition("\n")
        if digest == hash_of(text):
            return read_text(text)
    return None


def hash_of(text: str) -> str:
    """Hex sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def same(one: FunctionalGraph, other: FunctionalGraph) -> bool:
    """Return whether two graphs compute the same of the same."""
    texts = [GraphRegion(each.module.graph, each.kinds).text() for each in (one, other)]
    return texts[0] == texts[1] and one.given == other.given


def written(functional: FunctionalGraph) -> dict[str, Any]:
    """A functional graph as JSON has it.

    Raises:
        NotPlainError: A node calls an op that is not PyTorch's own, or a tensor is large.
    """
    nodes, held = [], {}
    for node in functional.module.graph.nodes:
        if node.op == "get_attr":
            held[node.target] = held_tensor(getattr(functional.module, node.target))
        values = [as_json(node.args), {name: as_json(each) for name, each in node.kwargs.items()}]
        nodes.append([node.name, node.op, name_of(node), *values, kind_of(node.meta.get("val"))])
    return {"given": functional.given, "kinds": functional.kinds, "nodes": nodes, "held": held}


def name_of(node: Node) -> str:
    """What a node calls, or holds, by name.

    Raises:
        NotPlainError: The node calls what is no op of PyTorch's own.
    """
    if node.op in {"placeholder", "get_attr", "output"}:
        return str(node.target)
    if is_item(node):
        return ITEM
    if is_own_op(node.target):
        return str(node.target)
    raise NotPlainError


def as_json(value: object) -> Any:  # noqa: ANN401 - JSON
    """An argument as JSON has it: what is no number, text or truth value is a list that begins with its kind.

    Raises:
        NotPlainError: The value is nothing that ops of PyTorch's take.
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, Node):
        return ["node", value.name]
    if isinstance(value, tuple | list):
        return ["tuple" if isinstance(value, tuple) else "list", *map(as_json, value)]
    if isinstance(value, torch.device):
        return ["device", str(value)]
    for name, kind in NAMED.items():
        if isinstance(value, kind):
            return [name, str(value).removeprefix("torch.")]
    raise NotPlainError


def kind_of(value: object) -> Any:  # noqa: ANN401 - JSON
    """Element type, sizes and strides of what a node gives.

    Raises:
        NotPlainError: The node gives something else than tensors of known sizes on the processor.
    """
    if value is None:
        return None
    if isinstance(value, tuple | list):
        return ["tuple", *map(kind_of, value)]
    if isinstance(value, torch.Tensor) and value.layout is torch.strided and value.device.type == "cpu":
        numbers = [*value.shape, *value.stride()]
        if all(type(number) is int for number in numbers):
            return [as_json(value.dtype), list(value.shape), list(value.stride())]
    raise NotPlainError


def held_tensor(value: object) -> Any:  # noqa: ANN401 - JSON
    """Element type, sizes and bytes of a tensor that a graph holds.

    Raises:
        NotPlainError: The tensor is a large one, or none.
    """
    if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor) or value.numel() > MOST_HELD:
        raise NotPlainError
    plain = value.detach().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return [as_json(value.dtype), list(value.shape), data.hex()]


def read_text(text: str) -> FunctionalGraph:
    """The functional graph of a text."""
    data = json.loads(text)
    root = torch.nn.Module()
    for name, (dtype, shape, digits) in data["held"].items():
        flat = torch.tensor(list(bytes.fromhex(digits)), dtype=torch.uint8)
        root.register_buffer(name, flat.view(value_of(dtype, {})).reshape(shape))
    graph, nodes, mode = Graph(), dict[str, Node](), FakeTensorMode()
    for name, op, target, args, kwargs, kind in data["nodes"]:
        values = value_of(args, nodes), {key: value_of(each, nodes) for key, each in kwargs.items()}
        node = graph.create_node(op, function_of(target) if op == "call_function" else target, *values, name=name)
        node.meta["val"] = tensors_of(kind, mode)
        nodes[name] = node
    return FunctionalGraph(GraphModule(root, graph), tuple(data["kinds"]), tuple(data["given"]))


def function_of(name: str) -> Any:  # noqa: ANN401 - an op
    """The op of a name."""
    if name == ITEM:
        return operator.getitem
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def value_of(value: Any, nodes: Mapping[str, Node]) -> Any:  # noqa: ANN401 - of JSON
    """An argument, as `as_json` wrote it."""
    if not isinstance(value, list):
        return value
    kind, *rest = value
    if kind == "node":
        return nodes[rest[0]]
    if kind in {"tuple", "list"}:
        parts = [value_of(each, nodes) for each in rest]
        return tuple(parts) if kind == "tuple" else parts
    if kind == "device":
        return torch.device(rest[0])
    return getattr(torch, rest[0])


def tensors_of(kind: Sequence[Any] | None, mode: FakeTensorMode) -> Any:  # noqa: ANN401 - tensors, or a tuple of them
    """Tensors without elements, as `kind_of` wrote them."""
    if kind is None:
        return None
    if kind[0] == "tuple":
        return tuple(tensors_of(each, mode) for each in kind[1:])
    dtype, shape, strides = kind
    with mode:
        return torch.empty_strided(shape, strides, dtype=value_of(dtype, {}), device="cpu")
