"""Constant folding and evaluation of exported programs, and bounds of their index tensors."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from autotune.core.payload import Array
from autotune.core.plugs.imported import ModelArgument
from payload.importers.folder import is_arranged, order_back

if TYPE_CHECKING:
    from torch import Tensor
    from torch.fx import Graph, GraphModule, Node

ASSERTS = "assert"  # part of the names of ops that only check


def fold_constants(module: "GraphModule", buffers: Mapping[str, "Tensor"]) -> "tuple[Graph, dict[str, Array]]":
    """Fold nodes that depend on no input and no parameter: masks, positions and rotary angles become weights.

    Args:
        module: Program, changed in place.
        buffers: Buffers and constants by placeholder name.

    Returns:
        Graph of the program, and values of the placeholders that replace those of `buffers`.
    """
    import torch  # noqa: PLC0415
    from torch.fx import Interpreter  # noqa: PLC0415

    graph, running = module.graph, Interpreter(module)
    known: dict[Node, Any] = {}
    for node in list(graph.nodes):
        if node.op == "call_function" and ASSERTS in str(node.target):
            graph.erase_node(node)
        elif node.op == "placeholder" and node.name in buffers:
            known[node] = buffers[node.name].detach()
        elif node.op == "call_function" and all(used in known for used in node.all_input_nodes):
            arguments = torch.fx.node.map_arg((node.args, node.kwargs), lambda used: known[used])
            known[node] = running.call_function(copying(node.target), *arguments)
    weights: dict[str, Array] = {}
    for node, value in known.items():
        if any(user not in known for user in node.users) and isinstance(value, torch.Tensor):
            replace_node(graph, node, value, weights)
    for node in reversed(list(graph.nodes)):
        if not node.users and (node in known or node.op == "call_function"):
            graph.erase_node(node)
    graph.lint()
    return graph, weights


def copying(op: Any) -> Any:  # noqa: ANN401 - an op of PyTorch's
    """An op that copies where strides allow no view, in place of one that views: some are others than were traced."""
    import torch  # noqa: PLC0415

    return torch.ops.aten.reshape.default if op is torch.ops.aten.view.default else op


def replace_node(graph: "Graph", node: "Node", value: "Tensor", weights: dict[str, Array]) -> None:
    """Replace uses of a constant by a new placeholder, or by a filled tensor if all elements are equal."""
    import torch  # noqa: PLC0415

    value = value.contiguous()
    single = value.numel() > 0 and bool((value == value.reshape(-1)[0]).all())
    insertion_point = next(each for each in graph.nodes if each.op != "placeholder")  # the output node always exists
    with graph.inserting_before(insertion_point):
        if single:
            number, kind = value.reshape(-1)[0].item(), {"dtype": value.dtype, "device": torch.device("cpu")}
            fresh = graph.call_function(torch.ops.aten.full.default, (list(value.shape), number), kind)
        else:
            fresh = graph.placeholder(f"{node.name}_constant")
            weights[fresh.name] = to_numpy(value)
    fresh.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(fresh, delete_user_cb=lambda user: user is not fresh)


def compute(graph: "Graph", values: Mapping[str, Array]) -> list[Array]:
    """Compute a program in float64; weights are widened one at a time, where they are read, to save memory."""
    import torch  # noqa: PLC0415
    from torch.fx import GraphModule, Interpreter  # noqa: PLC0415
    from torch.utils._pytree import tree_map  # noqa: PLC0415

    class Doubles(Interpreter):  # type: ignore[misc]
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:  # noqa: ANN401 - as in torch.fx
            return super().call_function(copying(target), *tree_map(widened, (args, kwargs)))

    def widened(x: Any) -> Any:  # noqa: ANN401
        if isinstance(x, torch.dtype):
            return torch.float64 if x.is_floating_point else x
        return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    with torch.no_grad():
        outputs = Doubles(GraphModule({}, graph)).run(*(to_torch(values[name]) for name in names))
    results = outputs if isinstance(outputs, tuple | list) else [outputs]
    return [widened(result).numpy() for result in results if result is not None]


def to_numpy(tensor: "Tensor") -> Array:
    """Convert a tensor to an array, including bf16, which PyTorch does not convert."""
    import torch  # noqa: PLC0415

    if tensor.dtype is torch.bfloat16:
        return np.asarray(tensor.contiguous().view(torch.uint16).numpy()).view(ml_dtypes.bfloat16)
    return np.asarray(tensor.numpy())


def to_torch(array: Array) -> "Tensor":
    """Convert an array to a tensor; the inverse of `to_numpy`."""
    import torch  # noqa: PLC0415

    array = np.asarray(array, order="C")
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def index_bounds(graph: "Graph") -> dict[str, int]:
    """Return the exclusive upper bound of every index tensor; bounds are propagated to their producers' operands."""
    bounds: dict[str, int] = {}
    for node in reversed(list(graph.nodes)):
        name = getattr(node.target, "__name__", "").partition(".")[0]
        if name == "embedding":
            note(bounds, node.args[1], node.args[0].meta["val"].shape[0])
        elif name == "gather":
            note(bounds, node.args[2], node.args[0].meta["val"].shape[node.args[1]])
        elif name == "index":
            for index, used in enumerate(node.args[1]):
                if used is not None:
                    note(bounds, used, node.args[0].meta["val"].shape[index])
        elif name.startswith("nll_loss"):
            note(bounds, node.args[1], node.args[0].meta["val"].shape[-1 if node.args[0].meta["val"].ndim == 1 else 1])
        elif node.name in bounds:
            for used in node.all_input_nodes:
                if is_integer(used):
                    note(bounds, used, bounds[node.name])
    return bounds


def is_integer(node: "Node") -> bool:
    """Return whether the result of a node is an integer tensor; booleans are not."""
    kind = getattr(node.meta.get("val"), "dtype", None)
    return kind is not None and not kind.is_floating_point and not kind.is_complex and str(kind) != "torch.bool"


def note(bounds: dict[str, int], node: "Node", size: int) -> None:
    """Record the upper bound of an index tensor."""
    bounds[node.name] = min(size, bounds.get(node.name, size))


def kernels_of(graph: "Graph") -> "dict[Node, int]":
    """Return the groups of each placeholder that is only used as a kernel of 1-D or 2-D convolutions."""
    used = [node for node in graph.nodes if node.op == "placeholder" and node.users]
    groups = {node: {groups_of_kernel(node, user) for user in node.users} for node in used}
    return {node: next(iter(counts)) for node, counts in groups.items() if len(counts) == 1 and 0 not in counts}


def groups_of_kernel(node: "Node", user: "Node") -> int:
    """Return the groups of a convolution whose kernel is the node and is stored as a matrix; 0 for other users."""
    if "convolution" not in str(user.target):
        return 0
    transposed, groups = user.args[6], int(user.args[8])
    is_kernel = user.args[1] is node and user.args[0] is not node and not transposed
    return groups if is_kernel and is_arranged(node.meta["val"].shape, groups) else 0


def arrange_kernel(graph: "Graph", node: "Node", argument: ModelArgument) -> None:
    """Change a kernel's placeholder to its stored shape, and restore (f, c, i, j) for its users."""
    import torch  # noqa: PLC0415

    value = node.meta["val"]
    parts, back = argument.split or tuple(value.shape), order_back(argument.order)
    last = [each for each in graph.nodes if each.op == "placeholder"][-1]
    users = list(node.users)
    with graph.inserting_after(last):
        view = graph.call_function(torch.ops.aten.view.default, (node, [parts[d] for d in argument.order]))
    with graph.inserting_after(view):
        kernel = graph.call_function(torch.ops.aten.permute.default, (view, back))
    view.meta["val"] = value.reshape(parts).permute(argument.order).contiguous()
    kernel.meta["val"] = view.meta["val"].permute(back)
    if argument.split:
        with graph.inserting_after(kernel):
            kernel = graph.call_function(torch.ops.aten.reshape.default, (kernel, list(value.shape)))
        kernel.meta["val"] = value.contiguous()
    node.meta["val"] = view.meta["val"].reshape(argument.shape)
    node.meta.pop("tensor_meta", None)
    for user in users:
        user.replace_input_with(node, kernel)
