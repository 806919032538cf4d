"""Translation of graph ops to torch.nn.functional, which is passed to every rule as `f`.

Rules are traced by torch.fx into a module of straight-line code, as one would write it by hand.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from autotune.core.ops.graph import OpNode, Rules, translate
from autotune.core.payload import Array, Payload
from payload.comparators.constants import fixed_of, fold_constants
from payload.convolution import steps_of

Tensor = Any  # torch is an extra
Functional = Any


def build_network(payload: Payload, inputs: Mapping[str, Array]) -> Any:  # noqa: ANN401 - torch is an extra
    """Build a torch.nn.Module that computes the payload; arguments with role ``weight`` are its parameters.

    Weights of linear layers are column-major, which is the layout of torch.nn.Linear.

    Raises:
        ComparatorError: The payload has no graph, or its graph has an unknown op.
    """
    import torch  # noqa: PLC0415

    folded = fold_constants(payload, inputs, fixed_of(payload), RULES, "torch")
    graph, parameters = torch.fx.Graph(), {}
    tracer = torch.fx.proxy.GraphAppendingTracer(graph)
    fed = [a.name for role in ("input", "state") for a in payload.arguments if a.role == role]
    values: dict[str, Any] = {name: torch.fx.Proxy(graph.placeholder(name), tracer) for name in fed}
    multiplied = {node.inputs[1] for node in folded.nodes if node.op == "linear"}
    for name, array in folded.constants.items():
        if name in fed:  # an input that the case fixes: rules read its value
            values[name] = array
            continue
        ordered = np.asfortranarray(array) if name in multiplied else np.ascontiguousarray(array)
        parameters[name] = torch.nn.Parameter(torch.from_numpy(ordered), requires_grad=False)
        values[name] = torch.fx.Proxy(graph.get_attr(name), tracer)
    translate(folded.nodes, values, RULES, torch.nn.functional)
    results = tuple(values[argument.name].node for argument in payload.outputs)
    graph.output(results if len(results) > 1 else results[0])
    return torch.fx.GraphModule(parameters, graph).eval()


def matmul(f: Functional, node: OpNode, a: Tensor, b: Tensor) -> Tensor:
    """Multiply; a 2-D product with a transposed B is a linear layer without bias."""
    if node["transpose_b"] and len(node.shape) == 2:
        return f.linear(a, b)
    return a @ (b.mT if node["transpose_b"] else b)


def attention(f: Functional, node: OpNode, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute fused attention, which requires ``(B, H, T, D)``."""
    causal = bool(node["causal"])
    if len(node.shape) == 4:
        return f.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return f.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]


def conv(f: Functional, node: OpNode, x: Tensor, kernel: Tensor, *bias: Tensor) -> Tensor:
    """Compute a convolution; with channels last, on permuted views."""
    steps = steps_of(node)
    if steps.channels_last:
        x, kernel = x.permute(0, 3, 1, 2), kernel.permute(3, 2, 0, 1)
    y = f.conv2d(x, kernel, *(bias or (None,)), steps.stride, steps.padding, steps.dilation, steps.groups)
    return y.permute(0, 2, 3, 1) if steps.channels_last else y


def split_heads(_: Functional, node: OpNode, qkv: Tensor) -> list[Tensor]:
    """Split ``(BT, 3C)`` to three ``(B, H, T, D)``."""
    batch, heads, rows, depth = node.shape
    parts = qkv.view(batch, rows, 3, heads, depth).permute(2, 0, 3, 1, 4).unbind(0)
    return [parts[i] for i in range(3)]


def store_rows(_: Functional, node: OpNode, cache: Tensor, rows: Tensor, position: Array | None = None) -> Tensor:
    """Write rows into a cache in place, at a constant position, and return the filled rows.

    The network is specialized to this position, which is no disadvantage to it in a comparison.
    """
    batch, heads, count, depth = node.shape
    whole = cache[int(node["layer"])].view(batch, heads, -1, depth)
    if position is None:
        whole.narrow(2, 0, count).copy_(rows)
        return rows
    here = int(position[0])
    whole.narrow(2, here, 1).copy_(rows)
    return whole.narrow(2, 0, here + 1)


RULES: Rules = {
    "matmul": matmul,
    "linear": lambda f, _, x, weight, bias: f.linear(x, weight.mT, bias),
    "add": lambda _, __, x, y: x + y,
    "layer_norm": lambda f, node, x, *affine: f.layer_norm(x, node.shape[-1:], *affine, node["epsilon"]),
    "conv": conv,
    "relu": lambda f, _, x: f.relu(x),
    "softmax": lambda f, _, x: f.softmax(x, dim=-1),
    "gelu": lambda f, _, x: f.gelu(x, approximate="tanh"),
    "embedding": lambda f, _, table, ids: f.embedding(ids, table),
    "attention": attention,
    "split_heads": split_heads,
    "merge_heads": lambda _, node, x: x.transpose(1, 2).reshape(node.shape),
    "store_rows": store_rows,
    "row_before": lambda _, __, x, count: x[int(count[0]) - 1 : int(count[0])],
}
