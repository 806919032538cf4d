"""Ops of a graph as linalg on tensors: what payloads of a few ops, and compilers of tensors, are written with."""

from collections.abc import Iterable, Mapping, Sequence

from autotune.core.graph import OpNode, Rules, translate
from payload import ops, rowwise
from payload.builder import Builder, Value


def lower(f: Builder, nodes: Iterable[OpNode], tensors: Mapping[str, Value], results: Sequence[str]) -> list[Value]:
    """Emit a graph.

    Args:
        f: Builder that ops are appended to.
        nodes: The graph.
        tensors: Tensors that the graph reads, by name.
        results: Names of the values to give.

    Raises:
        PayloadError: An op has no rule here.
    """
    values = dict(tensors)
    translate(nodes, values, RULES, f)
    return [values[name] for name in results]


def matmul(f: Builder, node: OpNode, a: Value, b: Value) -> Value:
    """A named contraction of matrices, or of batches of them."""
    emit = ops.batch_matmul if a.rank > 2 else ops.matmul
    return emit(f, a, b, "product", transpose_b=bool(node["transpose_b"]))


# Heads are (H, T, D), of one sequence.
RULES: Rules = {
    "matmul": matmul,
    "linear": lambda f, _, x, weight, bias: ops.linear(f, x, weight, bias, "linear"),
    "add": lambda f, _, x, y: ops.add(f, x, y),
    "layer_norm": lambda f, node, x, *affine: rowwise.layer_norm(f, x, *affine, epsilon=node["epsilon"]),
    "softmax": lambda f, _, x: rowwise.softmax(f, x),
    "gelu": lambda f, _, x: ops.gelu(f, x),
    "embedding": lambda f, _, table, ids: rowwise.embed(f, table, ids),
    "attention": lambda f, node, q, k, v: rowwise.attention(f, q, k, v, causal=bool(node["causal"])),
    "split_heads": lambda f, node, qkv: ops.split_qkv(f, qkv, node.shape[1]),
    "merge_heads": lambda f, _, x: ops.merge_heads(f, x, "merged"),
}
