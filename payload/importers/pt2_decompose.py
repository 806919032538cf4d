"""Decomposition of functional programs one op at a time.

PyTorch's ``run_decompositions`` retraces a whole program twice. In a program without mutations and composite ops, only
the ops with a decomposition have to be traced, and equal calls, such as those of equal layers, only once.
"""

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Graph, GraphModule, Node

Table = Mapping[Any, Callable[..., Any]]


class WholeProgramError(Exception):
    """A program must be decomposed as a whole: it mutates tensors, has composite ops, or creates tensors of values."""


def decompose(program: "ExportedProgram", table: Table) -> "tuple[ExportedProgram, GraphModule]":
    """Decompose a program one op at a time if possible, otherwise as a whole.

    Args:
        program: Program to decompose.
        table: Decompositions by op.

    Returns:
        Program whose signature and values belong to the graph, and the decomposed graph.
    """
    try:
        return program, OpByOp(program, table).run()
    except WholeProgramError:
        whole = program.run_decompositions(dict(table))
        return whole, whole.graph_module


class OpByOp:
    """Decomposition of one program.

    Args:
        program: Program to decompose.
        table: Decompositions by op.
    """

    def __init__(self, program: "ExportedProgram", table: Table) -> None:
        from torch._guards import detect_fake_mode  # noqa: PLC0415 - comes with an extra
        from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415
        from torch.fx import Graph  # noqa: PLC0415

        self._program, self._table, self._graph = program, table, Graph()
        values = [node.meta.get("val") for node in program.graph.nodes]
        self._mode = detect_fake_mode(values) or FakeTensorMode()
        self._known: dict[Node, Any] = {}
        self._traced: dict[Any, Graph] = {}

    def run(self) -> "GraphModule":
        """Decompose the program.

        Raises:
            WholeProgramError: The program must be decomposed as a whole.
        """
        from torch.fx import GraphModule  # noqa: PLC0415
        from torch.fx.node import map_arg  # noqa: PLC0415
        from torch.nn import Module  # noqa: PLC0415

        nodes = list(self._program.graph.nodes)
        for node in nodes:
            check_plain(node)
        for node in nodes:
            if node.op == "output":
                self._graph.output(map_arg(node.args[0], self._known.__getitem__))
            elif node.target is operator.getitem and isinstance(self._known[node.args[0]], tuple):
                self._known[node] = self._known[node.args[0]][node.args[1]]
            elif node.target in self._table:
                self._known[node] = self._inlined(node)
            else:
                self._known[node] = self._graph.node_copy(node, self._known.__getitem__)
        return GraphModule(Module(), self._graph)

    def _inlined(self, node: "Node") -> Any:  # noqa: ANN401 - a node, or a tuple of nodes
        """Add the decomposition of a call; return the nodes of its results."""
        from torch.fx.traceback import NodeSource  # noqa: PLC0415
        from torch.utils._pytree import tree_flatten, tree_unflatten  # noqa: PLC0415

        flat, tree = tree_flatten((node.args, node.kwargs))
        operands = [self._known[each] for each in flat if is_node(each)]
        values = [self._known[each].meta["val"] if is_node(each) else each for each in flat]
        key = (node.target, str(tree), tuple(map(described, values)))
        if key not in self._traced:

            def call(*tensors: Any) -> Any:  # noqa: ANN401 - of PyTorch
                rest = iter(tensors)
                args, named = tree_unflatten([next(rest) if is_node(each) else each for each in flat], tree)
                return node.target(*args, **named)

            with self._mode:
                tensors = [separate(value) for each, value in zip(flat, values, strict=True) if is_node(each)]
                self._traced[key] = traced(call, tensors, self._table)
        graph, copies = self._traced[key], dict["Node", "Node"]()
        source = {"from_node": [NodeSource(node, "decomposition")], "nn_module_stack": node.meta.get("nn_module_stack")}
        placeholders = iter(operands)
        for each in graph.nodes:
            if each.op == "placeholder":
                copies[each] = next(placeholders)
            elif each.op == "call_function":
                copies[each] = self._graph.node_copy(each, copies.__getitem__)
                copies[each].meta = {"val": each.meta["val"], **source}
        results = graph.output_node().args[0]
        return tuple(copies.get(each) for each in results) if isinstance(results, tuple | list) else copies[results]


def is_node(value: object) -> bool:
    """Return whether an argument is a node."""
    from torch.fx import Node  # noqa: PLC0415

    return isinstance(value, Node)


def check_plain(node: "Node") -> None:
    """Raise unless a node can be decomposed without the rest of its program.

    Raises:
        WholeProgramError: The node mutates a tensor, is a composite op or none of PyTorch's, or has no static sizes.
    """
    from torch import Tensor  # noqa: PLC0415
    from torch._C import DispatchKey  # noqa: PLC0415
    from torch._ops import OpOverload  # noqa: PLC0415

    if node.op == "output" or node.target is operator.getitem:
        return
    value = node.meta.get("val")
    results = value if isinstance(value, tuple | list) else (value,)
    static = all(isinstance(size, int) for each in results if isinstance(each, Tensor) for size in each.shape)
    if node.op == "placeholder" and isinstance(value, Tensor) and static:
        return
    if node.op != "call_function" or not isinstance(node.target, OpOverload) or not static:
        raise WholeProgramError
    composite = node.target.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)
    if composite or node.target._schema.is_mutable:
        raise WholeProgramError


def described(value: Any) -> Any:  # noqa: ANN401 - an argument of an op
    """Return what a decomposition may depend on: the type and layout of a tensor, or the value of anything else."""
    from torch import Tensor  # noqa: PLC0415

    if isinstance(value, Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.storage_offset()
    return repr(value)  # where 0.0 and -0.0 differ, and 1 and True


def separate(tensor: Any) -> Any:  # noqa: ANN401
    """Return another fake tensor of the same layout: a trace tells operands apart by theirs; equal calls share them."""
    import torch  # noqa: PLC0415

    shape, strides, offset = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    elements = offset + 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return torch.empty(max(0, elements), dtype=tensor.dtype, device=tensor.device).as_strided(shape, strides, offset)


def traced(call: Callable[..., Any], tensors: list[Any], table: Table) -> "Graph":
    """Trace a function of fake tensors to a graph.

    Args:
        call: Function to trace.
        tensors: Arguments of the function.
        table: Decompositions by op.

    Raises:
        WholeProgramError: The graph has mutations, or tensors that were created from values.
    """
    from torch.fx.experimental.proxy_tensor import make_fx  # noqa: PLC0415 - comes with an extra

    graph = make_fx(call, decomposition_table=dict(table))(*tensors).graph
    for node in graph.nodes:
        if node.op in {"placeholder", "output"}:
            continue
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or (schema is not None and schema.is_mutable):
            raise WholeProgramError
    graph.eliminate_dead_code()
    return graph
