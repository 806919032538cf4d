"""Lower ops of a graph to linalg on tensors, for payloads of a few ops and for comparators that compile tensors.

An op that the dialect `gpt` has as well is lowered by its class there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from autotune.core.ops.graph import OpNode, Rules, translate
from payload import convolution, ops, rowwise
from payload.builder import Builder, Value
from payload.dialect.ops.activations import GeluOp
from payload.dialect.ops.attention import AttentionOp, MergeHeadsOp, SplitHeadsOp
from payload.dialect.ops.linear import AddOp, LinearOp
from payload.dialect.ops.norms import LayerNormOp
from payload.dialect.ops.tables import EmbeddingOp


def lower(f: Builder, nodes: Iterable[OpNode], tensors: Mapping[str, Value], results: Sequence[str]) -> list[Value]:
    """Lower a graph.

    Args:
        f: Builder that ops are appended to.
        nodes: Graph to lower.
        tensors: Tensors that the graph reads, by name.
        results: Names of the values to return.

    Raises:
        PayloadError: An op has no rule here.
    """
    values = dict(tensors)
    translate(nodes, values, RULES, f)
    return [values[name] for name in results]


def in_dialect(make: Callable[[OpNode], Any]) -> Callable[..., Any]:
    """Return the lowering rule of an op that the dialect has.

    Args:
        make: Function from a node to the dialect's op.
    """

    def rule(f: Builder, node: OpNode, *operands: Value) -> Any:  # noqa: ANN401 - a value, or a list of several
        op = make(node)
        results = op.lower(f, op.gives, *operands)
        return results if len(results) > 1 else results[0]

    return rule


def matmul(f: Builder, node: OpNode, a: Value, b: Value) -> Value:
    """Emit a named contraction of matrices, or of batches of matrices."""
    emit = ops.batch_matmul if a.rank > 2 else ops.matmul
    return emit(f, a, b, "product", transpose_b=bool(node["transpose_b"]))


def conv(f: Builder, node: OpNode, x: Value, kernel: Value, *bias: Value) -> Value:
    """Emit a convolution, followed by a bias if there is one."""
    steps = convolution.steps_of(node)
    y = convolution.conv(f, x, kernel, steps)
    return convolution.add_channel_bias(f, y, *bias, channels_last=steps.channels_last) if bias else y


# Heads of one sequence are (H, T, D).
RULES: Rules = {
    "matmul": matmul,
    "linear": in_dialect(lambda _: LinearOp()),
    "add": in_dialect(lambda _: AddOp()),
    "layer_norm": in_dialect(lambda node: LayerNormOp(node["epsilon"])),
    "conv": conv,
    "relu": lambda f, _, x: convolution.relu(f, x),
    "softmax": lambda f, _, x: rowwise.softmax(f, x),
    "gelu": in_dialect(lambda _: GeluOp()),
    "embedding": in_dialect(lambda _: EmbeddingOp()),
    "attention": in_dialect(lambda node: AttentionOp(bool(node["causal"]))),
    "split_heads": in_dialect(lambda node: SplitHeadsOp(node.shape[1])),
    "merge_heads": in_dialect(lambda _: MergeHeadsOp()),
}
