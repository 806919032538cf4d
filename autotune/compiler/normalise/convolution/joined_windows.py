"""Windows of bytes that are joined as rows of a matrix and multiplied: a convolution, which reads each where it lies.

    a = concat x[:, i : i + h, j : j + w] for each i, j;   y = (a as rows) * k
      ->   y[n, h, w, f] += x[n, h + i, w + j, c] * k[(i j c), f]

So are convolutions of quantised models written: what is joined is as many times as large as windows have taps, and
was written and read once more.
"""

from dataclasses import dataclass
from itertools import product

from mlir import ir
from mlir.dialects import arith

from autotune.compiler.ir.module import CLEAN, every_op, replace_ops
from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import fill_of, is_constant, maker, maker_named, reassociation, static_slice
from autotune.compiler.normalise.emit import dims, filled, flat, generic, unflat
from autotune.compiler.normalise.shapes.parts import Slice
from autotune.compiler.normalise.shapes.slices import is_known_slice

PRODUCT, ROWS, JOINED = "linalg.matmul", "tensor.collapse_shape", "tensor.concat"
PLAIN = [[0, 2], [2, 1], [0, 1]]  # loops of A, B and C: rows, columns, sums
LEAST = 16  # channels: of fewer, rows of joined windows fill a processor's words better


def part_of(value: ir.Value) -> tuple[ir.Value, Slice]:
    """The tensor that another one is cut from, perhaps in several steps, and which part of it that is."""
    cut = maker(value)
    if cut is None or not is_known_slice(cut):
        shape = list(value.type.shape)
        return value, Slice.dense([0] * len(shape), shape)
    source, outer = part_of(cut.operands[0])
    return source, Slice(*static_slice(cut)).within(outer)


@dataclass(frozen=True)
class JoinedWindows:
    """Windows over images (n, sides.., c), as rows of a matrix.

    Attributes:
        image: The images.
        counts: Numbers of windows along each side.
        kernel: Taps of a window along each side.
        strides: Steps between windows.
        dilations: Steps between taps of a window.
    """

    image: ir.Value
    counts: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @classmethod
    def of(cls, matrix: ir.Value) -> "JoinedWindows | None":
        """The windows that a matrix is made of; `None` of any other matrix."""
        rows = maker_named(matrix, ROWS)
        joined = maker_named(rows.operands[0], JOINED) if rows is not None else None
        if rows is None or joined is None or not joined.results[0].type.has_static_shape:
            return None
        rank = len(joined.results[0].type.shape)
        last = ir.IntegerAttr(joined.attributes["dim"]).value == rank - 1
        if not last or reassociation(rows) != [[*range(rank - 1)], [rank - 1]]:
            return None
        parts = [part_of(each) for each in joined.operands]
        image, first = parts[0]
        whole = all(first.sizes[d] == image.type.shape[d] for d in (0, rank - 1))
        alike = all((of, p.sizes, p.strides) == (image, first.sizes, first.strides) for of, p in parts)
        grid = grid_of([tuple(part.offsets) for _, part in parts])
        if not (whole and alike) or grid is None or grid[0][0] > 1 or grid[0][-1] > 1:
            return None
        kernel, dilations = (each[1:-1] for each in grid)
        return cls(image, tuple(first.sizes[1:-1]), kernel, tuple(first.strides[1:-1]), dilations)

    @property
    def channels(self) -> int:
        """Channels of the images."""
        return int(self.image.type.shape[-1])

    def multiplied(self, weight: ir.Value) -> ir.Value:
        """Products of all windows by a weight ((taps.., c), f), in 32 bits, at the insertion point."""
        filters, n = weight.type.shape[-1], self.image.type.shape[0]
        sides = len(self.counts)
        kernel = unflat(weight, [[*range(sides + 1)], [sides + 1]], [*self.kernel, self.channels, filters])
        loops = dims(2 * sides + 3)
        image, *positions, lane = loops[: sides + 2]
        *taps, channel = loops[sides + 2 :]
        moves = zip(positions, self.strides, taps, self.dilations, strict=True)
        read = [image, *(position * step + tap * far for position, step, tap, far in moves), channel]
        maps = [ir.AffineMap.get(len(loops), 0, each) for each in (read, [*taps, channel, lane], loops[: sides + 2])]
        i32 = ir.IntegerType.get_signless(32)
        into = filled([n, *self.counts, filters], i32, arith.constant(i32, 0))
        kinds = [*["parallel"] * (sides + 2), *["reduction"] * (sides + 1)]
        return generic([self.image, kernel], into, maps, kinds, multiply_add)


def multiply_add(x: ir.Value, weight: ir.Value, there: ir.Value) -> ir.Value:
    """What was there, plus a product of bytes."""
    return arith.addi(there, arith.muli(arith.extsi(there.type, x), arith.extsi(there.type, weight)))


def grid_of(offsets: list[tuple[int, ...]]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Counts and steps of a grid, by dimension, that offsets are the points of, in order; `None` if they are none."""
    along = [sorted(set(each)) for each in zip(*offsets, strict=True)]
    steps = tuple(each[1] if len(each) > 1 else 1 for each in along)
    counts = tuple(map(len, along))
    regular = all(
        each == [number * step for number in range(count)]
        for each, step, count in zip(along, steps, counts, strict=True)
    )
    return (counts, steps) if regular and offsets == list(product(*along)) else None


def read_joined_windows(module: ir.Module) -> None:
    """Write products of joined windows of bytes as convolutions, in place."""

    def write(op: ir.Operation) -> ir.Value | None:
        windows = windows_of(op)
        if windows is None:
            return None
        result = windows.multiplied(op.operands[1])
        *rows, lane = range(len(result.type.shape))
        return flat(result, [rows, [lane]])

    replace_ops(module, [op for op in every_op(module) if op.name == PRODUCT], write, passes=CLEAN)


def windows_of(op: ir.Operation) -> JoinedWindows | None:
    """The joined windows that an op multiplies by a matrix of bytes, from zero; `None` of any other op."""
    if [str(each.type.element_type) for each in op.operands] != ["i8", "i8", "i32"]:
        return None
    if "cast" in op.attributes or [dimensions(amap) for amap in indexing_maps(op)] != PLAIN or not starts_at_zero(op):
        return None
    windows = JoinedWindows.of(op.operands[0])
    return windows if windows is not None and windows.channels >= LEAST else None


def starts_at_zero(op: ir.Operation) -> bool:
    """Tell whether sums of whole numbers begin with zero."""
    fill = fill_of(op.operands[2])
    return fill is not None and is_constant(fill.operands[0]) and int(fill.operands[0].owner.attributes["value"]) == 0
