"""Emitters for caches and runtime positions: in-place appends, slices of dynamic size, rotary embedding.

`payload.reference` has the same functions in NumPy.
"""

import math
from collections.abc import Sequence

from payload import ops
from payload.builder import Builder, DynamicSize, Value

ROTARY_BASE = 10_000.0  # RoFormer (Su et al., 2021), section 3.2.2


def read_index(f: Builder, number: Value, name: str) -> str:
    """Read the element of a ``(1)`` i64 tensor as an index."""
    first, value, index = f.index("first", 0), f.fresh(f"{name}_value"), f.fresh(f"{name}_index")
    f.emit(
        f"{value} = tensor.extract {number.name}[{first}] : {number.type}",
        f"{index} = arith.index_cast {value} : i64 to index",
    )
    return index


def add_index(f: Builder, index: str, summand: int, name: str) -> str:
    """Emit ``index + summand``."""
    constant, total = f.index("summand", summand), f.fresh(name)
    f.emit(f"{total} = arith.addi {index}, {constant} : index")
    return total


def row_at(f: Builder, table: Value, row: str, name: str) -> Value:
    """Extract the row at an index: ``(P, C) -> (C)``."""
    columns = table.shape[1]
    text = f"tensor.extract_slice {table.name}[{row}, 0] [1, {columns}] [1, 1] : {table.type} to"
    return f.define(name, (columns,), f"{text} {Value('', (columns,)).type}")


def store_rows(f: Builder, cache: Value, rows: Value, *, layer: str, position: str, name: str) -> Value:
    """Insert ``(H, T, D)`` into one layer of the cache ``(L, H, P, D)`` at row `position`, in place."""
    heads, count, depth = rows.shape
    where = f"[{layer}, 0, {position}, 0] [1, {heads}, {count}, {depth}] [1, 1, 1, 1]"
    return f.define(
        name, cache.shape, f"tensor.insert_slice {rows.name} into {cache.name}{where} : {rows.type} into {cache.type}"
    )


def rows_so_far(f: Builder, cache: Value, layer: str, count: DynamicSize, name: str) -> Value:
    """Extract the first `count` rows of one layer: ``(L, H, P, D) -> (H, count, D)``."""
    _, heads, _, depth = cache.shape
    shape = (heads, count, depth)
    where = f"[{layer}, 0, 0, 0] [1, {heads}, {count.name}, {depth}] [1, 1, 1, 1]"
    return f.define(name, shape, f"tensor.extract_slice {cache.name}{where} : {cache.type} to {Value('', shape).type}")


def reshape(f: Builder, x: Value, shape: tuple[int, ...], name: str) -> Value:
    """Reshape to `shape`, keeping the elements in row-major order."""
    flat = flatten(f, x, name)
    if len(shape) == 1:
        return flat
    dims = list(range(len(shape)))
    text = f"tensor.expand_shape {flat.name} [{dims}] output_shape {list(shape)} : {flat.type} into"
    return f.define(name, shape, f"{text} {Value('', shape).type}")


def flatten(f: Builder, x: Value, name: str) -> Value:
    """Collapse all dimensions into one."""
    if x.rank == 1:
        return x
    shape = (math.prod(x.shape),)
    text = f"tensor.collapse_shape {x.name} [{list(range(x.rank))}] : {x.type} into {Value('', shape).type}"
    return f.define(f"{name}_flat", shape, text)


def rotate(f: Builder, x: Value, start: str | None, name: str) -> Value:
    """Emit rotary embedding: rotate pairs of columns of ``(H, T, D)`` by an angle proportional to the row's position.

    Column ``j`` is paired with column ``j + D / 2``, as in GPT-NeoX. Row ``t`` has position ``start + t``; the angle is
    ``position / 10000^(2 j / D)``. Angles are computed in f64: the rounding error of an f32 near 1000 is 3e-5.

    Args:
        f: Builder that ops are appended to.
        x: Queries or keys.
        start: Index value of the first row's position; `None` for 0.
        name: Name of the result.
    """
    _, rows, depth = x.shape
    pairs_shape = (rows, depth // 2)
    cosine, sine = (angles(f, function, start, pairs_shape, f"{name}_{function}") for function in ("cos", "sin"))
    return rotate_by(f, x, cosine, sine, name)


def rotate_by(f: Builder, x: Value, cosine: Value, sine: Value, name: str) -> Value:
    """Rotate pairs of columns of ``(H, T, D)``, ``j`` and ``j + D / 2``, by the angles ``(T, D / 2)``."""
    heads, rows, depth = x.shape
    half = depth // 2
    shape = (heads, rows, 2, half)
    text = f"tensor.expand_shape {x.name} [[0], [1], [2, 3]] output_shape {list(shape)} : {x.type} into"
    pairs = f.define(f"{name}_pairs", shape, f"{text} {Value('', shape).type}")
    low, high = (take_half(f, pairs, i, f"{name}_{part}") for i, part in enumerate(("low", "high")))
    body = [
        "%part = linalg.index 2 : index",
        "%zero = arith.constant 0 : index",
        "%is_low = arith.cmpi eq, %part, %zero : index",
        "%one = arith.select %is_low, %e0, %e1 : f32",
        "%negative = arith.negf %e1 : f32",
        "%other = arith.select %is_low, %negative, %e0 : f32",
        "%along = arith.mulf %one, %e2 : f32",
        "%across = arith.mulf %other, %e3 : f32",
        "%y = arith.addf %along, %across : f32",
    ]
    inputs: Sequence[tuple[Value, Sequence[int]]] = [
        (low, (0, 1, 3)),
        (high, (0, 1, 3)),
        (cosine, (1, 3)),
        (sine, (1, 3)),
    ]
    rotated = ops.generic(f, f"{name}_turned", ops.empty(f, shape, name), inputs, body, rank=4)
    text = f"tensor.collapse_shape {rotated.name} [[0], [1], [2, 3]] : {rotated.type} into {x.type}"
    return f.define(name, x.shape, text)


def take_half(f: Builder, pairs: Value, part: int, name: str) -> Value:
    """Extract one half of the column pairs: ``(H, T, 2, D/2) -> (H, T, D/2)``."""
    heads, rows, _, half = pairs.shape
    text = f"tensor.extract_slice {pairs.name}[0, 0, {part}, 0] [{heads}, {rows}, 1, {half}] [1, 1, 1, 1]"
    return f.define(name, (heads, rows, half), f"{text} : {pairs.type} to {Value('', (heads, rows, half)).type}")


def angles(f: Builder, function: str, start: str | None, shape: tuple[int, ...], name: str) -> Value:
    """Emit the cosine or sine of every rotary angle, ``(T, D/2)``."""
    shift = (
        ["%place = arith.addi %row, " + start + " : index"] if start else ["%place = arith.addi %row, %none : index"]
    )
    body = [
        "%row = linalg.index 0 : index",
        "%column = linalg.index 1 : index",
        "%none = arith.constant 0 : index",
        *shift,
        "%whole = arith.index_cast %place : index to i64",
        "%there = arith.sitofp %whole : i64 to f64",
        "%pair = arith.index_cast %column : index to i64",
        "%nth = arith.sitofp %pair : i64 to f64",
        f"%rate = arith.constant {-math.log(ROTARY_BASE) / shape[1]:.17e} : f64",
        "%exponent = arith.mulf %nth, %rate : f64",
        "%frequency = math.exp %exponent : f64",
        "%angle = arith.mulf %there, %frequency : f64",
        f"%turn = math.{function} %angle : f64",
        "%y = arith.truncf %turn : f64 to f32",
    ]
    return ops.generic(f, name, ops.empty(f, shape, name), [], body, rank=2)
