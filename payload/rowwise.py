"""Emitters that depend on whole rows or on indices: layer norm, softmax, causal mask, attention, embedding.

Built from `payload.ops`; `payload.reference` has the same functions in NumPy.
"""

import math

from autotune.core.payload import MASKED
from payload import ops
from payload.builder import Builder, Value
from payload.reference import LAYER_NORM_EPSILON

MINUS_INFINITY = "0xFF800000"


def layer_norm(
    f: Builder, x: Value, gain: Value, bias: Value, name: str = "norm", *, epsilon: float = LAYER_NORM_EPSILON
) -> Value:
    """Emit ``(x - mean) / sqrt(variance + epsilon) * gain + bias`` over the last dimension (Ba et al., 2016).

    Mean and reciprocal standard deviation are separate tensors of one element per row, so that no schedule recomputes
    the square root per element.
    """
    rows, columns = range(x.rank - 1), [x.rank - 1]
    count = f"%count = arith.constant {float(x.shape[-1]):.9e} : f32"
    total = ops.reduce_rows(f, f"{name}_sum", "0.0", x, ["%y = arith.addf %acc, %e0 : f32"])
    mean = ops.elementwise(f, f"{name}_mean", total, [count, "%y = arith.divf %e0, %count : f32"])
    squares = ["%d = arith.subf %e0, %e1 : f32", "%dd = arith.mulf %d, %d : f32", "%y = arith.addf %acc, %dd : f32"]
    spread = ops.reduce_rows(f, f"{name}_squares", "0.0", x, squares, (mean, rows))
    reciprocal = [
        count,
        f"%epsilon = arith.constant {epsilon:.9e} : f32",
        "%variance = arith.divf %e0, %count : f32",
        "%positive = arith.addf %variance, %epsilon : f32",
        "%y = math.rsqrt %positive : f32",
    ]
    factor = ops.elementwise(f, f"{name}_rsqrt", spread, reciprocal)
    affine = [
        "%centered = arith.subf %e0, %e1 : f32",
        "%normal = arith.mulf %centered, %e2 : f32",
        "%gained = arith.mulf %normal, %e3 : f32",
        "%y = arith.addf %gained, %e4 : f32",
    ]
    return ops.elementwise(f, name, x, affine, (mean, rows), (factor, rows), (gain, columns), (bias, columns))


def rms_norm(f: Builder, x: Value, gain: Value, name: str = "norm", *, epsilon: float = LAYER_NORM_EPSILON) -> Value:
    """Emit ``x / sqrt(mean of squares + epsilon) * gain`` over the last dimension (Zhang and Sennrich, 2019)."""
    rows, columns = range(x.rank - 1), [x.rank - 1]
    squares = ["%dd = arith.mulf %e0, %e0 : f32", "%y = arith.addf %acc, %dd : f32"]
    total = ops.reduce_rows(f, f"{name}_squares", "0.0", x, squares)
    reciprocal = [
        f"%count = arith.constant {float(x.shape[-1]):.9e} : f32",
        f"%epsilon = arith.constant {epsilon:.9e} : f32",
        "%mean = arith.divf %e0, %count : f32",
        "%positive = arith.addf %mean, %epsilon : f32",
        "%y = math.rsqrt %positive : f32",
    ]
    factor = ops.elementwise(f, f"{name}_rsqrt", total, reciprocal)
    scaled = ["%normal = arith.mulf %e0, %e1 : f32", "%y = arith.mulf %normal, %e2 : f32"]
    return ops.elementwise(f, name, x, scaled, (factor, rows), (gain, columns))


def softmax(f: Builder, x: Value, name: str = "softmax") -> Value:
    """Emit ``exp(x - max) / sum(exp(x - max))`` over the last dimension; undefined for rows with NaN."""
    power, total = exponentials(f, x, name)
    return ops.elementwise(f, name, power, ["%y = arith.divf %e0, %e1 : f32"], (total, range(x.rank - 1)))


def exponentials(f: Builder, x: Value, name: str) -> tuple[Value, Value]:
    """Emit ``exp(x - max)`` over the last dimension, ``(..., N)``, and its row sums, ``(...)``.

    The result is undefined for rows with NaN: a maximum that propagates NaN and orders -0 below 0 takes five
    instructions instead of one.
    """
    rows = range(x.rank - 1)
    largest = ["%y = arith.maximumf %acc, %e0 fastmath<nnan,nsz> : f32"]
    top = ops.reduce_rows(f, f"{name}_max", MINUS_INFINITY, x, largest)
    shifted = ["%below = arith.subf %e0, %e1 : f32", "%y = math.exp %below : f32"]
    power = ops.elementwise(f, f"{name}_exp", x, shifted, (top, rows))
    return power, ops.reduce_rows(f, f"{name}_sum", "0.0", power, ["%y = arith.addf %acc, %e0 : f32"])


def causal_mask(f: Builder, scores: Value, name: str = "masked", *, shared: int = 1) -> Value:
    """Mask the future in ``(..., T, T)``: keep column ``j`` of row ``i`` where ``j <= i``.

    With `shared` above 1, the rows of that many heads are stacked: ``(..., shared T, T)``.
    """
    row_index = f"linalg.index {scores.rank - 2} : index"
    row = [f"%row = {row_index}"]
    if shared > 1:
        period = f"%period = arith.constant {scores.shape[-2] // shared} : index"
        row = [f"%below = {row_index}", period, "%row = arith.remui %below, %period : index"]
    body = [
        *row,
        f"%column = linalg.index {scores.rank - 1} : index",
        f"%hidden = arith.constant {MASKED:.1e} : f32",
        "%seen = arith.cmpi ule, %column, %row : index",
        "%y = arith.select %seen, %e0, %hidden : f32",
    ]
    return ops.elementwise(f, name, scores, body)


def seen_pairs(rows: int) -> int:
    """Return the number of (row, column) pairs that a causal mask keeps."""
    return rows * (rows + 1) // 2


def attention(
    f: Builder, q: Value, k: Value, v: Value, name: str = "attention", *, causal: bool, shared: int = 1
) -> Value:
    """Emit ``softmax(q k^T / sqrt(D)) v`` for every head: three ``(H, T, D) -> (H, T, D)`` (Vaswani et al., 2017).

    Elementwise work is done on D columns instead of T where possible: q is scaled rather than the scores, and the
    product is divided by the row sums rather than the probabilities. With `shared` above 1, the rows of q are those of
    that many heads, stacked as in `grouped_attention`.
    """
    scaled = ops.scale(f, q, 1 / math.sqrt(q.shape[-1]), "scaled")  # H x T x D
    scores = ops.batch_matmul(f, scaled, k, "scores", transpose_b=True)  # H x T x T
    if causal:
        scores = causal_mask(f, scores, shared=shared)  # H x T x T
    power, total = exponentials(f, scores, "probabilities")  # H x T x T, H x T
    mixed = ops.batch_matmul(f, power, v, "mixed")  # H x T x D
    return ops.elementwise(f, name, mixed, ["%y = arith.divf %e0, %e1 : f32"], (total, range(q.rank - 1)))


def grouped_attention(f: Builder, q: Value, k: Value, v: Value, name: str = "attention", *, causal: bool) -> Value:
    """Emit grouped-query attention: ``(H, T, D)`` and two ``(G, S, D)`` to ``(H, T, D)`` (Ainslie et al., 2023).

    Heads of one group are adjacent. Their rows are stacked, so that keys and values are not repeated.
    """
    heads, rows, depth = q.shape
    groups, shared = k.shape[0], heads // k.shape[0]
    apart = (groups, shared, rows, depth)
    queries = regroup(f, q, apart, "q_below", split=[[0, 1], [2], [3]], join=[[0], [1, 2], [3]])  # G x RT x D
    mixed = attention(f, queries, k, v, f"{name}_below", causal=causal, shared=shared)  # G x RT x D
    return regroup(f, mixed, apart, name, split=[[0], [1, 2], [3]], join=[[0, 1], [2], [3]])  # H x T x D


def regroup(
    f: Builder, x: Value, apart: tuple[int, ...], name: str, *, split: list[list[int]], join: list[list[int]]
) -> Value:
    """Reshape `x`: expand its dimensions to `apart` as `split` says, then collapse them as `join` says."""
    text = f"tensor.expand_shape {x.name} {split} output_shape {list(apart)} : {x.type} into"
    parts = f.define(f"{name}_apart", apart, f"{text} {Value('', apart).type}")
    shape = tuple(math.prod(apart[dim] for dim in joined) for joined in join)
    text = f"tensor.collapse_shape {parts.name} {join} : {parts.type} into {Value('', shape).type}"
    return f.define(name, shape, text)


def embed(f: Builder, table: Value, ids: Value, name: str = "embedded", scale: Value | None = None) -> Value:
    """Gather rows of a ``(V, C)`` table at ``(T)`` i32 ids: ``(T, C)``. Ids outside ``[0, V)`` are undefined behaviour.

    With `scale` ``(V)``, the table holds integers with one scale per row.
    """
    out = ops.empty(f, (ids.shape[0], table.shape[1]), name)
    body = [
        "%row = arith.index_cast %e0 : i32 to index",
        "%column = linalg.index 1 : index",
        f"{'%y' if table.dtype == 'f32' else '%stored'} = tensor.extract {table.name}[%row, %column] : {table.type}",
    ]
    if scale is not None:
        body += [
            f"%whole = arith.sitofp %stored : {table.dtype} to f32",
            f"%factor = tensor.extract {scale.name}[%row] : {scale.type}",
            "%y = arith.mulf %whole, %factor : f32",
        ]
    elif table.dtype != "f32":
        body.append(f"%y = arith.extf %stored : {table.dtype} to f32")
    return ops.generic(f, name, out, [(ids, [0])], body, rank=2)
