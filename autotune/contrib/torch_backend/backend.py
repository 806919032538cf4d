"""The backend of Dynamo: ``torch.compile(model, backend="autotune")`` finds it by its entry point.

PyTorch makes each graph functional, without the changes that it makes to what it is given and without views of that:
those PyTorch applies itself to what our functions give.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch.fx import GraphModule

from autotune.contrib.torch_backend.graphs import GraphFunction
from autotune.contrib.torch_backend.options import BackendOptions, read_options
from autotune.contrib.torch_backend.regions import say_once
from autotune.core.errors import OptionError

MOST_SIZES = 64  # that one graph is compiled for
STATIC = "_dynamo_static_input_type"  # what Dynamo notes of parameters and buffers
WRITTEN_OUT = (torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,)


def compile_graph(
    module: GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's.

    Args:
        module: The graph.
        inputs: What it is called with: parameters and buffers, and tensors and numbers of the user's.
        mode: A mode of `torch.compile`; there is the default alone.
        options: Options by name, those of `BackendOptions`.

    Raises:
        OptionError: An option is unknown or out of its range; or the graph is for training.
    """
    chosen = read_options(options, mode)
    let_numbers_be_tensors(module)
    open_sizes = any(isinstance(size, torch.SymInt) for each in inputs for size in sizes_of(each))
    return EachSize(module, chosen) if open_sizes else functional(module, inputs, chosen)


def let_numbers_be_tensors(module: GraphModule) -> None:
    """Compute with the tensors in which Dynamo gives real numbers that change from call to call; in place.

    It would compute with what `item` gives of them, which is no tensor, and so is in no program.
    """
    for node in [each for each in module.graph.nodes if each.op == "call_method" and each.target == "item"]:
        given = node.args[0]
        if given.op == "placeholder" and isinstance(node.meta.get("example_value"), torch.SymFloat):
            with module.graph.inserting_before(node):
                number = module.graph.call_method("to", (given, torch.get_default_dtype()))
            node.replace_all_uses_with(number)
            module.graph.erase_node(node)
    module.recompile()


def sizes_of(value: object) -> tuple[Any, ...]:
    """What a value has of numbers that may be open: its sizes, or itself."""
    return tuple(value.shape) if isinstance(value, torch.Tensor) else (value,)


def functional(module: GraphModule, inputs: Sequence[Any], options: BackendOptions) -> Callable[..., Any]:
    """A graph of fixed sizes as a function of its inputs."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    static = [STATIC in (node.meta.get("tensor_dict") or {}) for node in placeholders]

    def compile_inference(graph: GraphModule, _: Sequence[Any]) -> GraphFunction:
        return GraphFunction(graph, kinds_of(graph, static), options)

    table = get_decompositions(WRITTEN_OUT)
    compiler: Any = aot_autograd(fw_compiler=refuse, inference_compiler=compile_inference, decompositions=table)
    return compiler(module, inputs)  # type: ignore[no-any-return]


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
    """Of each placeholder of a functional graph: a weight, a constant, or what calls give.

    Args:
        graph: The graph.
        static: Whether each input of Dynamo's graph is a parameter or a buffer.
    """
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    found = []
    for number, node in enumerate(each for each in graph.graph.nodes if each.op == "placeholder"):
        place = getattr(node.meta.get("desc"), "idx", None)
        changed = metadata is None or number >= len(metadata.input_info) or metadata.input_info[number].mutates_data
        if place is None or not static[place] or changed:
            found.append("")
        else:
            found.append("weight" if node.meta["val"].dtype.is_floating_point else "constant")
    return found


class EachSize:
    """A graph of open sizes, compiled for each that it is called with.

    Args:
        module: The graph.
        options: Options of the backend.
    """

    def __init__(self, module: GraphModule, options: BackendOptions) -> None:
        self._module, self._options = module, options
        self._known: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *inputs: Any) -> Any:  # noqa: ANN401 - as PyTorch calls it
        """Compute once."""
        key = tuple(sizes_of(each) for each in inputs)
        if key not in self._known:
            if len(self._known) >= MOST_SIZES:
                say_once(f"backend autotune: {MOST_SIZES} sizes of a graph are compiled, PyTorch runs others")
                return self._module(*inputs)
            say_once("backend autotune: a graph is called with other sizes; it is compiled for each of them")
            self._known[key] = self._compile(inputs)
        return self._known[key](*(each for each in inputs if isinstance(each, torch.Tensor)))

    def _compile(self, inputs: Sequence[Any]) -> Callable[..., Any]:
        """The function of some sizes, of the tensors alone."""
        module = GraphModule(self._module, copied := type(self._module.graph)())
        copied.output(copied.graph_copy(self._module.graph, {}))
        placeholders = [node for node in copied.nodes if node.op == "placeholder"]
        for node, value in zip(placeholders, inputs, strict=True):
            if not isinstance(value, torch.Tensor):
                node.replace_all_uses_with(value)
                copied.erase_node(node)
        module.recompile()
        return functional(module, [each for each in inputs if isinstance(each, torch.Tensor)], self._options)
