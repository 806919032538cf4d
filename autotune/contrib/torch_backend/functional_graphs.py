"""Disk cache of functional graphs, by the key of Dynamo's graph; read as plain data, not pickle.

    store/KEY.functional: sha256 of the next line, which is JSON: numbers of the inputs (`given`), kinds of the
    placeholders, nodes, and small tensors that are attributes of the graph (`held`)

Only graphs of PyTorch's own ops that write no input and return new tensors are cached. These can be called directly;
for others, PyTorch adds wrappers that apply the writes and create the views. Damaged entries are ignored.
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

from autotune.contrib.torch_backend.cached_programs import MOST_JSON, write_text
from autotune.contrib.torch_backend.regions import GraphRegion, is_item, is_own_op
from autotune.core.host.files import read_file

MOST_ELEMENTS = 1 << 12  # maximum number of elements of a tensor attribute
ITEM = "getitem"
SCALAR_TYPES = (type(None), bool, int, float, str)
ENUM_TYPES = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}


class NotSerializableError(Exception):
    """A graph has a value or an op that the format does not support."""


@dataclass(frozen=True, eq=False)
class FunctionalGraph:
    """Graph that PyTorch functionalized.

    Attributes:
        module: The graph, with its tensor attributes.
        kinds: Kind of each placeholder, as in `GraphFunction`.
        input_numbers: Number of the input of Dynamo's graph for each placeholder.
    """

    module: GraphModule
    kinds: tuple[str, ...]
    input_numbers: tuple[int, ...]


def inputs_of(graph: Graph) -> tuple[int, ...] | None:
    """Return which inputs of Dynamo's graph a functional graph takes, according to PyTorch's metadata.

    Returns:
        Numbers of the inputs; `None` if PyTorch must wrap the graph: an input is written, or a result is an alias.
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
    numbers = tuple(index for index in indices if index is not None)
    is_complete = len(numbers) == len(indices) and len(graph.output_node().args[0]) == len(metadata.output_info)
    return numbers if is_complete else None


def write_functional(path: Path, functional: FunctionalGraph) -> None:
    """Write a functional graph, if the format supports it and the file can be written."""
    with suppress(NotSerializableError):
        text = json.dumps(graph_as_json(functional))
        if len(text) < MOST_JSON and same(read_text(text), functional):
            write_text(path, f"{hash_of(text)}\n{text}")


def read_functional(path: Path) -> FunctionalGraph | None:
    """Read a functional graph; return `None` if the file is missing or damaged."""
    with suppress(OSError, UnicodeDecodeError):
        digest, _, text = read_file(path, MOST_JSON).decode().partition("\n")
        if digest == hash_of(text):
            return read_text(text)
    return None


def hash_of(text: str) -> str:
    """Return the hex sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def same(first: FunctionalGraph, second: FunctionalGraph) -> bool:
    """Return whether two graphs have the same text and take the same inputs."""
    texts = [GraphRegion(each.module.graph, each.kinds).text() for each in (first, second)]
    return texts[0] == texts[1] and first.input_numbers == second.input_numbers


def graph_as_json(functional: FunctionalGraph) -> dict[str, Any]:
    """Convert a functional graph to JSON.

    Raises:
        NotSerializableError: A node calls an op that is not PyTorch's own, or a tensor is too large.
    """
    nodes, tensors = [], {}
    for node in functional.module.graph.nodes:
        if node.op == "get_attr":
            tensors[node.target] = tensor_as_json(getattr(functional.module, node.target))
        values = [as_json(node.args), {name: as_json(each) for name, each in node.kwargs.items()}]
        nodes.append([node.name, node.op, name_of(node), *values, type_as_json(node.meta.get("val"))])
    return {"given": functional.input_numbers, "kinds": functional.kinds, "nodes": nodes, "held": tensors}


def name_of(node: Node) -> str:
    """Return the name of the op or attribute of a node.

    Raises:
        NotSerializableError: The node calls an op that is not PyTorch's own.
    """
    if node.op in {"placeholder", "get_attr", "output"}:
        return str(node.target)
    if is_item(node):
        return ITEM
    if is_own_op(node.target):
        return str(node.target)
    raise NotSerializableError


def as_json(value: object) -> Any:  # noqa: ANN401 - JSON
    """Convert an argument to JSON; a value that JSON does not have becomes a list that starts with its type.

    Raises:
        NotSerializableError: The value is of a type that PyTorch's ops do not take.
    """
    if type(value) in SCALAR_TYPES:
        return value
    if isinstance(value, Node):
        return ["node", value.name]
    if isinstance(value, tuple | list):
        return ["tuple" if isinstance(value, tuple) else "list", *map(as_json, value)]
    if isinstance(value, torch.device):
        return ["device", str(value)]
    for name, enum_type in ENUM_TYPES.items():
        if isinstance(value, enum_type):
            return [name, str(value).removeprefix("torch.")]
    raise NotSerializableError


def type_as_json(value: object) -> Any:  # noqa: ANN401 - JSON
    """Convert the element type, sizes and strides of a node's results to JSON.

    Raises:
        NotSerializableError: A result is not a CPU tensor of static sizes.
    """
    if value is None:
        return None
    if isinstance(value, tuple | list):
        return ["tuple", *map(type_as_json, value)]
    if isinstance(value, torch.Tensor) and value.layout is torch.strided and value.device.type == "cpu":
        numbers = [*value.shape, *value.stride()]
        if all(type(number) is int for number in numbers):
            return [as_json(value.dtype), list(value.shape), list(value.stride())]
    raise NotSerializableError


def tensor_as_json(value: object) -> Any:  # noqa: ANN401 - JSON
    """Convert a tensor attribute to JSON: element type, sizes and bytes.

    Raises:
        NotSerializableError: The value is not a tensor, or it is too large.
    """
    if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor) or value.numel() > MOST_ELEMENTS:
        raise NotSerializableError
    plain = value.detach().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return [as_json(value.dtype), list(value.shape), data.hex()]


def read_text(text: str) -> FunctionalGraph:
    """Parse a functional graph."""
    data = json.loads(text)
    root = torch.nn.Module()
    for name, (dtype, shape, digits) in data["held"].items():
        flat = torch.tensor(list(bytes.fromhex(digits)), dtype=torch.uint8)
        root.register_buffer(name, flat.view(value_of(dtype, {})).reshape(shape))
    graph, nodes, mode = Graph(), dict[str, Node](), FakeTensorMode()
    for name, op, target, args, kwargs, tensor_type in data["nodes"]:
        values = value_of(args, nodes), {key: value_of(each, nodes) for key, each in kwargs.items()}
        node = graph.create_node(op, function_of(target) if op == "call_function" else target, *values, name=name)
        node.meta["val"] = fake_tensors(tensor_type, mode)
        nodes[name] = node
    return FunctionalGraph(GraphModule(root, graph), tuple(data["kinds"]), tuple(data["given"]))


def function_of(name: str) -> Any:  # noqa: ANN401 - an op
    """Return the op with a name."""
    if name == ITEM:
        return operator.getitem
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def value_of(value: Any, nodes: Mapping[str, Node]) -> Any:  # noqa: ANN401 - of JSON
    """Return the argument that `as_json` converted."""
    if not isinstance(value, list):
        return value
    tag, *rest = value
    if tag == "node":
        return nodes[rest[0]]
    if tag in {"tuple", "list"}:
        parts = [value_of(each, nodes) for each in rest]
        return tuple(parts) if tag == "tuple" else parts
    if tag == "device":
        return torch.device(rest[0])
    return getattr(torch, rest[0])


def fake_tensors(tensor_type: Sequence[Any] | None, mode: FakeTensorMode) -> Any:  # noqa: ANN401 - tensors, or a tuple of them
    """Return fake tensors of the types that `type_as_json` converted."""
    if tensor_type is None:
        return None
    if tensor_type[0] == "tuple":
        return tuple(fake_tensors(each, mode) for each in tensor_type[1:])
    dtype, shape, strides = tensor_type
    with mode:
        return torch.empty_strided(shape, strides, dtype=value_of(dtype, {}), device="cpu")
