"""Regions as programs of `torch.export`, which the importer of ``.pt2`` files reads."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule
from torch.utils._pytree import tree_flatten, tree_map

if TYPE_CHECKING:
    from autotune.contrib.torch_backend.programs import GraphRegion

PREFIX = {"weight": "p_", "constant": "b_", "": ""}
RANK = {"weight": 0, "constant": 1, "": 2}  # parameters, buffers, then inputs, as `torch.export` orders them


def to_exported(region: "GraphRegion", tensors: Sequence[torch.Tensor | None]) -> ExportedProgram:
    """A region as an exported program: weights are its parameters ``w0, w1, ..``, constants its buffers.

    Args:
        region: The region.
        tensors: A tensor for each of its placeholders; `None` for those that calls give.
    """
    graph, copies, specs = Graph(), {}, []
    mode = FakeTensorMode()  # of its own: Dynamo's knows guards on the user's names
    state: dict[str, torch.Tensor] = {}
    given = []
    placeholders = list(zip(region.placeholders, region.held, tensors, strict=True))
    counts = dict.fromkeys(RANK, 0)
    for node, held, tensor in sorted(placeholders, key=lambda each: RANK[each[1]]):
        number, counts[held] = counts[held], counts[held] + 1
        name = {"weight": f"w{number}", "constant": f"c{number}", "": f"x{number}"}[held]
        copies[node] = copy = graph.placeholder(PREFIX[held] + name)
        copy.meta["val"] = like(mode, node.meta["val"])
        argument = TensorArgument(copy.name)
        plain = tensor.detach().contiguous() if tensor is not None else None
        if held == "weight":
            state[name] = nn.Parameter(plain, requires_grad=False)
            specs.append(InputSpec(InputKind.PARAMETER, argument, name))
        elif held == "constant":
            state[name] = plain
            specs.append(InputSpec(InputKind.BUFFER, argument, name, persistent=True))
        else:
            given.append(torch.zeros(tuple(node.meta["val"].shape), dtype=node.meta["val"].dtype, device="cpu"))
            specs.append(InputSpec(InputKind.USER_INPUT, argument, None))
    for node in region.graph.nodes:
        if node.op == "call_function":
            copies[node] = graph.node_copy(node, copies.__getitem__)
            copies[node].meta = {"val": tree_map(partial(like, mode), node.meta["val"])}
    results = tuple(copies[node] for node in region.graph.output_node().args[0])
    graph.output(results)
    written = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results]
    taken, gives = tree_flatten((tuple(given), {}))[1], tree_flatten(results)[1]
    calls = [ModuleCallEntry("", ModuleCallSignature([], [], taken, gives))]
    return ExportedProgram(
        GraphModule(nn.Module(), graph),
        graph,
        ExportGraphSignature(specs, written),
        state,
        {},
        calls,
        (tuple(given), {}),
        {},
    )


def like(mode: FakeTensorMode, value: Any) -> Any:  # noqa: ANN401 - what a node gives
    """A tensor without elements, of the same sizes, strides and element type; what is no tensor as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    with mode:
        return torch.empty_strided(tuple(map(int, value.shape)), tuple(map(int, value.stride())), dtype=value.dtype)
