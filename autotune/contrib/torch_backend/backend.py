"""Dynamo backend, which ``torch.compile(model, backend="autotune")`` finds by its entry point.

PyTorch functionalizes each graph, which removes mutations of inputs and views of them; PyTorch applies these itself to
the results of the compiled functions.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.convert_frame import compile_lock
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from autotune.contrib.torch_backend.decompositions import DECOMPOSITIONS
from autotune.contrib.torch_backend.dynamo_graphs import STATIC, key_of_graph
from autotune.contrib.torch_backend.functional_graphs import (
    FunctionalGraph,
    inputs_of,
    read_functional,
    write_functional,
)
from autotune.contrib.torch_backend.graphs import GraphFunction
from autotune.contrib.torch_backend.hoisting import transformed_weights
from autotune.contrib.torch_backend.options import BackendOptions, read_options
from autotune.contrib.torch_backend.regions import warn_once
from autotune.core.errors import OptionError

FIRST_SIZES = 4  # sizes of a graph that are compiled when it is first called with them; others, the second time
MOST_SIZES = 64  # maximum number of compiled sizes per graph
# What an op that takes a number raises for a tensor of it: PyTorch's own, such as `torch.full`, and ops of libraries.
TAKES_A_NUMBER = (RuntimeError, TypeError)
WRITTEN_INPUT = "InputMutationAOTOutput"  # PyTorch's descriptor of a result that is the new value of an input


def compile_graph(
    module: GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph.

    Args:
        module: The graph.
        inputs: Inputs of the graph: parameters, buffers, and the user's tensors and numbers.
        mode: Mode of `torch.compile`; only the default is supported.
        options: Options by name, those of `BackendOptions`.

    Raises:
        OptionError: An option is unknown or out of its range; or the graph is for training.
    """
    backend_options = read_options(options, mode)
    open_sizes = any(isinstance(size, torch.SymInt) for each in inputs for size in sizes_of(each))
    if open_sizes:
        return SpecializedGraph(module, backend_options)
    with suppress(DataDependentOutputException):
        return functional(module, inputs, backend_options)
    fake: Any = TracingContext.get().fake_mode
    fake.allow_scalar_outputs = True  # an element is read as a number, such as an index of rank 0
    return functional(module, inputs, backend_options)


def with_tensors_of_numbers(module: GraphModule) -> GraphModule:
    """Rewrite a graph to use the tensors in which Dynamo passes varying real numbers, instead of their `item`.

    The result of `item` is not a tensor, so a program could not compute with it.
    """
    items = [node for node in module.graph.nodes if is_item_of_number(node)]
    if not items:
        return module
    graph, copies = Graph(), dict[Node, Node]()
    graph.output(graph.graph_copy(module.graph, copies))
    for node in (copies[each] for each in items):
        with graph.inserting_before(node):
            number = graph.call_method("to", (node.args[0], torch.get_default_dtype()))
        node.replace_all_uses_with(number)
        graph.erase_node(node)
    return GraphModule(module, graph)


def with_numbers(module: GraphModule, inputs: Sequence[Any]) -> GraphModule:
    """Rewrite a graph to use the present values of real numbers passed in tensors as constants.

    Args:
        module: The graph.
        inputs: Inputs of the graph.
    """
    graph, copies = Graph(), dict[Node, Node]()
    graph.output(graph.graph_copy(module.graph, copies))
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    values = dict(zip(placeholders, inputs, strict=True))
    for node in [each for each in module.graph.nodes if is_item_of_number(each)]:
        copies[node].replace_all_uses_with(values[node.args[0]].item())
        graph.erase_node(copies[node])
    return GraphModule(module, graph)


def is_item_of_number(node: Node) -> bool:
    """Return whether a node of Dynamo's graph is the `item` of a tensor in which a real number is passed."""
    source = node.args[0] if node.op == "call_method" and node.target == "item" else None
    is_input = isinstance(source, Node) and source.op == "placeholder"
    return is_input and isinstance(node.meta.get("example_value"), torch.SymFloat)


def sizes_of(value: object) -> tuple[Any, ...]:
    """Return the numbers of a value that may be symbolic: the sizes of a tensor, or a number itself."""
    return tuple(value.shape) if isinstance(value, torch.Tensor) else (value,)


def functional(
    module: GraphModule,
    inputs: Sequence[Any],
    options: BackendOptions,
    on_graph: Callable[[GraphModule], None] | None = None,
) -> Callable[..., Any]:
    """Functionalize and compile a graph of static sizes, or load the cached functional graph.

    Args:
        module: The graph.
        inputs: Inputs of the graph.
        options: Options of the backend.
        on_graph: Function called with the functional graph.
    """
    key = key_of_graph(module, inputs)
    path = options.folder / f"{key}.functional" if key is not None else None
    if path is not None and (cached := read_functional(path)) is not None:
        return as_dynamo_calls(GraphFunction(cached.module, cached.kinds, options), cached.input_numbers)
    cacheable: list[FunctionalGraph] = []
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    static = [STATIC in (node.meta.get("tensor_dict") or {}) for node in placeholders]

    def compile_inference(graph: GraphModule, _: Sequence[Any]) -> GraphFunction:
        if on_graph is not None:
            on_graph(graph)
        kinds = kinds_of(graph, static)
        if (input_numbers := inputs_of(graph.graph)) is not None:
            cacheable.append(FunctionalGraph(graph, tuple(kinds), input_numbers))
        return GraphFunction(graph, kinds, options)

    compiler: Any = aot_autograd(
        fw_compiler=refuse, inference_compiler=compile_inference, decompositions=DECOMPOSITIONS
    )
    if (with_tensors := with_tensors_of_numbers(module)) is not module:
        with suppress(*TAKES_A_NUMBER):
            return compiler(with_tensors, inputs)  # type: ignore[no-any-return]
    compiled = compiler(module, inputs)
    if path is not None and cacheable:
        write_functional(path, cacheable[0])
    return compiled  # type: ignore[no-any-return]


def as_dynamo_calls(function: GraphFunction, input_numbers: Sequence[int]) -> Callable[..., Any]:
    """Adapt a function of a list of tensors to the inputs of Dynamo's graph.

    Args:
        function: Function of a list.
        input_numbers: Index of the input for each tensor of the list.
    """
    return lambda *inputs: function([inputs[number] for number in input_numbers])


def refuse(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Refuse a graph for training.

    Raises:
        OptionError: Always.
    """
    raise OptionError(
        "backend autotune compiles inference alone, gradients are enabled here; "
        "call the model under torch.no_grad() or torch.inference_mode()"
    )


def kinds_of(graph: GraphModule, static: Sequence[bool]) -> list[str]:
    """Classify each placeholder of a functional graph as a weight, a constant, or a varying input.

    Args:
        graph: The graph.
        static: Whether each input of Dynamo's graph is a parameter or a buffer.
    """
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    kinds, transformed = [], transformed_weights(graph.graph)
    for number, node in enumerate(each for each in graph.graph.nodes if each.op == "placeholder"):
        input_number = getattr(node.meta.get("desc"), "idx", None)
        changed = metadata is None or number >= len(metadata.input_info) or metadata.input_info[number].mutates_data
        if input_number is None or not static[input_number] or changed:
            kinds.append("")
        else:
            is_weight = node.meta["val"].dtype.is_floating_point and node not in transformed
            kinds.append("weight" if is_weight else "constant")
    return kinds


def writes_inputs(graph: GraphModule) -> bool:
    """Return whether some results of a functional graph are new values of its inputs."""
    described = graph.graph.output_node().meta.get("desc") or ()
    return any(type(each).__name__ == WRITTEN_INPUT for each in described)


def overlap(inputs: Sequence[Any]) -> bool:
    """Return whether the address ranges of two tensors overlap."""
    spans = sorted(
        (each.data_ptr(), each.data_ptr() + extent(each))
        for each in inputs
        if isinstance(each, torch.Tensor) and each.numel() and each.layout is torch.strided
    )
    return any(first[1] > second[0] for first, second in pairwise(spans))


def extent(tensor: torch.Tensor) -> int:
    """Return the number of bytes from a tensor's first element to the end of its last."""
    steps = ((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.itemsize * (1 + sum(steps)))


class FixedSizes(FakeTensorMode):  # type: ignore[misc]
    """Fake tensor mode with static sizes; numbers read from tensors are symbolic."""

    def from_tensor(self, tensor: torch.Tensor, **named: Any) -> Any:  # noqa: ANN401 - as PyTorch has it
        """Convert a tensor to a fake tensor of static shape."""
        return super().from_tensor(tensor, **{**named, "static_shapes": True})


class SpecializedGraph:
    """Graph of symbolic sizes, which is compiled for combinations of sizes with which it is called.

    A compilation takes longer than thousands of calls. Sizes that depend on data, such as the numbers of tokens that
    experts receive, rarely recur. Beyond the first ones, sizes are therefore compiled when they recur.

    If a graph writes its inputs and these overlap, PyTorch runs it, since compiled functions assume no overlap. Real
    numbers that an operation only takes as numbers, such as the epsilon of a fused layer, are specialized like sizes.

    Args:
        module: The graph.
        options: Options of the backend.
    """

    def __init__(self, module: GraphModule, options: BackendOptions) -> None:
        self._module, self._options = module, options
        self._compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._met: set[tuple[Any, ...]] = set()
        self._writes = False
        self._numbers: list[int] = []  # inputs that are such numbers, once an op is known to take one

    def __call__(self, *inputs: Any) -> Any:  # noqa: ANN401 - as PyTorch calls it
        """Call the function of the inputs' sizes, which is compiled on the first or second call with them."""
        if self._writes and overlap(inputs):
            return self._module(*inputs)
        function = self._compiled.get(self._key(inputs)) or self._specialize(inputs)
        if function is None:
            return self._module(*inputs)
        return function(*(each for each in inputs if isinstance(each, torch.Tensor)))

    def _key(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return the cache key of a call: sizes, and numbers that are specialized."""
        return (*map(sizes_of, inputs), *(inputs[number].item() for number in self._numbers))

    def _specialize(self, inputs: Sequence[Any]) -> Callable[..., Any] | None:
        """Compile the function of some sizes under a lock; return `None` if PyTorch must run them."""
        with compile_lock:
            if (cached := self._compiled.get(self._key(inputs))) is not None:  # compiled by another thread
                return cached
            if len(self._compiled) >= MOST_SIZES:
                warn_once(f"backend autotune: {MOST_SIZES} sizes of a graph are compiled, PyTorch runs others")
                return None
            if len(self._compiled) >= FIRST_SIZES and self._key(inputs) not in self._met:
                self._met.add(self._key(inputs))
                return None
            warn_once(
                "backend autotune: a graph is called with other sizes; it is compiled for each of them, "
                f"after {FIRST_SIZES} sizes on the second call"
            )
            function = self._compile(inputs)
            if self._writes and overlap(inputs):  # which is known only now
                return None
            self._compiled[self._key(inputs)] = function
            return function

    def _compile(self, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile the function of some sizes, with the tensors as its only inputs."""
        module = GraphModule(self._module, copied := type(self._module.graph)())
        copied.output(copied.graph_copy(self._module.graph, {}))
        placeholders = [node for node in copied.nodes if node.op == "placeholder"]
        for node, value in zip(placeholders, inputs, strict=True):
            if not isinstance(value, torch.Tensor):
                node.replace_all_uses_with(value)
                copied.erase_node(node)
        module.recompile()
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        if not self._numbers:
            with suppress(*TAKES_A_NUMBER):
                return functional(module, tensors, self._options, self._record_writes)
            read = {node.args[0].name for node in module.graph.nodes if is_item_of_number(node)}
            self._numbers = [number for number, node in enumerate(placeholders) if node.name in read]
        module = with_numbers(module, tensors)
        with tracing(TracingContext(FixedSizes(shape_env=ShapeEnv()))):
            return functional(module, tensors, self._options, self._record_writes)

    def _record_writes(self, graph: GraphModule) -> None:
        """Record whether the graph writes its inputs."""
        self._writes = self._writes or writes_inputs(graph)
