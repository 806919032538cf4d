"""Functions that execute graphs of aten operations; the first call, which has real tensors, compiles them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from autotune.contrib.torch_backend.cached_programs import (
    read_uncovered,
    record_checked,
    record_uncovered,
    record_wrong,
)
from autotune.contrib.torch_backend.calls import DerivedValues, OutOfBoundsError, RegionProgram, is_dense
from autotune.contrib.torch_backend.first_calls import FirstCalls
from autotune.contrib.torch_backend.hoisting import split
from autotune.contrib.torch_backend.indices import bounds_in, exclude_unsafe
from autotune.contrib.torch_backend.options import BackendOptions
from autotune.contrib.torch_backend.programs import key_of, program_of
from autotune.contrib.torch_backend.regions import (
    GraphRegion,
    exclusion_reason,
    is_item,
    partition,
    refused_ops,
    supported,
    unsupported_type,
    warn_once,
    warn_replaced,
)
from autotune.core.errors import AutotuneError

Tensors = Sequence[torch.Tensor]
Run = Callable[[Tensors], Sequence[Any]]
MOST_ATTEMPTS = 16  # attempts to import a graph, each without the ops refused so far


class GraphFunction:
    """Graph in PyTorch's boxed calling convention: takes a list of tensors, which it clears, and returns a list.

    Args:
        module: Functional graph.
        kinds: Kind of each placeholder: ``"weight"``, ``"constant"``, or ``""`` for a varying input.
        options: Options of the backend.
    """

    _boxed_call = True  # PyTorch's mark of functions that take one list

    def __init__(self, module: GraphModule, kinds: Sequence[str], options: BackendOptions) -> None:
        self._graph, self._lifted = lift(module)
        self._kinds, self._options = (*kinds, *("constant" for _ in self._lifted)), options
        self._lock = threading.Lock()
        self._fixed = [number for number, kind in enumerate(kinds) if kind == "constant"]
        self._run: Run | None = None

    def __call__(self, arguments: list[torch.Tensor]) -> Sequence[Any]:
        """Run the graph, which is compiled on the first call."""
        tensors = (*arguments, *self._lifted)
        arguments.clear()
        if self._run is None:
            with self._lock:
                if self._run is None:
                    self._run = self._start(tensors)
        return self._run(tensors)

    def _start(self, tensors: Tensors) -> Run:
        """Compile the graph; return the function that calls run, which compiles it again if constants change."""
        with torch.no_grad():
            run = prepare(self._graph, self._kinds, tensors, self._options)
        if not self._fixed:
            return run
        first = DerivedValues(lambda _: object())
        state = first.get([tensors[number] for number in self._fixed])

        def checked(call_tensors: Tensors) -> Sequence[Any]:
            if first.get([call_tensors[number] for number in self._fixed]) is state:
                return run(call_tensors)
            kinds = ["" if kind == "constant" else kind for kind in self._kinds]
            with self._lock, torch.no_grad():
                self._fixed, self._run = [], prepare(self._graph, kinds, call_tensors, self._options)
            return self._run(call_tensors)

        return checked


class ControlFlowOp:
    """Op of control flow, such as `torch.cond`, with the graphs that it runs; PyTorch runs it.

    Args:
        node: Node that calls the op.
        graphs: Modules of the graphs, by the nodes that stand for them.
    """

    tags = (torch.Tag.nondeterministic_seeded,)  # its graphs may draw random numbers

    def __init__(self, node: Node, graphs: Mapping[Node, torch.nn.Module]) -> None:
        self._op: Any = node.target
        self.__name__ = str(self._op)
        self._arguments, self._graphs = (node.args, node.kwargs), dict(graphs)
        self.tensors = [each for each in node.all_input_nodes if each not in graphs]

    def __call__(self, *values: object) -> Any:  # noqa: ANN401 - results of any op
        """Call the op on values of `tensors`."""
        bindings = {**self._graphs, **dict(zip(self.tensors, values, strict=True))}
        arguments, named = map_arg(self._arguments, bindings.__getitem__)
        return self._op(*arguments, **named)

    def __str__(self) -> str:
        """Return the name of the op, which is the same in every process."""
        return self.__name__


def bind_graphs(graph: Graph, module: GraphModule) -> None:
    """Replace ops that take graphs by `ControlFlowOp`, in place, so that all operands are tensors or constants."""
    attributes = {node: getattr(module, node.target) for node in graph.nodes if node.op == "get_attr"}
    graphs = {node: value for node, value in attributes.items() if isinstance(value, torch.nn.Module)}
    for node in dict.fromkeys(user for each in graphs for user in each.users):
        bound = ControlFlowOp(node, graphs)
        with graph.inserting_before(node):
            called = graph.call_function(bound, tuple(bound.tensors))
        called.meta = node.meta
        node.replace_all_uses_with(called)
        graph.erase_node(node)
    for node in graphs:
        graph.erase_node(node)


def lift(module: GraphModule) -> tuple[Graph, tuple[torch.Tensor, ...]]:
    """Return a copy of a graph with its tensor attributes as the last placeholders, and these tensors."""
    graph = Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    bind_graphs(graph, module)
    last = next((node for node in reversed(graph.nodes) if node.op == "placeholder"), None)
    tensors: list[torch.Tensor] = []
    for node in [each for each in graph.nodes if each.op == "get_attr"]:
        with graph.inserting_after(last) if last is not None else graph.inserting_before(next(iter(graph.nodes))):
            last = graph.placeholder(f"lifted{len(tensors)}")
        tensors.append(getattr(module, node.target))
        last.meta["val"] = node.meta.get("val", tensors[-1])
        node.replace_all_uses_with(last)
        graph.erase_node(node)
    return graph, tuple(tensors)


def prepare(graph: Graph, kinds: Sequence[str], tensors: Tensors, options: BackendOptions) -> Run:
    """Return a function of all tensors of a graph, which runs one program, or several and ops of PyTorch.

    Args:
        graph: The graph.
        kinds: Kind of each placeholder, as in `GraphFunction`.
        tensors: A tensor for each placeholder.
        options: Options of the backend.
    """
    if not all(is_plain(each) for each in tensors if isinstance(each, torch.Tensor)):
        warn_once("backend autotune: tensors must be dense ones on the processor, one is not; PyTorch runs the graph")
        return as_run(eager_module(graph))
    parts = split(graph, kinds)
    if parts.hoisted is None:
        return prepare_hoisted(parts.graph, parts.kinds, tensors, options)
    compute = eager_module(parts.hoisted.graph)
    hoisted, sources = DerivedValues(lambda weights: compute(*weights)), parts.sources
    values = (*tensors, *hoisted.get([tensors[number] for number in sources]))
    run = prepare_hoisted(parts.graph, parts.kinds, values, options)
    return lambda call_tensors: run((*call_tensors, *hoisted.get([call_tensors[number] for number in sources])))


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether programs can read a tensor: dense, on the CPU, neither a subclass nor a negated view."""
    return is_dense(tensor) and not tensor.is_neg()


def as_run(module: torch.nn.Module) -> Run:
    """Adapt a module to a function of a sequence of tensors."""
    return lambda tensors: module(*tensors)


def eager_module(graph: Graph) -> GraphModule:
    """Return a module that PyTorch runs, with a copy of a graph."""
    copied = Graph()
    copied.output(copied.graph_copy(graph, {}))
    replace_views(copied)
    return GraphModule(torch.nn.Module(), copied)


def replace_views(graph: Graph) -> None:
    """Replace views by reshapes, in place: some ops, such as norms, return strides other than the traced ones."""
    for node in graph.nodes:
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default


def prepare_hoisted(graph: Graph, kinds: Sequence[str], tensors: Tensors, options: BackendOptions) -> Run:
    """Prepare a graph whose computations on weights are hoisted; PyTorch runs ops that the importer refuses."""
    exclude_unsafe(graph, kinds, tensors)
    region = GraphRegion(graph, tuple(kinds))
    constants = [tensor for tensor, kind in zip(tensors, kinds, strict=True) if kind == "constant"]
    record = options.folder / f"{key_of(region, constants, options.threads)}.json"
    uncovered = recorded = read_uncovered(record)
    for _ in range(MOST_ATTEMPTS):
        try:
            run = build(region, tensors, uncovered, options)
        except RefusedError as error:
            uncovered |= error.ops
            continue
        warn_uncovered(graph, uncovered)
        if uncovered != recorded:
            record_uncovered(record, uncovered)
        return run
    warn_once(
        f"backend autotune: a graph of {len(graph.nodes)} nodes runs as PyTorch runs it, too many ops are refused"
    )
    return as_run(eager_module(graph))


class RefusedError(Exception):
    """The importer refuses some ops.

    Attributes:
        ops: Names of the ops.
    """

    def __init__(self, ops: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(ops)))
        self.ops = ops


def build(graph_region: GraphRegion, tensors: Tensors, uncovered: frozenset[str], options: BackendOptions) -> Run:
    """Return a function of the tensors of a graph, with programs for all but uncovered ops.

    Raises:
        RefusedError: The importer refuses other ops.
    """
    if supported(graph_region.graph, uncovered):
        return run_of(graph_region, tensors, options)
    module = partition(graph_region.graph, uncovered)
    kinds = dict(zip((node.name for node in graph_region.placeholders), graph_region.kinds, strict=True))
    values = dict(zip(kinds, tensors, strict=True))
    for node in [each for each in module.graph.nodes if each.op == "call_module"]:
        part: Any = module.get_submodule(node.target)
        names = [used.name for used in node.args]
        is_single = isinstance(part.graph.output_node().args[0], Node)
        region = as_region(part.graph, [kinds.get(name, "") for name in names])
        run = run_of(region, [values.get(name) for name in names], options)
        module.set_submodule(node.target, RegionModule(run, is_single=is_single))
    replace_views(module.graph)
    module.recompile()
    return as_run(module)


def as_region(graph: Graph, kinds: Sequence[str]) -> GraphRegion:
    """Return the graph of a submodule as a region; its output is made a tuple, in place."""
    output = graph.output_node()
    if isinstance(output.args[0], Node):
        output.args = ((output.args[0],),)
    return GraphRegion(graph, tuple(kinds))


class RegionModule(torch.nn.Module):  # type: ignore[misc]
    """Region as a submodule of a partitioned graph.

    Args:
        run: Function of the region's tensors.
        is_single: Whether the parent module expects a tensor instead of a tuple.
    """

    def __init__(self, run: Run, *, is_single: bool) -> None:
        super().__init__()
        self._run, self._is_single = run, is_single

    def forward(self, *tensors: torch.Tensor) -> Any:  # noqa: ANN401 - a tensor, or several
        """Return the results of the region."""
        results = self._run(tensors)
        return results[0] if self._is_single else tuple(results)


def run_of(region: GraphRegion, tensors: Sequence[torch.Tensor | None], options: BackendOptions) -> Run:
    """Return a function of the tensors of a region, which PyTorch runs if it cannot be compiled.

    Raises:
        RefusedError: The importer refuses some of its ops.
    """
    plain_run = cache(lambda: as_run(eager_module(region.graph)))  # rarely needed
    try:
        cached = program_of(region, tensors, options)
        placeholders = zip(region.placeholders, tensors, region.kinds, strict=True)
        bounds = bounds_in(region.graph, {node: tensor for node, tensor, kind in placeholders if kind == "constant"})
        program = RegionProgram(cached, region.results, options.threads, bounds)
    except AutotuneError as error:
        if ops := refused_ops(error, region.graph):
            raise RefusedError(ops) from error
        warn_replaced(region.graph, error)
        return plain_run()
    except (MemoryError, OSError):
        raise
    except Exception as error:  # a fault of the compiler must not end the user's call
        from autotune.worker.bench.evaluate import our_fault  # heavy, and not needed for cached programs

        warn_replaced(region.graph, our_fault(error))
        return plain_run()
    if not cached.is_checked:
        varying = [number for number, kind in enumerate(region.kinds) if not kind]
        return FirstCalls(
            program,
            stable_module(region.graph),
            varying,
            options.error or 0.0,
            partial(record_checked, cached),
            partial(record_wrong, cached),
        )

    def run(call_tensors: Tensors) -> Sequence[Any]:
        try:
            return program(call_tensors)
        except OutOfBoundsError:
            return plain_run()(call_tensors)

    return run


def stable_module(graph: Graph) -> GraphModule:
    """Return a module of a graph that selects the first of equal elements, as programs do; PyTorch may select any."""
    from payload.importers.pt2_eager import sorting_stably  # heavy, and not needed for cached programs

    module: GraphModule = sorting_stably(eager_module(graph))
    return module


def warn_uncovered(graph: Graph, uncovered: frozenset[str]) -> None:
    """Warn of each op that PyTorch runs, once, with the reason."""
    for node in graph.nodes:
        if node.op == "call_function" and not is_item(node):
            reason = "the importer does not cover it" if str(node.target) in uncovered else exclusion_reason(node)
            if not reason and (unsupported := unsupported_type(node)):
                reason = f"programs have no {unsupported}"
            if reason:
                warn_once(f"backend autotune: {node.target} runs as PyTorch runs it: {reason}")
