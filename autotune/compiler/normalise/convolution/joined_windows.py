"""Rewrite im2col of i8 followed by a matrix product as a convolution that reads the image directly.

    a = concat x[:, i : i + h, j : j + w] for each i, j;   y = (a as rows) * k
      ->   y[n, h, w, f] += x[n, h + i, w + j, c] * k[(i j c), f]

Quantised models express convolutions this way. The im2col matrix is larger than the image by the number of taps, and is
written and read once more.
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
PLAIN = [[0, 2], [2, 1], [0, 1]]  # loops of A, B and C: m, n, k are 0, 1, 2
LEAST = 16  # channels; with fewer, rows of the im2col matrix fill dot-product words better


def part_of(value: ir.Value) -> tuple[ir.Value, Slice]:
    """Trace a chain of static slices to its source; return the source and the composed slice."""
    cut = maker(value)
    if cut is None or not is_known_slice(cut):
        shape = list(value.type.shape)
        return value, Slice.dense([0] * len(shape), shape)
    source, outer = part_of(cut.operands[0])
    return source, Slice(*static_slice(cut)).within(outer)


@dataclass(frozen=True)
class JoinedWindows:
    """Im2col matrix of images (n, sides.., c): one window per row.

    Attributes:
        image: Tensor of images.
        counts: Number of windows along each spatial dimension.
        kernel: Number of taps of a window along each spatial dimension.
        strides: Strides of windows.
        dilations: Dilations of taps.
    """

    image: ir.Value
    counts: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @classmethod
    def of(cls, matrix: ir.Value) -> "JoinedWindows | None":
        """Match an im2col matrix: collapsed concatenation of slices; return `None` if it does not match."""
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
        spans_image = all(first.sizes[d] == image.type.shape[d] for d in (0, rank - 1))
        same_shape = all((of, p.sizes, p.strides) == (image, first.sizes, first.strides) for of, p in parts)
        grid = grid_of([tuple(part.offsets) for _, part in parts])
        if not (spans_image and same_shape) or grid is None or grid[0][0] > 1 or grid[0][-1] > 1:
            return None
        kernel, dilations = (each[1:-1] for each in grid)
        return cls(image, tuple(first.sizes[1:-1]), kernel, tuple(first.strides[1:-1]), dilations)

    @property
    def channels(self) -> int:
        """Number of channels of the images."""
        return int(self.image.type.shape[-1])

    def multiplied(self, weight: ir.Value) -> ir.Value:
        """Build the convolution by a weight ((taps.., c), f), accumulated in i32."""
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
        iterators = [*["parallel"] * (sides + 2), *["reduction"] * (sides + 1)]
        return generic([self.image, kernel], into, maps, iterators, multiply_add)


def multiply_add(x: ir.Value, weight: ir.Value, there: ir.Value) -> ir.Value:
    """Build the sum of an accumulator and a product of i8 values."""
    return arith.addi(there, arith.muli(arith.extsi(there.type, x), arith.extsi(there.type, weight)))


def grid_of(offsets: list[tuple[int, ...]]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return counts and steps of the regular grid that offsets enumerate in row-major order; `None` if they do not."""
    along = [sorted(set(each)) for each in zip(*offsets, strict=True)]
    steps = tuple(each[1] if len(each) > 1 else 1 for each in along)
    counts = tuple(map(len, along))
    regular = all(
        each == [number * step for number in range(count)]
        for each, step, count in zip(along, steps, counts, strict=True)
    )
    return (counts, steps) if regular and offsets == list(product(*along)) else None


def read_joined_windows(module: ir.Module) -> None:
    """Rewrite products of im2col matrices of i8 as convolutions, in place."""

    def write(op: ir.Operation) -> ir.Value | None:
        windows = windows_of(op)
        if windows is None:
            return None
        result = windows.multiplied(op.operands[1])
        *rows, lane = range(len(result.type.shape))
        return flat(result, [rows, [lane]])

    replace_ops(module, [op for op in every_op(module) if op.name == PRODUCT], write, passes=CLEAN)


def windows_of(op: ir.Operation) -> JoinedWindows | None:
    """Match a product of an im2col matrix of i8 and an i8 matrix that starts from zero; `None` if it does not match."""
    if [str(each.type.element_type) for each in op.operands] != ["i8", "i8", "i32"]:
        return None
    if "cast" in op.attributes or [dimensions(amap) for amap in indexing_maps(op)] != PLAIN or not starts_at_zero(op):
        return None
    windows = JoinedWindows.of(op.operands[0])
    return windows if windows is not None and windows.channels >= LEAST else None


def starts_at_zero(op: ir.Operation) -> bool:
    """Return whether the integer accumulator of a product is filled with zero."""
    fill = fill_of(op.operands[2])
    return fill is not None and is_constant(fill.operands[0]) and int(fill.operands[0].owner.attributes["value"]) == 0
