"""Widening of u8 tensors in PyTorch's programs to i32, because some lowerings of torch-mlir treat them as signed.

    u / 3, u > 200, u.sum(), u % 3     of the bits of u as a signed byte: 200 is -56
    int(u) / 3, int(u) > 200, ..       what PyTorch gives; sums and products are cut to a byte, as they wrap around

Copies, and u8 index tensors, which are masks, are left unchanged. Inputs and results become int32.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from payload.programs import is_byte

if TYPE_CHECKING:
    from torch.fx import Graph, Node

LEFT = ("_to_copy", "index", "_unsafe_index", "index_put", "_unsafe_index_put")  # ops where u8 may be a mask


def widen_bytes(graph: "Graph", inputs: "Sequence[Node]") -> None:
    """Widen the u8 operands of ops, and u8 inputs and results, to int32, in place.

    Args:
        graph: Graph of a program with static sizes.
        inputs: Placeholders that are not weights.
    """
    import torch  # noqa: PLC0415 - comes with an extra
    from torch.fx.node import map_arg  # noqa: PLC0415

    for node in filter(is_byte, inputs):
        widen_input(graph, node)
    for node in list(graph.nodes):
        schema = getattr(node.target, "_schema", None)
        if node.op == "call_function" and schema is not None and schema.name.split("::")[1] not in LEFT:
            read = [each for each in node.all_input_nodes if is_byte(each)]
            if read:
                read_wide(graph, node, read)
    output = graph.output_node()
    narrow = [each for each in output.all_input_nodes if is_byte(each)]
    with graph.inserting_before(output):
        wide = {each: cast(graph, each, torch.int32) for each in narrow}
    output.args = map_arg(output.args, lambda each: wide.get(each, each))


def widen_input(graph: "Graph", node: "Node") -> None:
    """Change an input to int32, and insert a cast to u8 for its users."""
    import torch  # noqa: PLC0415 - comes with an extra

    describe_anew(node, node.meta["val"].to(torch.int32))
    with graph.inserting_after(node):
        narrow = cast(graph, node, torch.uint8)
    node.replace_all_uses_with(narrow, delete_user_cb=lambda user: user is not narrow)


def read_wide(graph: "Graph", node: "Node", read: "list[Node]") -> None:
    """Cast u8 operands of an op to int32, and its results back to their types."""
    import torch  # noqa: PLC0415 - comes with an extra
    from torch.fx.node import map_arg  # noqa: PLC0415

    with graph.inserting_before(node):
        wide = {each: cast(graph, each, torch.int32) for each in read}
    node.args, node.kwargs = map_arg((node.args, node.kwargs), lambda each: wide.get(each, each))
    before = node.meta["val"]
    describe_anew(node, value_of(node))
    is_single = isinstance(before, torch.Tensor)
    for each in [node] if is_single else [user for user in node.users if user.meta.get("val") is not None]:
        if not is_single:
            describe_anew(each, node.meta["val"][each.args[1]])
        wanted = before if is_single else before[each.args[1]]
        if each.meta["val"].dtype != wanted.dtype:
            with graph.inserting_after(each):
                back = cast(graph, each, wanted.dtype)
            each.replace_all_uses_with(back, delete_user_cb=lambda user, back=back: user is not back)


def cast(graph: "Graph", node: "Node", kind: Any) -> "Node":  # noqa: ANN401 - torch.dtype
    """Add a cast of a node."""
    import torch  # noqa: PLC0415

    result = graph.call_function(torch.ops.aten._to_copy.default, (node,), {"dtype": kind})
    result.meta = dict(node.meta)
    describe_anew(result, value_of(result))
    return result


def describe_anew(node: "Node", value: Any) -> None:  # noqa: ANN401 - a tensor, or several
    """Update the metadata of a node's result, which torch-mlir reads."""
    node.meta["val"] = value
    node.meta.pop("tensor_meta", None)


def value_of(node: "Node") -> Any:  # noqa: ANN401 - a tensor, or several
    """Return the fake result of a node, without data."""
    from torch._guards import detect_fake_mode  # noqa: PLC0415 - comes with an extra
    from torch.fx.node import map_arg  # noqa: PLC0415

    arguments, named = map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    mode = detect_fake_mode([each.meta["val"] for each in node.all_input_nodes])
    with mode:
        return node.target(*arguments, **named)
