"""Functions that execute graphs of aten operations; the first call, which has real tensors, compiles them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from autotune.contrib.torch_backend.calls import MadeOf, OutOfBoundsError, RegionProgram, is_dense
from autotune.contrib.torch_backend.first_calls import FirstCalls
from autotune.contrib.torch_backend.held import split
from autotune.contrib.torch_backend.indices import bounds_in, leave_doubtful
from autotune.contrib.torch_backend.kept import keep_checked, keep_uncovered, keep_wrong, read_uncovered
from autotune.contrib.torch_backend.options import BackendOptions
from autotune.contrib.torch_backend.programs import key_of, program_of
from autotune.contrib.torch_backend.regions import (
    GraphRegion,
    is_item,
    partition,
    refused_ops,
    say_once,
    say_replaced,
    supported,
    unknown_kind,
    why_not,
)
from autotune.core.errors import AutotuneError

Tensors = Sequence[torch.Tensor]
Run = Callable[[Tensors], Sequence[Any]]
MOST_TURNS = 16  # of taking ops out that the importer refuses


class GraphFunction:
    """Graph in PyTorch's boxed calling convention: takes a list of tensors, which it clears, and returns a list.

    Args:
        module: Functional graph.
        kinds: Kind of each placeholder: ``"weight"``, ``"constant"``, or ``""`` for a varying input.
        options: Options of the backend.
    """

    _boxed_call = True  # as PyTorch asks for functions that take one list

    def __init__(self, module: GraphModule, kinds: Sequence[str], options: BackendOptions) -> None:
        self._graph, self._lifted = lift(module)
        self._kinds, self._options = (*kinds, *("constant" for _ in self._lifted)), options
        self._lock = threading.Lock()
        self._fixed = [number for number, kind in enumerate(kinds) if kind == "constant"]
        self._run: Run | None = None

    def __call__(self, arguments: list[torch.Tensor]) -> Sequence[Any]:
        """Compute once."""
        tensors = (*arguments, *self._lifted)
        arguments.clear()
        if self._run is None:
            with self._lock:
                if self._run is None:
                    self._run = self._start(tensors)
        return self._run(tensors)

    def _start(self, tensors: Tensors) -> Run:
        """What calls run from now on."""
        with torch.no_grad():
            run = prepare(self._graph, self._kinds, tensors, self._options)
        if not self._fixed:
            return run
        first = MadeOf(lambda _: object())
        state = first.of([tensors[number] for number in self._fixed])

        def checked(given: Tensors) -> Sequence[Any]:
            if first.of([given[number] for number in self._fixed]) is state:
                return run(given)
            kinds = ["" if kind == "constant" else kind for kind in self._kinds]
            with self._lock, torch.no_grad():
                self._fixed, self._run = [], prepare(self._graph, kinds, given, self._options)
            return self._run(given)

        return checked


class WithGraphs:
    """An op of control flow, such as `torch.cond`, that has the graphs it runs; PyTorch runs it.

    Args:
        node: The node that calls the op.
        graphs: Nodes of the graphs, which are those of no tensors.
    """

    tags = (torch.Tag.nondeterministic_seeded,)  # as its graphs may

    def __init__(self, node: Node, graphs: Mapping[Node, torch.nn.Module]) -> None:
        self._op: Any = node.target
        self.__name__ = str(self._op)
        self._arguments, self._graphs = (node.args, node.kwargs), dict(graphs)
        self.tensors = [each for each in node.all_input_nodes if each not in graphs]

    def __call__(self, *values: object) -> Any:  # noqa: ANN401 - as the op has it
        """Call the op on values of `tensors`."""
        known = {**self._graphs, **dict(zip(self.tensors, values, strict=True))}
        arguments, named = map_arg(self._arguments, known.__getitem__)
        return self._op(*arguments, **named)

    def __str__(self) -> str:
        """The op, the same in every process."""
        return self.__name__


def bind_graphs(graph: Graph, module: GraphModule) -> None:
    """Let ops that run graphs have them, in place: what is left of a graph are ops on tensors."""
    held = {node: getattr(module, node.target) for node in graph.nodes if node.op == "get_attr"}
    graphs = {node: value for node, value in held.items() if isinstance(value, torch.nn.Module)}
    for node in dict.fromkeys(user for each in graphs for user in each.users):
        bound = WithGraphs(node, graphs)
        with graph.inserting_before(node):
            called = graph.call_function(bound, tuple(bound.tensors))
        called.meta = node.meta
        node.replace_all_uses_with(called)
        graph.erase_node(node)
    for node in graphs:
        graph.erase_node(node)


def lift(module: GraphModule) -> tuple[Graph, tuple[torch.Tensor, ...]]:
    """A copy of a graph, and the tensors that it holds, which are its last placeholders now."""
    graph = Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    bind_graphs(graph, module)
    last = next((node for node in reversed(graph.nodes) if node.op == "placeholder"), None)
    held: list[torch.Tensor] = []
    for node in [each for each in graph.nodes if each.op == "get_attr"]:
        with graph.inserting_after(last) if last is not None else graph.inserting_before(next(iter(graph.nodes))):
            last = graph.placeholder(f"lifted{len(held)}")
        held.append(getattr(module, node.target))
        last.meta["val"] = node.meta.get("val", held[-1])
        node.replace_all_uses_with(last)
        graph.erase_node(node)
    return graph, tuple(held)


def prepare(whole: Graph, kinds: Sequence[str], tensors: Tensors, options: BackendOptions) -> Run:
    """A function of all tensors of a graph: one program, or a module of programs and of PyTorch's own ops.

    Args:
        whole: The graph.
        kinds: Kinds of its placeholders, as in `GraphFunction`.
        tensors: A tensor for each placeholder.
        options: Options of the backend.
    """
    if not all(is_plain(each) for each in tensors if isinstance(each, torch.Tensor)):
        say_once("backend autotune: tensors must be dense ones on the processor, one is not; PyTorch runs the graph")
        return as_run(by_pytorch(whole))
    parts = split(whole, kinds)
    if parts.held is None:
        return prepare_rest(parts.graph, parts.kinds, tensors, options)
    compute = by_pytorch(parts.held.graph)
    held, sources = MadeOf(lambda weights: compute(*weights)), parts.sources
    values = (*tensors, *held.of([tensors[number] for number in sources]))
    run = prepare_rest(parts.graph, parts.kinds, values, options)
    return lambda given: run((*given, *held.of([given[number] for number in sources])))


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether programs can read a tensor: dense, on the processor, no subclass with a meaning of its own."""
    return is_dense(tensor) and not tensor.is_neg()


def as_run(module: torch.nn.Module) -> Run:
    """A module as a function of a sequence."""
    return lambda given: module(*given)


def by_pytorch(graph: Graph) -> GraphModule:
    """A copy of a graph as PyTorch runs it."""
    copied = Graph()
    copied.output(copied.graph_copy(graph, {}))
    copy_what_cannot_be_viewed(copied)
    return GraphModule(torch.nn.Module(), copied)


def copy_what_cannot_be_viewed(graph: Graph) -> None:
    """Let a graph copy where strides allow no view, in place: some ops, such as norms, give others than traced."""
    for node in graph.nodes:
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default


def prepare_rest(graph: Graph, kinds: Sequence[str], tensors: Tensors, options: BackendOptions) -> Run:
    """As `prepare`, of a graph that computes nothing of weights alone; ops that the importer refuses are left out."""
    leave_doubtful(graph, kinds, tensors)
    whole = GraphRegion(graph, tuple(kinds))
    constants = [tensor for tensor, kind in zip(tensors, kinds, strict=True) if kind == "constant"]
    record = options.folder / f"{key_of(whole, constants, options.threads)}.json"
    uncovered = known = read_uncovered(record)
    for _ in range(MOST_TURNS):
        try:
            run = build(whole, tensors, uncovered, options)
        except RefusedError as error:
            uncovered |= error.ops
            continue
        say_uncovered(graph, uncovered)
        if uncovered != known:
            keep_uncovered(record, uncovered)
        return run
    say_once(f"backend autotune: a graph of {len(graph.nodes)} nodes runs as PyTorch runs it, too many ops are refused")
    return as_run(by_pytorch(graph))


class RefusedError(Exception):
    """The importer refuses some ops.

    Attributes:
        ops: The ops.
    """

    def __init__(self, ops: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(ops)))
        self.ops = ops


def build(whole: GraphRegion, tensors: Tensors, uncovered: frozenset[str], options: BackendOptions) -> Run:
    """A graph without some ops, in programs.

    Raises:
        RefusedError: More ops are refused.
    """
    if supported(whole.graph, uncovered):
        return run_of(whole, tensors, options)
    module = partition(whole.graph, uncovered)
    kinds = dict(zip((node.name for node in whole.placeholders), whole.held, strict=True))
    values = dict(zip(kinds, tensors, strict=True))
    for node in [each for each in module.graph.nodes if each.op == "call_module"]:
        part: Any = module.get_submodule(node.target)
        names = [used.name for used in node.args]
        is_single = isinstance(part.graph.output_node().args[0], Node)
        region = as_region(part.graph, [kinds.get(name, "") for name in names])
        run = run_of(region, [values.get(name) for name in names], options)
        module.set_submodule(node.target, RegionModule(run, is_single=is_single))
    copy_what_cannot_be_viewed(module.graph)
    module.recompile()
    return as_run(module)


def as_region(graph: Graph, held: Sequence[str]) -> GraphRegion:
    """A submodule's graph as a region, whose output is a tuple."""
    output = graph.output_node()
    if isinstance(output.args[0], Node):
        output.args = ((output.args[0],),)
    return GraphRegion(graph, tuple(held))


class RegionModule(torch.nn.Module):  # type: ignore[misc]
    """A region in the module around it.

    Args:
        run: Function of the region's tensors.
        is_single: Whether that module expects a tensor and no tuple.
    """

    def __init__(self, run: Run, *, is_single: bool) -> None:
        super().__init__()
        self._run, self._is_single = run, is_single

    def forward(self, *tensors: torch.Tensor) -> Any:  # noqa: ANN401 - a tensor, or several
        """What the region gives."""
        results = self._run(tensors)
        return results[0] if self._is_single else tuple(results)


def run_of(region: GraphRegion, tensors: Sequence[torch.Tensor | None], options: BackendOptions) -> Run:
    """A region as a function of its tensors; PyTorch's own where it cannot be a program.

    Raises:
        RefusedError: The importer refuses some of its ops.
    """
    plain_run = cache(lambda: as_run(by_pytorch(region.graph)))  # hardly ever needed
    try:
        kept = program_of(region, tensors, options)
        known = zip(region.placeholders, tensors, region.held, strict=True)
        bounds = bounds_in(region.graph, {node: tensor for node, tensor, held in known if held == "constant"})
        program = RegionProgram(kept, region.results, options.threads, bounds)
    except AutotuneError as error:
        if ops := refused_ops(error, region.graph):
            raise RefusedError(ops) from error
        say_replaced(region.graph, error)
        return plain_run()
    except (MemoryError, OSError):
        raise
    except Exception as error:  # a fault of ours is the end of a program, not of the user's call
        from autotune.worker.bench.evaluate import our_fault  # of programs that are new alone

        say_replaced(region.graph, our_fault(error))
        return plain_run()
    if not kept.is_checked:
        given = [number for number, held in enumerate(region.held) if not held]
        return FirstCalls(
            program,
            stably(region.graph),
            given,
            options.error or 0.0,
            partial(keep_checked, kept),
            partial(keep_wrong, kept),
        )

    def run(given: Tensors) -> Sequence[Any]:
        try:
            return program(given)
        except OutOfBoundsError:
            return plain_run()(given)

    return run


def stably(graph: Graph) -> GraphModule:
    """A graph as a module that takes of equal elements the earlier ones, as programs do: PyTorch takes any."""
    from payload.importers.pt2_eager import sorting_stably  # of programs that are new alone

    module: GraphModule = sorting_stably(by_pytorch(graph))
    return module


def say_uncovered(graph: Graph, uncovered: frozenset[str]) -> None:
    """Say which ops run as PyTorch runs them, each once."""
    for node in graph.nodes:
        if node.op == "call_function" and not is_item(node):
            why = "the importer does not cover it" if str(node.target) in uncovered else why_not(node)
            if not why and (kind := unknown_kind(node)):
                why = f"programs have no {kind}"
            if why:
                say_once(f"backend autotune: {node.target} runs as PyTorch runs it: {why}")
