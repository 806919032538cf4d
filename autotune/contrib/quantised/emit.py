"""Products with weights in blocks, as linalg on tensors: one op, which widens blocks where it multiplies them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.contrib.quantised.blocks import HALF, BlockFormat
from payload import ops
from payload.builder import Builder, Value, affine_map, tensor_type

FMA = "fastmath<contract>"
FEW_ROWS = 4  # up to so many rows the sums of blocks are scaled, and not the weights: fewer products in all
PIECE_BYTES = 1 << 20  # of f32 that such a weight is widened to at a time: in L2, beside what is multiplied
LANES, LEAST_PIECE = 16, 128  # rows of a piece are a multiple of the one, and no fewer than the other
MANY_ROWS = 64  # from so many rows on a weight is widened once a call, and multiplied as any other
X_MAP, W_MAP, S_MAP, Y_MAP = (0, 2, 3), (1, 2, 3), (1, 2), (0, 1)  # of loops m, n, block, element


@dataclass(frozen=True)
class StoredBlocks:
    """A weight ``(N, K)`` as it is stored.

    Attributes:
        form: Format.
        whole: Bytes ``(N, K)``, of nibbles ``(N, K / 2)``.
        scale: Scales ``(N, K / block)``.
        least: Least numbers of the same shape; `None` where the format has none.
    """

    form: BlockFormat
    whole: Value
    scale: Value
    least: Value | None = None


def multiply_blocks(f: Builder, x: Value, weight: StoredBlocks, name: str) -> Value:
    """``(M, K)`` times a weight ``(N, K)``, transposed: ``(M, N)``; for few rows without the weight in f32 anywhere."""
    form, (rows, columns), count = weight.form, x.shape, weight.scale.shape[0]
    if rows >= MANY_ROWS:
        return multiply_widened(f, x, weight, name)
    blocks = columns // form.block
    of_x = split(f, x, (rows, blocks, form.halves, HALF), f"{name}_x")
    if form.bits == 8:
        of_w = split(f, weight.whole, (count, blocks, form.halves, HALF), f"{name}_w")
    else:
        of_w = [expand(f, weight.whole, (count, blocks, HALF), f"{name}_w")]
    scales = [weight.scale, *([weight.least] if weight.least is not None else [])]
    inputs = [*((v, X_MAP) for v in of_x), *((v, W_MAP) for v in of_w), *((v, S_MAP) for v in scales)]
    body = write_body(form, rows, len(of_x), len(of_w))
    start = ops.fill(f, (rows, count), "0.0", name)
    return summed(f, name, start, inputs, body)


def multiply_widened(f: Builder, x: Value, weight: StoredBlocks, name: str) -> Value:
    """The same, a piece of N after the other: its weight is widened to f32 just before it is multiplied."""
    (rows, depth), count = x.shape, weight.scale.shape[0]
    piece = piece_of(count, depth)
    if piece == count:
        return ops.matmul(f, x, widen(f, weight, f"{name}_weight"), name, transpose_b=True)
    start, stop, step = f.index("start", 0), f.index("stop", count), f.index("step", piece)
    whole, first = ops.empty(f, (rows, count), name), f.fresh("first")
    inside, result = replace(whole, name=f.fresh(f"{name}_in")), replace(whole, name=f.fresh(name))
    loop = f"{result.name} = scf.for {first} = {start} to {stop} step {step}"
    f.emit(f"{loop} iter_args({inside.name} = {whole.name}) -> ({whole.type}) {{")
    with f.indented():
        whole_part, scale = (rows_at(f, each, first, piece) for each in (weight.whole, weight.scale))
        least = rows_at(f, weight.least, first, piece) if weight.least is not None else None
        wide = widen(f, StoredBlocks(weight.form, whole_part, scale, least), f"{name}_weight")
        made = ops.matmul(f, x, wide, f"{name}_piece", transpose_b=True)
        cut = f"[0, {first}] [{rows}, {piece}] [1, 1] : {made.type} into {whole.type}"
        after = f.define(f"{name}_so_far", whole.shape, f"tensor.insert_slice {made.name} into {inside.name}{cut}")
        f.emit(f"scf.yield {after.name} : {whole.type}")
    f.emit("}")
    return result


def piece_of(count: int, depth: int) -> int:
    """Rows of a weight that are widened at a time: whole vectors, as many as stay in a cache, or all of them.

    Example:
        >>> piece_of(4096, 1024), piece_of(50, 1024), piece_of(50257, 1024)
        (256, 50, 50257)
    """
    most = max(LEAST_PIECE, PIECE_BYTES // (4 * depth))
    fitting = (piece for piece in range(most // LANES * LANES, LEAST_PIECE - 1, -LANES) if count % piece == 0)
    return count if count <= most else next(fitting, count)


def rows_at(f: Builder, value: Value, first: str, count: int) -> Value:
    """Rows of a stored array, from an index on."""
    shape = (count, value.shape[1])
    kind = tensor_type(shape, value.dtype)
    cut = f"[{first}, 0] [{shape[0]}, {shape[1]}] [1, 1] : {value.type} to {kind}"
    return f.define(f"{value.name[1:]}_piece", shape, f"tensor.extract_slice {value.name}{cut}", value.dtype)


def write_body(form: BlockFormat, rows: int, of_x: int, of_w: int) -> list[str]:
    """Scalar operations of an element: ``%x0, ..``, ``%w0, ..`` and ``%scale`` to ``%y``, from ``%acc`` on."""
    body = widen_scales(form) + (widen_bytes(of_w) if form.bits == 8 else widen_nibbles(form))
    total = "%acc"
    if rows > FEW_ROWS:
        for i in range(of_x):
            body.append(f"%v{i} = arith.mulf %f{i}, %s {FMA} : f32")
            if form.least:
                body.append(f"%u{i} = arith.subf %v{i}, %l {FMA} : f32")
            weight = f"%{'u' if form.least else 'v'}{i}"
            body.append(f"%p{i} = arith.mulf {weight}, %x{i} {FMA} : f32")
        total = sum_up(body, [f"%p{i}" for i in range(of_x)], "each_part")
    else:
        body += [f"%p{i} = arith.mulf %f{i}, %x{i} {FMA} : f32" for i in range(of_x)]
        block = sum_up(body, [f"%p{i}" for i in range(of_x)], "each_block")
        body.append(f"%each_scaled = arith.mulf {block}, %s {FMA} : f32")
        total = "%each_scaled"
        if form.least:
            given = sum_up(body, [f"%x{i}" for i in range(of_x)], "each_given")
            body += [
                f"%each_below = arith.mulf {given}, %l {FMA} : f32",
                f"%each_above = arith.subf {total}, %each_below {FMA} : f32",
            ]
            total = "%each_above"
    return [*body, f"%y = arith.addf %acc, {total} {FMA} : f32"]


def sum_up(body: list[str], values: Sequence[str], name: str) -> str:
    """Append the sum of values; give its name."""
    total = values[0]
    for i, value in enumerate(values[1:]):
        body.append(f"%{name}{i} = arith.addf {total}, {value} {FMA} : f32")
        total = f"%{name}{i}"
    return total


def widen_scales(form: BlockFormat) -> list[str]:
    """Scale and least number in f32, ``%s`` and ``%l``."""
    names = ["s", *("l" * form.least)]
    if form.scale == "f32":
        return []
    return [f"%{name} = arith.extf %{name}_stored : {form.scale} to f32" for name in names]


def widen_bytes(count: int) -> list[str]:
    """``%f0, ..`` of bytes."""
    return [f"%f{i} = arith.sitofp %w{i} : i8 to f32" for i in range(count)]


def widen_nibbles(form: BlockFormat) -> list[str]:
    """``%f0`` and ``%f1`` of the two nibbles of a byte."""
    if not form.signed:
        return [
            "%each_wide = arith.extui %w0 : i8 to i32",
            "%each_mask = arith.constant 15 : i32",
            "%each_four = arith.constant 4 : i32",
            "%n0 = arith.andi %each_wide, %each_mask : i32",
            "%n1 = arith.shrui %each_wide, %each_four : i32",
            *(f"%f{i} = arith.sitofp %n{i} : i32 to f32" for i in range(2)),
        ]
    return [
        "%each_wide = arith.extsi %w0 : i8 to i32",
        "%each_four = arith.constant 4 : i32",
        "%each_top = arith.constant 28 : i32",
        "%each_raised = arith.shli %each_wide, %each_top : i32",
        "%n0 = arith.shrsi %each_raised, %each_top : i32",
        "%n1 = arith.shrsi %each_wide, %each_four : i32",
        *(f"%f{i} = arith.sitofp %n{i} : i32 to f32" for i in range(2)),
    ]


def summed(
    f: Builder, name: str, start: Value, inputs: Sequence[tuple[Value, tuple[int, ...]]], body: Sequence[str]
) -> Value:
    """The op: loops m, n, block and element, the last two summed."""
    maps = [affine_map(4, dims) for _, dims in (*inputs, (start, Y_MAP))]
    names, types = (", ".join(getattr(v, part) for v, _ in inputs) for part in ("name", "type"))
    seen = {X_MAP: 0, W_MAP: 0, S_MAP: 0}
    elements = []
    for value, dims in inputs:
        number = seen[dims]
        seen[dims] += 1
        letter = {X_MAP: f"x{number}", W_MAP: f"w{number}", S_MAP: "sl"[min(number, 1)]}[dims]
        elements.append(f"%{letter}{'_stored' if dims == S_MAP and value.dtype != 'f32' else ''}: {value.dtype}")
    result = f.define(name, start.shape, "linalg.generic {")
    f.emit(
        f"    indexing_maps = [{', '.join(maps)}],",
        '    iterator_types = ["parallel", "parallel", "reduction", "reduction"]}',
        f"    ins({names} : {types}) outs({start.name} : {start.type}) {{",
        f"^bb0({', '.join(elements)}, %acc: f32):",
    )
    with f.indented():
        f.emit(*body, "linalg.yield %y : f32")
    f.emit(f"}} -> {start.type}")
    return result


def embed_blocks(f: Builder, table: StoredBlocks, ids: Value, name: str) -> Value:
    """Rows of a ``(V, K)`` table in blocks at ``(T)`` i32 ids, in f32: ``(T, K)``.

    Ids outside ``[0, V)`` are undefined behaviour.
    """
    form, (vocab, blocks) = table.form, table.scale.shape
    wide = form.block * form.bits // 8
    whole = expand(f, table.whole, (vocab, blocks, wide), f"{name}_blocks")
    pairs = (2,) if form.bits == 4 else ()  # of a byte's nibbles
    shape = (ids.shape[0], blocks, *pairs, wide)
    body = [
        "%each_row = arith.index_cast %e0 : i32 to index",
        "%each_block = linalg.index 1 : index",
        f"%each_column = linalg.index {len(shape) - 1} : index",
        f"%each_byte = tensor.extract {whole.name}[%each_row, %each_block, %each_column] : {whole.type}",
        *read_scale(form, table.scale, "s"),
        *(read_scale(form, table.least, "l") if table.least is not None else []),
        *widen_scales(form),
        *widen_one(form),
    ]
    rows = ops.generic(f, f"{name}_apart", ops.empty(f, shape, name), [(ids, (0,))], body, rank=len(shape))
    flat = (ids.shape[0], blocks * form.block)
    groups = f"[[0], {list(range(1, len(shape)))}]"
    text = f"tensor.collapse_shape {rows.name} {groups} : {rows.type} into {tensor_type(flat)}"
    return f.define(name, flat, text)


def widen(f: Builder, weight: StoredBlocks, name: str) -> Value:
    """The whole of a weight, ``(N, K)`` in f32."""
    form, (count, blocks) = weight.form, weight.scale.shape
    wide = form.block * form.bits // 8
    whole = expand(f, weight.whole, (count, blocks, wide), f"{name}_blocks")
    shape = (count, blocks, *((2,) if form.bits == 4 else ()), wide)
    scales = [weight.scale, *([weight.least] if weight.least is not None else [])]
    wider = [f32_of(f, each, f"{name}_{part}") for each, part in zip(scales, ("scale", "least"), strict=False)]
    given = [(whole, (0, 1, len(shape) - 1)), *((each, (0, 1)) for each in wider)]
    names = {"%each_byte": "%e0", "%s": "%e1", "%l": "%e2"}
    body = [re.sub(r"%\w+", lambda found: names.get(found[0], found[0]), line) for line in widen_one(form)]
    rows = ops.generic(f, f"{name}_apart", ops.empty(f, shape, name), given, body, rank=len(shape))
    groups = f"[[0], {list(range(1, len(shape)))}]"
    flat = (count, blocks * form.block)
    text = f"tensor.collapse_shape {rows.name} {groups} : {rows.type} into {tensor_type(flat)}"
    return f.define(name, flat, text)


def f32_of(f: Builder, x: Value, name: str) -> Value:
    """Scales in f32, ahead of the op that spreads them: LLVM widens a spread f16 lane by lane."""
    if x.dtype == "f32":
        return x
    body = [f"%y = arith.extf %e0 : {x.dtype} to f32"]
    return ops.generic(f, name, ops.empty(f, x.shape, name), [(x, (0, 1))], body, rank=2)


def widen_one(form: BlockFormat) -> list[str]:
    """``%y`` of ``%each_byte``, ``%s`` and ``%l``: one element of a weight."""
    return [
        *(["%f = arith.sitofp %each_byte : i8 to f32"] if form.bits == 8 else widen_nibble(form)),
        *(["%each_scaled = arith.mulf %f, %s : f32", "%y = arith.subf %each_scaled, %l : f32"] if form.least else []),
        *([] if form.least else ["%y = arith.mulf %f, %s : f32"]),
    ]


def read_scale(form: BlockFormat, scales: Value, letter: str) -> list[str]:
    """The scale or least number of a row's block, as it is stored."""
    name = letter if form.scale == "f32" else f"{letter}_stored"
    return [f"%{name} = tensor.extract {scales.name}[%each_row, %each_block] : {scales.type}"]


def widen_nibble(form: BlockFormat) -> list[str]:
    """``%f`` of the nibble that loop 2 counts, of a byte."""
    numbered = ["%each_part = linalg.index 2 : index", "%each_nth = arith.index_cast %each_part : index to i32"]
    shift = ["%each_four = arith.constant 4 : i32", "%each_below = arith.muli %each_nth, %each_four : i32"]
    if form.signed:
        moved = [
            "%each_wide = arith.extsi %each_byte : i8 to i32",
            "%each_top = arith.constant 28 : i32",
            "%each_up = arith.subi %each_top, %each_below : i32",
            "%each_raised = arith.shli %each_wide, %each_up : i32",
            "%each_whole = arith.shrsi %each_raised, %each_top : i32",
        ]
    else:
        moved = [
            "%each_wide = arith.extui %each_byte : i8 to i32",
            "%each_mask = arith.constant 15 : i32",
            "%each_lowered = arith.shrui %each_wide, %each_below : i32",
            "%each_whole = arith.andi %each_lowered, %each_mask : i32",
        ]
    return [*numbered, *shift, *moved, "%f = arith.sitofp %each_whole : i32 to f32"]


def split(f: Builder, x: Value, apart: tuple[int, int, int, int], name: str) -> list[Value]:
    """``(R, K)`` to one ``(R, blocks, 16)`` for each half of a block."""
    rows, blocks, halves, half = apart
    if halves == 1:
        return [expand(f, x, (rows, blocks, half), name)]
    whole = expand(f, x, apart, f"{name}_blocks")
    kind = tensor_type((rows, blocks, half), x.dtype)
    parts = []
    for i in range(halves):
        cut = f"[0, 0, {i}, 0] [{rows}, {blocks}, 1, {half}] [1, 1, 1, 1]"
        text = f"tensor.extract_slice {whole.name}{cut} : {whole.type} to {kind}"
        parts.append(f.define(f"{name}_{i}", (rows, blocks, half), text, x.dtype))
    return parts


def expand(f: Builder, x: Value, shape: tuple[int, ...], name: str) -> Value:
    """``(R, K)`` with its second dimension apart."""
    groups = f"[[0], {list(range(1, len(shape)))}]"
    text = f"tensor.expand_shape {x.name} {groups} output_shape {list(shape)} : {x.type} into"
    return f.define(name, shape, f"{text} {tensor_type(shape, x.dtype)}", x.dtype)
