"""Partition of a graph into regions that become programs and operations between them that PyTorch runs."""

import operator
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from autotune.contrib.torch_backend.calls import TORCH_DTYPES
from autotune.contrib.torch_backend.hoisting import VIEWS, is_random
from autotune.contrib.torch_backend.indices import EXCLUDED
from autotune.core.errors import AutotuneError

NAMED = re.compile(r"node \S+ \((aten\.[\w.]+|prims\.[\w.]+)\)|(?:torch\.)(aten\.[\w.]+|prims\.[\w.]+)")
LEAST_OPS = 2  # least number of computing operations in a region between others
DTYPES = frozenset({*TORCH_DTYPES.values(), torch.bool} - {torch.float64})
NAMESPACES = ("aten", "prims")  # namespaces of PyTorch ops
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
WARNED = set[str]()


class BackendWarning(UserWarning):
    """Warning that PyTorch runs a part of a graph, or that a graph is compiled more than once."""


def warn_once(sentence: str) -> None:
    """Emit a one-line warning once per process."""
    if sentence not in WARNED:
        WARNED.add(sentence)
        warnings.warn(sentence, BackendWarning, stacklevel=2)


def warn_replaced(graph: Graph, reason: object) -> None:
    """Warn that PyTorch runs a region."""
    warn_once(f"backend autotune: a region of {len(graph.nodes)} ops runs as PyTorch runs it: {reason}")


@dataclass(frozen=True, eq=False)
class GraphRegion:
    """Graph of aten operations that becomes one program.

    Attributes:
        graph: Graph of placeholders, calls of operations, and one output that is a tuple.
        kinds: Kind of each placeholder: ``"weight"``, ``"constant"``, or ``""`` for a varying input.
    """

    graph: Graph
    kinds: tuple[str, ...]

    @property
    def placeholders(self) -> list[Node]:
        """Placeholders of the graph, in order."""
        return [node for node in self.graph.nodes if node.op == "placeholder"]

    @property
    def results(self) -> list[torch.Tensor]:
        """Results of the graph, as fake tensors."""
        return [node.meta["val"] for node in self.graph.output_node().args[0]]

    def text(self) -> str:
        """Return the graph as text that is the same in every process."""
        lines = []
        for node in self.graph.nodes:
            value = node.meta.get("val")
            layout = f" {tuple(value.shape)} {value.dtype} {value.stride()}" if isinstance(value, torch.Tensor) else ""
            lines.append(f"{node.name} {node.op} {node.target} {node.args} {node.kwargs}{layout}")
        return "\n".join([*lines, *self.kinds])


def allowed_error(error: float | None, results: Iterable[torch.Tensor]) -> float:
    """Return the allowed error, relative to the largest element of each result.

    By default it is the machine epsilon of 16-bit float results, and 0 for others.

    Args:
        error: Option `error`; `None` for the default.
        results: The results, with or without elements.
    """
    if error is not None:
        return error
    floats = [result for result in results if result.is_floating_point()]
    return min((torch.finfo(each.dtype).eps if each.itemsize == 2 else 0.0 for each in floats), default=0.0)


class Coverage(OperatorSupportBase):  # type: ignore[misc]
    """Which nodes may be in a region.

    Args:
        uncovered: Ops that the importer refused.
        views: Names of nodes that must stay views of others.
    """

    def __init__(self, uncovered: frozenset[str], views: frozenset[str] = frozenset()) -> None:
        self._uncovered, self._views = uncovered, views

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        """Return whether the importer may cover a node: an op of PyTorch that mutates no operand and is not random."""
        if node.op != "call_function":
            return False
        if is_item(node):
            return self.is_node_supported(submodules, node.all_input_nodes[0])
        if str(node.target) in self._uncovered or node.name in self._views or exclusion_reason(node):
            return False
        return not unsupported_type(node)


def exclusion_reason(node: Node) -> str:
    """Return why an operation cannot be in a region, regardless of the importer; empty if it can."""
    op = node.target
    if not is_own_op(op):
        return "it is no op of PyTorch's own"
    if op._schema.is_mutable:
        return "it changes a tensor in place"
    if op._schema.name.split("::")[1].removeprefix("new_").startswith("empty"):
        return "it gives memory that nothing has written"
    if not op._schema.returns:
        return "it gives no tensor"  # but an error, perhaps
    return "it draws random numbers" if is_random(node) else str(node.meta.get(EXCLUDED, ""))


def is_own_op(function: object) -> bool:
    """Return whether a function is an op of PyTorch's own, in one of its forms."""
    return isinstance(function, torch._ops.OpOverload) and function.namespace in NAMESPACES


def unsupported_type(node: Node) -> str:
    """Return what programs do not support among the operands and results of a node, in words; empty if nothing."""
    for each in (node, *node.all_input_nodes):
        if isinstance(each.meta.get("val"), SYMBOLIC):
            return "numbers that are computed"
        for value in values_of(each):
            if value.dtype not in DTYPES:
                return f"tensors of {str(value.dtype).removeprefix('torch.')}"
            if any(isinstance(size, torch.SymInt) for size in value.shape) and free_unbacked_symbols(value):
                return "tensors of data-dependent sizes"
            if value.device.type != "cpu":
                return f"tensors on a device {value.device.type}"
            if not value.numel():
                return "tensors without elements"
    return ""


def values_of(node: Node) -> list[torch.Tensor]:
    """Return the results of a node as fake tensors; of several, those that are read."""
    if isinstance(value := node.meta.get("val"), torch.Tensor):
        return [value]
    return [each.meta["val"] for each in node.users if isinstance(each.meta.get("val"), torch.Tensor) and is_item(each)]


def is_item(node: Node) -> bool:
    """Return whether a node is one of the results of another."""
    return node.target is operator.getitem


def supported(graph: Graph, uncovered: frozenset[str]) -> bool:
    """Return whether a whole graph may become one program."""
    coverage = Coverage(uncovered, shared_views(graph))
    calls = [node for node in graph.nodes if node.op == "call_function"]
    results = graph.output_node().args[0]
    plain = all(isinstance(node, Node) and node.op == "call_function" for node in results)
    distinct = len(set(results)) == len(results)
    return bool(calls) and plain and distinct and all(coverage.is_node_supported({}, node) for node in calls)


def shared_views(graph: Graph) -> frozenset[str]:
    """Return the names of views through which results of a graph alias: a write to one changes the others."""
    chains = dict[Node, list[list[Node]]]()
    for result in {node for node in graph.output_node().args[0] if isinstance(node, Node)}:
        chain, base = list[Node](), result
        while base.op == "call_function" and base.target in VIEWS:
            chain.append(base)
            base = base.all_input_nodes[0]
        chains.setdefault(base, []).append(chain)
    return frozenset(
        node.name for aliases in chains.values() if len(aliases) > 1 for chain in aliases for node in chain
    )


def refused_ops(error: AutotuneError, graph: Graph) -> frozenset[str]:
    """Return the operations of a graph that an error message names."""
    names = {name for match in NAMED.finditer(str(error)) for name in match.groups() if name}
    targets = {str(node.target) for node in graph.nodes if node.op == "call_function"}
    return frozenset(target for target in targets if any(target == n or target.startswith(f"{n}.") for n in names))


def partition(graph: Graph, uncovered: frozenset[str]) -> GraphModule:
    """Partition a graph into a module of regions, each a call of a submodule, and the operations between them."""
    copied = Graph()
    copied.output(copied.graph_copy(graph, {}))
    module, coverage = GraphModule(torch.nn.Module(), copied), Coverage(uncovered, shared_views(copied))
    partitioner = CapabilityBasedPartitioner(module, coverage, allows_single_node_partition=False)
    partitions = [part for part in partitioner.propose_partitions() if sum(map(computes, part.nodes)) >= LEAST_OPS]
    return partitioner.fuse_partitions(partitions)


def computes(node: Node) -> bool:
    """Return whether a node is an operation other than a view."""
    return node.op == "call_function" and node.target not in VIEWS and not is_item(node)
