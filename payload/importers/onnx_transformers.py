"""Rewrites of ONNX Runtime's contrib ops for transformers to standard ops: norms, attention, rotary embedding."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from payload.importers.onnx_nodes import KnownTensors, NodeWriter, of

if TYPE_CHECKING:
    from onnx import NodeProto

NORMS = 17  # first opset version with LayerNormalization
SETTLED = 18  # first opset version whose ReduceMean takes its axes as an input
LOWEST = -3.4028234663852886e38  # score of tokens that causal attention masks: the lowest f32


def input_of(node: "NodeProto", index: int) -> str:
    """Return the name of an input; empty if it is omitted."""
    return node.input[index] if index < len(node.input) else ""


def output_of(node: "NodeProto", index: int) -> str:
    """Return the name of an output; empty if it is omitted."""
    return node.output[index] if index < len(node.output) else ""


def are_known(node: "NodeProto", known: KnownTensors) -> bool:
    """Return whether shapes and types of all inputs of a node are known."""
    return all(name in known.shapes and name in known.kinds for name in node.input if name)


def mean(w: NodeWriter, x: str, known: KnownTensors) -> str:
    """Add the mean over the last dimension."""
    if known.version < SETTLED:
        return w.add("ReduceMean", x, axes=[-1], keepdims=1)
    return w.add("ReduceMean", x, w.numbers(-1), keepdims=1)


def normed(w: NodeWriter, x: str, scale: str, bias: str, *, epsilon: float, known: KnownTensors, into: str) -> None:
    """Add a layer norm over the last dimension."""
    kind = known.kinds[scale]
    if known.version >= NORMS:
        w.add("LayerNormalization", x, scale, *([bias] if bias else []), into=into, axis=-1, epsilon=epsilon)
        return
    centred = w.add("Sub", x, mean(w, x, known))
    deviation = w.add("Sqrt", w.add("Add", mean(w, w.add("Mul", centred, centred), known), w.number(epsilon, kind)))
    scaled = w.add("Mul", w.add("Div", centred, deviation), scale)
    w.add("Add", scaled, bias, into=into) if bias else w.add("Identity", scaled, into=into)


def root_normed(w: NodeWriter, x: str, scale: str, *, epsilon: float, known: KnownTensors, into: str) -> None:
    """Add an RMS norm over the last dimension."""
    squares = w.add("Add", mean(w, w.add("Mul", x, x), known), w.number(epsilon, known.kinds[scale]))
    w.add("Mul", w.add("Div", x, w.add("Sqrt", squares)), scale, into=into)


def skip_norm(w: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite SkipLayerNormalization: ``norm(x + skip + bias)``, and the sum."""
    if not are_known(node, known) or output_of(node, 1) or output_of(node, 2):
        return False
    is_simple = node.op_type.startswith("SkipSimplified")
    x, skip, scale, shift, bias = (input_of(node, index) for index in range(5))
    if is_simple:
        shift, bias = "", shift
    total = w.add("Add", x, skip)
    total = w.add("Add", total, bias) if bias else total
    if output_of(node, 3):
        total = w.add("Identity", total, into=output_of(node, 3))
    epsilon = of(node, "epsilon", 1e-12)
    if is_simple:
        root_normed(w, total, scale, epsilon=epsilon, known=known, into=node.output[0])
    else:
        normed(w, total, scale, shift, epsilon=epsilon, known=known, into=node.output[0])
    return True


def simple_norm(w: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite SimplifiedLayerNormalization: an RMS norm over the last dimension."""
    if not are_known(node, known) or output_of(node, 1):
        return False
    if of(node, "axis", -1) not in (-1, len(known.shapes[node.input[0]]) - 1):
        return False
    epsilon = of(node, "epsilon", 1e-5)
    root_normed(w, node.input[0], node.input[1], epsilon=epsilon, known=known, into=node.output[0])
    return True


def embed_norm(w: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite EmbedLayerNormalization: ``norm(words + positions + segments)``, the mask's token counts, and the sum."""
    if not are_known(node, known):
        return False
    ids, segments, words, positions, kinds, scale, shift, mask, position_ids = (
        input_of(node, index) for index in range(9)
    )
    batch, size = known.shapes[ids]
    width = known.shapes[words][-1]
    if position_ids:
        rows = w.add("Gather", positions, position_ids, axis=0)
    else:
        rows = w.reshape(w.add("Gather", positions, w.numbers(*range(size)), axis=0), 1, size, width)
    total = w.add("Add", w.add("Gather", words, ids, axis=0), rows)
    if segments and kinds:
        total = w.add("Add", total, w.add("Gather", kinds, segments, axis=0))
    if output_of(node, 2):
        total = w.add("Identity", total, into=output_of(node, 2))
    epsilon = of(node, "epsilon", 1e-12)
    normed(w, total, scale, shift, epsilon=epsilon, known=known, into=node.output[0])
    if output_of(node, 1) and mask:
        shown = w.add("MatMul", w.add("Cast", mask, to=1), w.constant(np.ones(size, np.float32)))
        w.add("Cast", shown, to=6, into=output_of(node, 1))
    elif output_of(node, 1):
        w.add("Identity", w.constant(np.zeros(batch, np.int32)), into=output_of(node, 1))
    return True


def heads_of(w: NodeWriter, x: str, shape: list[int], heads: int) -> str:
    """Split rows (B, T, N D) into heads (B, N, T, D)."""
    batch, size, width = shape
    return w.add("Transpose", w.reshape(x, batch, size, heads, width // heads), perm=[0, 2, 1, 3])


def hidden_by(
    w: NodeWriter, mask: str, shapes: tuple[int, int, int], *, node: "NodeProto", known: KnownTensors
) -> str | None:
    """Add the additive mask of scores (B, N, S, T), 0 or a low number; return `None` for an unsupported shape.

    Args:
        w: Writer of the nodes.
        mask: Name of the lengths (B,), or of the visible tokens (B, T) or (B, S, T).
        shapes: Batch size, number of queries, number of keys.
        node: Attention node.
        known: Shapes and types of the tensors.
    """
    batch, queries, keys = shapes
    shape, kind = known.shapes[mask], known.kinds[node.input[0]]
    if shape == [batch]:
        positions = w.constant(np.arange(keys, dtype=np.int32))
        seen = w.add("Less", positions, w.reshape(w.add("Cast", mask, to=6), batch, 1, 1, 1))
    elif shape in ([batch, keys], [batch, queries, keys]):
        seen = w.add("Greater", w.reshape(mask, batch, 1, *(shape[1:-1] or [1]), keys), w.number(0, known.kinds[mask]))
    else:
        return None
    return w.add("Where", seen, w.number(0.0, kind), w.number(of(node, "mask_filter_value", -10000.0), kind))


def attend(
    w: NodeWriter,
    node: "NodeProto",
    heads: Sequence[str],
    sizes: tuple[int, int, int, int, int],
    *,
    mask: str,
    more: str,
    known: KnownTensors,
) -> bool:
    """Add attention of heads (B, N, S, D), (B, N, T, D) and (B, N, T, V), with a result (B, S, N V).

    The sizes are B, S, T, D and N V. Return whether the mask's shape is supported.
    """
    batch, queries, keys, depth, wide = sizes
    low = hidden_by(w, mask, (batch, queries, keys), node=node, known=known) if mask else ""
    if low is None:
        return False
    kind, scale = known.kinds[node.input[0]], of(node, "scale", 0.0) or depth**-0.5
    q, k, v = heads
    scores = w.add("MatMul", q, w.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = w.add("Mul", scores, w.number(scale, kind))
    for each in filter(None, (more, low)):
        scores = w.add("Add", scores, each)
    if of(node, "unidirectional", 0):
        seen = w.constant(np.tri(queries, keys, keys - queries, dtype=bool))
        scores = w.add("Where", seen, scores, w.number(LOWEST, kind))
    mixed = w.add("MatMul", w.add("Softmax", scores, axis=3), v)
    w.reshape(w.add("Transpose", mixed, perm=[0, 2, 1, 3]), 0, queries, wide, into=node.output[0])
    return True


def attention(w: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite Attention, whose queries, keys and values are one product of one input."""
    x, weights, bias, mask, past, more = (input_of(node, index) for index in range(6))
    if not are_known(node, known) or past or output_of(node, 1) or of(node, "do_rotary", 0) or input_of(node, 6):
        return False
    (batch, size, _), heads = known.shapes[x], of(node, "num_heads", 1)
    wide = known.shapes[weights][1]
    parts = list(of(node, "qkv_hidden_sizes", None) or [wide // 3] * 3)
    rows = w.add("MatMul", x, weights)
    rows = w.add("Add", rows, bias) if bias else rows
    bounds = np.cumsum([0, *parts])
    cuts = [w.slice(rows, int(bounds[n]), int(bounds[n + 1]), 2) for n in range(3)]
    split = [heads_of(w, each, [batch, size, part], heads) for each, part in zip(cuts, parts, strict=True)]
    sizes = (batch, size, size, parts[0] // heads, parts[2])
    return attend(w, node, split, sizes, mask=mask, more=more, known=known)


def multi_head_attention(w: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite MultiHeadAttention, whose queries, keys and values are separate rows (B, T, N D)."""
    q, k, v, bias, mask, more, *others = (input_of(node, index) for index in range(10))
    shapes = [known.shapes.get(name, []) for name in (q, k, v)]
    if not are_known(node, known) or any(others) or output_of(node, 1) or any(len(shape) != 3 for shape in shapes):
        return False
    heads = of(node, "num_heads", 1)
    (batch, queries, _), (_, keys, width), wide = shapes[0], shapes[1], shapes[2][2]
    names = [q, k, v]
    if bias:
        bounds = np.cumsum([0, *(shape[2] for shape in shapes)])
        parts = [w.slice(bias, int(bounds[n]), int(bounds[n + 1]), 0) for n in range(3)]
        names = [w.add("Add", name, part) for name, part in zip(names, parts, strict=True)]
    split = [heads_of(w, name, shape, heads) for name, shape in zip(names, shapes, strict=True)]
    sizes = (batch, queries, keys, width // heads, wide)
    return attend(w, node, split, sizes, mask=mask, more=more, known=known)


def rotary(w: NodeWriter, node: "NodeProto", known: KnownTensors) -> bool:
    """Rewrite RotaryEmbedding: rotate pairs of a head's columns, from its two halves or adjacent ones (interleaved).

    ONNX Runtime's op has the positions as its second input, ONNX's as its last.
    """
    names = [input_of(node, index) for index in range(4)]
    x, position_ids, cosines, sines = names if node.domain else (names[0], names[3], names[1], names[2])
    if not are_known(node, known) or of(node, "is_packed_batching", 0) or of(node, "scale", 1.0) != 1.0:
        return False
    shape, half = known.shapes[x], known.shapes[cosines][-1]
    heads = of(node, "num_heads", 0)
    part = of(node, "rotary_embedding_dim", 0) or 2 * half
    if len(shape) == 3 and not heads:
        heads = shape[2] // part
    rows = w.reshape(x, shape[0], shape[1], heads, shape[2] // heads) if len(shape) == 3 else x
    rows = w.add("Transpose", rows, perm=[0, 2, 1, 3]) if len(shape) == 4 else rows
    batch, size, count, depth = shape if len(shape) == 4 else [*shape[:2], heads, shape[2] // max(heads, 1)]
    if len(shape) == 4:
        size, count = count, size
    c, s = (table_rows(w, table, position_ids, batch=batch, size=size, known=known) for table in (cosines, sines))
    if c is None or s is None:
        return False
    rotated = w.slice(rows, 0, part, 3)
    is_interleaved = of(node, "interleaved", 0)
    pairs = w.reshape(rotated, batch, size, count, *((part // 2, 2) if is_interleaved else (2, part // 2)))
    axis = 4 if is_interleaved else 3
    first_half, two = (w.reshape(w.slice(pairs, at, at + 1, axis), batch, size, count, part // 2) for at in (0, 1))
    first = w.add("Sub", w.add("Mul", first_half, c), w.add("Mul", two, s))
    second = w.add("Add", w.add("Mul", first_half, s), w.add("Mul", two, c))
    wide = [batch, size, count, *((part // 2, 1) if is_interleaved else (1, part // 2))]
    joined = w.add("Concat", w.reshape(first, *wide), w.reshape(second, *wide), axis=axis)
    rotated_rows = w.reshape(joined, batch, size, count, part)
    if part < depth:
        rest = w.slice(rows, part, depth, 3)
        rotated_rows = w.add("Concat", rotated_rows, rest, axis=3)
    rotated_rows = w.add("Transpose", rotated_rows, perm=[0, 2, 1, 3]) if len(shape) == 4 else rotated_rows
    w.reshape(rotated_rows, *shape, into=node.output[0])
    return True


def table_rows(
    w: NodeWriter, table: str, position_ids: str, *, batch: int, size: int, known: KnownTensors
) -> str | None:
    """Gather the angles of each token, (B or 1, T, 1, D / 2); return `None` for an unsupported form."""
    half = known.shapes[table][-1]
    if not position_ids:
        return w.reshape(table, batch, size, 1, half) if known.shapes[table] == [batch, size, half] else None
    if known.shapes[position_ids] == [batch, size]:
        return w.reshape(w.add("Gather", table, position_ids, axis=0), batch, size, 1, half)
    if known.shapes[position_ids] == [1]:
        positions = w.add("Add", position_ids, w.numbers(*range(size)))
        return w.reshape(w.add("Gather", table, positions, axis=0), 1, size, 1, half)
    return None
