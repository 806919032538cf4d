"""Products with block-quantized weights: one linalg op that dequantizes the blocks where it multiplies them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from payload import ops
from payload.blocks import HALF, LEAST, SCALE, UNIT, BlockFormat
from payload.builder import Builder, Value, affine_map, tensor_type

FMA = "fastmath<contract>"
FEW_ROWS = 4  # up to this many rows, block sums are scaled instead of weights, which takes fewer multiplications
LETTERS = {SCALE: "s", LEAST: "l", SCALE + UNIT: "s_unit", LEAST + UNIT: "l_unit"}


@dataclass(frozen=True)
class StoredBlocks:
    """A block-quantized weight ``(N, K)`` as it is stored.

    Attributes:
        form: Block format.
        whole: Quantized values in i8: ``(N, K)``, or ``(N, K / 2)`` where a byte holds two 4-bit values.
        numbers: Scales and minima ``(N, K / block)`` and their units ``(N, K / block / group)``, by name suffix.
    """

    form: BlockFormat
    whole: Value
    numbers: dict[str, Value]

    @classmethod
    def named(cls, form: BlockFormat, tensors: Mapping[str, Value], name: str) -> "StoredBlocks":
        """Collect the parts of the weight `name` from tensors by name."""
        return cls(form, tensors[name], {end: tensors[name + end] for end in form.ends[1:]})

    @property
    def blocks(self) -> tuple[int, ...]:
        """Block dimensions: ``(groups, blocks per group)``, or ``(blocks,)`` where there is at most one group."""
        count, group = self.numbers[SCALE].shape[1], self.form.group
        return (count // group, group) if group and count > group else (count,)


@dataclass(frozen=True)
class ProductLoops:
    """Iteration space of a product: m, n, group of blocks (if grouped), block, element.

    Attributes:
        grouped: Whether there is a loop over groups of blocks.
    """

    grouped: bool

    @property
    def rank(self) -> int:
        """Number of loops."""
        return 5 if self.grouped else 4

    @cached_property
    def inner(self) -> tuple[int, ...]:
        """Loops over blocks: group (if grouped) and block."""
        return tuple(range(2, self.rank - 1))

    def dims(self, letter: str) -> tuple[int, ...]:
        """Return the loops that index an operand, given the letters of its element name."""
        if letter in ("s", "l"):
            return (1, *self.inner)
        if letter.endswith("unit"):
            return (1, *self.inner[:-1])
        return {"x": (0, *self.inner, self.rank - 1), "w": (1, *self.inner, self.rank - 1), "y": (0, 1)}[letter]

    @property
    def iterators(self) -> str:
        """Iterator types, in MLIR syntax."""
        return ", ".join(['"parallel"'] * 2 + ['"reduction"'] * (self.rank - 2))


def multiply_blocks(f: Builder, x: Value, weight: StoredBlocks, name: str) -> Value:
    """Multiply ``(M, K)`` by a transposed block-quantized weight ``(N, K)``: ``(M, N)``."""
    form, rows, count = weight.form, x.shape[0], weight.whole.shape[0]
    x_parts = split(f, x, weight.blocks, form.halves, f"{name}_x")
    if form.bits == 8:
        w_parts = split(f, weight.whole, weight.blocks, form.halves, f"{name}_w")
    else:
        w_parts = [expand(f, weight.whole, (count, *weight.blocks, HALF), f"{name}_w")]
    inputs = {f"x{i}": value for i, value in enumerate(x_parts)} | {f"w{i}": value for i, value in enumerate(w_parts)}
    grouped = len(weight.blocks) > 1
    for end, value in weight.numbers.items():
        is_unit = end.endswith(UNIT)
        if grouped and not is_unit:
            inputs[LETTERS[end]] = expand(f, value, (count, *weight.blocks), f"{name}{end}")
        else:
            inputs[LETTERS[end]] = drop_ones(f, value, f"{name}{end}") if is_unit and not grouped else value
    body = write_body(form, rows, len(x_parts), len(w_parts))
    return summed(f, name, inputs, body, ProductLoops(grouped))


def write_body(form: BlockFormat, rows: int, of_x: int, of_w: int) -> list[str]:
    """Return the scalar body: from ``%x0, ..``, ``%w0, ..``, scales and ``%acc`` to ``%y``."""
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
            x_sum = sum_up(body, [f"%x{i}" for i in range(of_x)], "each_given")
            body += [
                f"%each_below = arith.mulf {x_sum}, %l {FMA} : f32",
                f"%each_above = arith.subf {total}, %each_below {FMA} : f32",
            ]
            total = "%each_above"
    return [*body, f"%y = arith.addf %acc, {total} {FMA} : f32"]


def sum_up(body: list[str], values: Sequence[str], name: str) -> str:
    """Append the sum of values to a body and return its name."""
    total = values[0]
    for i, value in enumerate(values[1:]):
        body.append(f"%{name}{i} = arith.addf {total}, {value} {FMA} : f32")
        total = f"%{name}{i}"
    return total


def widen_scales(form: BlockFormat) -> list[str]:
    """Return the operations that convert scale and minimum to f32, ``%s`` and ``%l``."""
    names = ["s", *("l" * form.least)]
    if form.group:
        return [line for name in names for line in count_units(form, name)]
    if form.scale == "f32":
        return []
    return [f"%{name} = arith.extf %{name}_stored : {form.scale} to f32" for name in names]


def count_units(form: BlockFormat, name: str) -> list[str]:
    """Return the operations that multiply an i8 scale or minimum by its unit; the product is exact in f32."""
    return [
        f"%{name}_each = arith.extf %{name}_unit_stored : {form.scale} to f32",
        f"%{name}_count = arith.sitofp %{name}_stored : i8 to f32",
        f"%{name} = arith.mulf %{name}_count, %{name}_each : f32",
    ]


def widen_bytes(count: int) -> list[str]:
    """Return the operations that convert i8 elements to f32, ``%f0, ..``."""
    return [f"%f{i} = arith.sitofp %w{i} : i8 to f32" for i in range(count)]


def widen_nibbles(form: BlockFormat) -> list[str]:
    """Return the operations that unpack the two 4-bit values of a byte to f32, ``%f0`` and ``%f1``."""
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


def summed(f: Builder, name: str, inputs: Mapping[str, Value], body: Sequence[str], loops: ProductLoops) -> Value:
    """Emit the ``linalg.generic`` of a product: parallel over m and n, a reduction over all other loops.

    Args:
        f: Builder that ops are appended to.
        name: Name of the result.
        inputs: Operands, by the names of their elements in the body.
        body: Scalar operations that define ``%y``.
        loops: Iteration space.
    """
    start = ops.fill(f, (inputs["x0"].shape[0], inputs["w0"].shape[0]), "0.0", name)
    dims = [loops.dims(each.rstrip("0123456789")) for each in (*inputs, "y")]
    maps = [affine_map(loops.rank, each) for each in dims]
    names, types = (", ".join(getattr(v, part) for v in inputs.values()) for part in ("name", "type"))
    elements = [
        f"%{each}{'_stored' if each[0] in 'sl' and value.dtype != 'f32' else ''}: {value.dtype}"
        for each, value in inputs.items()
    ]
    result = f.define(name, start.shape, "linalg.generic {")
    f.emit(
        f"    indexing_maps = [{', '.join(maps)}],",
        f"    iterator_types = [{loops.iterators}]}}",
        f"    ins({names} : {types}) outs({start.name} : {start.type}) {{",
        f"^bb0({', '.join(elements)}, %acc: f32):",
    )
    with f.indented():
        f.emit(*body, "linalg.yield %y : f32")
    f.emit(f"}} -> {start.type}")
    return result


def embed_blocks(f: Builder, table: StoredBlocks, ids: Value, name: str) -> Value:
    """Gather rows of a block-quantized table ``(V, K)`` at ``(T)`` i32 ids, in f32: ``(T, K)``.

    Ids outside ``[0, V)`` are undefined behaviour.
    """
    form, (vocab, blocks) = table.form, table.numbers[SCALE].shape
    block_bytes = form.block * form.bits // 8
    whole = expand(f, table.whole, (vocab, blocks, block_bytes), f"{name}_blocks")
    pairs = (2,) if form.bits == 4 else ()  # two 4-bit values per byte
    shape = (ids.shape[0], blocks, *pairs, block_bytes)
    body = [
        "%each_row = arith.index_cast %e0 : i32 to index",
        "%each_block = linalg.index 1 : index",
        f"%each_column = linalg.index {len(shape) - 1} : index",
        f"%each_byte = tensor.extract {whole.name}[%each_row, %each_block, %each_column] : {whole.type}",
        *([f"%each_size = arith.constant {form.group} : index"] if form.group else []),
        *(["%each_group = arith.divui %each_block, %each_size : index"] if form.group else []),
        *(line for end, value in table.numbers.items() for line in read_number(value, LETTERS[end])),
        *widen_scales(form),
        *widen_one(form),
    ]
    rows = ops.generic(f, f"{name}_apart", ops.empty(f, shape, name), [(ids, (0,))], body, rank=len(shape))
    flat = (ids.shape[0], blocks * form.block)
    groups = f"[[0], {list(range(1, len(shape)))}]"
    text = f"tensor.collapse_shape {rows.name} {groups} : {rows.type} into {tensor_type(flat)}"
    return f.define(name, flat, text)


def widen_one(form: BlockFormat) -> list[str]:
    """Return the operations from ``%each_byte``, ``%s`` and ``%l`` to ``%y``, one element of a weight in f32."""
    return [
        *(["%f = arith.sitofp %each_byte : i8 to f32"] if form.bits == 8 else widen_nibble(form)),
        *(["%each_scaled = arith.mulf %f, %s : f32", "%y = arith.subf %each_scaled, %l : f32"] if form.least else []),
        *([] if form.least else ["%y = arith.mulf %f, %s : f32"]),
    ]


def read_number(numbers: Value, letter: str) -> list[str]:
    """Return the operation that reads the scale or minimum of a block, or the unit of its group, as stored."""
    name = letter if numbers.dtype == "f32" else f"{letter}_stored"
    column = "%each_group" if letter.endswith("unit") else "%each_block"
    return [f"%{name} = tensor.extract {numbers.name}[%each_row, {column}] : {numbers.type}"]


def widen_nibble(form: BlockFormat) -> list[str]:
    """Return the operations that unpack one 4-bit value of a byte to ``%f``; loop 2 counts the values of a byte."""
    numbered = ["%each_part = linalg.index 2 : index", "%each_nth = arith.index_cast %each_part : index to i32"]
    shift = ["%each_four = arith.constant 4 : i32", "%each_below = arith.muli %each_nth, %each_four : i32"]
    if form.signed:
        extraction = [
            "%each_wide = arith.extsi %each_byte : i8 to i32",
            "%each_top = arith.constant 28 : i32",
            "%each_up = arith.subi %each_top, %each_below : i32",
            "%each_raised = arith.shli %each_wide, %each_up : i32",
            "%each_whole = arith.shrsi %each_raised, %each_top : i32",
        ]
    else:
        extraction = [
            "%each_wide = arith.extui %each_byte : i8 to i32",
            "%each_mask = arith.constant 15 : i32",
            "%each_lowered = arith.shrui %each_wide, %each_below : i32",
            "%each_whole = arith.andi %each_lowered, %each_mask : i32",
        ]
    return [*numbered, *shift, *extraction, "%f = arith.sitofp %each_whole : i32 to f32"]


def split(f: Builder, x: Value, blocks: tuple[int, ...], halves: int, name: str) -> list[Value]:
    """Split ``(R, K)`` into one tensor ``(R, *blocks, 16)`` for each half of a block."""
    outer = (x.shape[0], *blocks)
    if halves == 1:
        return [expand(f, x, (*outer, HALF), name)]
    whole = expand(f, x, (*outer, halves, HALF), f"{name}_blocks")
    shape = (*outer, HALF)
    parts = []
    for i in range(halves):
        slice_text = f"{[*([0] * len(outer)), i, 0]} {[*outer, 1, HALF]} {[1] * (len(outer) + 2)}"
        text = f"tensor.extract_slice {whole.name}{slice_text} : {whole.type} to {tensor_type(shape, x.dtype)}"
        parts.append(f.define(f"{name}_{i}", shape, text, x.dtype))
    return parts


def drop_ones(f: Builder, x: Value, name: str) -> Value:
    """Drop the unit dimension: ``(R, 1) -> (R)``."""
    shape = x.shape[:1]
    text = f"tensor.extract_slice {x.name}[0, 0] [{shape[0]}, 1] [1, 1] : {x.type} to {tensor_type(shape, x.dtype)}"
    return f.define(name, shape, text, x.dtype)


def expand(f: Builder, x: Value, shape: tuple[int, ...], name: str) -> Value:
    """Expand the second dimension of ``(R, K)``, so that the result has `shape`."""
    groups = f"[[0], {list(range(1, len(shape)))}]"
    text = f"tensor.expand_shape {x.name} {groups} output_shape {list(shape)} : {x.type} into"
    return f.define(name, shape, f"{text} {tensor_type(shape, x.dtype)}", x.dtype)
