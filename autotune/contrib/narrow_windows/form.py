"""Kernels as words of rounded values, stored before any call, and the stand-in ops for convolutions of words.

    y[h, w, f] += x[h + i, w + j, c] k[i, j, c, f]   ->   v = {autotune.window_rounded} ins(x)        words along c
                                                          y = {autotune.window_sums} ins(v, words of k)

The second op has the loops of the convolution, with a word per step of c, and is tiled as such. After the words of
every tap and of every input position come additional words that a precision needs, such as a scale.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from mlir import ir

from autotune.bundles.c_words import STORED, WIDEN, helpers_of, scaling, shift_sum, store_value
from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.nests import element_type, indexing_maps
from autotune.compiler.normalise.emit import dims, generic, read_all
from autotune.compiler.passes import narrow
from autotune.contrib.narrow_windows.loops import WindowLoops
from autotune.contrib.narrow_windows.marks import ROUNDED, SHARED, SUMS
from autotune.core.errors import CompileError
from autotune.core.host.matrix_unit import ROWS
from autotune.core.payload import Argument, Array
from autotune.core.plugs.weight_form import PluggedForm, Shape
from autotune.core.precision import BF16, BYTES, INT16, TILE_BF16, TILE_BF16X2, TILE_BYTES, Precision, as_words

BYTE = "i8"  # element type of inputs that are packed without rounding


@dataclass(frozen=True)
class WindowWords(PluggedForm):
    """A kernel ``(taps.., channels, filters)`` as ``(taps.., words, filters)``, a filter rounded by itself, or bytes.

    Attributes:
        precision: Precision of the words.
        element: MLIR element type.
    """

    precision: Precision
    element: str = "i32"

    @property
    def name(self) -> str:
        """Name of the family and of this form."""
        return f"window_{self.precision.name}"

    @property
    def lacking(self) -> str:
        """CPU feature that is missing; empty if none."""
        return self.precision.lacking

    def takes(self, op: ir.Operation) -> bool:
        """Return whether an op sums products along contiguous channels; for tiles, with rows at a constant distance."""
        loops = WindowLoops.of(op)
        if loops is None or (element_type(op.operands[0]) == BYTE) != self.precision.exact:
            return False
        return not self.precision.by_tiles or len(loops.moved_by_rows) == 1

    def shape(self, weight: Shape) -> Shape:
        """Return the shape of the words."""
        *taps, channels, filters = weight
        return (*taps, self.precision.words(channels), filters)

    def pack(self, weight: Array, stored: Shape, *, transposed: bool) -> Array:
        """Pack a kernel into words; it is never stored transposed, so `transposed` is false."""
        *taps, words, filters = stored
        plain = weight.reshape(*taps, -1, filters)
        if self.precision.exact:
            return self.precision.pack(plain)
        channels = plain.shape[-2]
        filled = np.zeros((*taps, self.precision.values * self.precision.part_words(channels), filters), np.float32)
        filled[..., :channels, :] = plain
        if not self.precision.most:
            parts = self.precision.split(filled)
            return np.concatenate([as_words(part, self.precision.values) for part in parts], axis=-2)
        scale, rounded = self.precision.quantise(filled.reshape(-1, filters))
        of_taps = as_words(rounded.reshape(filled.shape), self.precision.values)
        scales = np.broadcast_to(scale.view(np.int32), (*taps, words - of_taps.shape[-2], filters))
        return np.concatenate([of_taps, scales], axis=-2)

    def replace(self, op: ir.Operation, kernel: ir.Value) -> None:
        """Replace a convolution, whose second operand is words of its kernel, by ops that round its input and sum."""
        loops = WindowLoops.of(op)
        if loops is None:
            raise CompileError("transform", f"{self.name} must be of sums over channels that are side by side")
        maps = indexing_maps(op)
        iterators = ["parallel" if loop in loops.of_y else "reduction" for loop in range(maps[0].n_dims)]
        with ir.InsertionPoint(op), op.location:
            words = rounded(op.operands[0], loops.shared, self.precision, self.room_behind(op, loops))
            stand_in = generic([words, op.operands[1]], narrow.destination(op), maps, iterators, read_all)
            stand_in.owner.attributes[SUMS] = ir.StringAttr.get(self.precision.name)
        narrow.replace(op, stand_in)

    def room_behind(self, op: ir.Operation, loops: WindowLoops) -> list[int]:
        """Return the padding of the inputs along each dimension: a tile of rows is loaded whole, wherever it begins."""
        sizes = dict(zip(loops.of_y, static_shape(op.results[0]), strict=True))
        sizes |= dict(zip(loops.of_kernel, static_shape(op.operands[1]), strict=True))
        if not self.precision.by_tiles:
            return [0] * len(loops.of_x[:-1])
        sizes[loops.rows[-1]] += ROWS - 1
        *input_sizes, _ = static_shape(op.operands[0])
        extents = [1 + sum(by * (sizes[loop] - 1) for loop, by in terms) for terms in loops.of_x[:-1]]
        return [max(0, extent - size) for extent, size in zip(extents, input_sizes, strict=True)]

    def c_packer(self, name: str, about: str, weight: Argument, shape: Shape, columns: int) -> str:
        """Return C code that rounds filters and packs them into panels of words."""
        *taps, words, filters = shape
        precision, count = self.precision, prod(taps)
        channels, panels = prod(weight.shape) // (count * filters), -(-filters // columns)
        (c_type, reads), scale, last = STORED[weight.dtype], "", ""
        start, summed, end = shift_sum(precision, words, columns)
        in_words = "in words" if precision.exact else f"rounded to {precision.name}"
        element = reads.format(f"(t * {channels} + i) * {filters} + f")
        if precision.is_scaled:
            scale = "\n" + scaling(precision, "&weight[f]", filters, count, channels)
            last = f"\n      memcpy(&column[{(words - precision.extra) * columns}], &scale, 4);"
        helpers = helpers_of(precision) + WIDEN.get(weight.dtype, "")
        return f"""\
{helpers}/* Stores {about}, {in_words} by filters, in panels. */
static inline void {name}(const {c_type} *weight, int32_t *panels) {{
  memset(panels, 0, {4 * count * panels * words * columns});
  for (int64_t f = 0; f < {filters}; ++f) {{{scale}
    for (int64_t t = 0; t < {count}; ++t) {{
      int32_t *column = panels + (t * {panels} + f / {columns}) * {words * columns} + f % {columns};{start}
      for (int64_t i = 0; i < {channels}; ++i) {{
        {"const " if precision.parts == 1 else ""}float value = {element};
{store_value(precision, channels, columns, summed)}
      }}{last}{end}
    }}
  }}
}}
"""


def rounded(x: ir.Value, shared: list[int], precision: Precision, room: list[int]) -> ir.Value:
    """Emit the rounding of inputs to words along their last dimension, with padding along the others."""
    *lead, channels = static_shape(x)
    word = ir.IntegerType.get_signless(32)
    destination = narrow.empty_with_room([*lead, precision.words(channels)], [*room, 0], word)
    *position, channel, word_dim = dims(len(lead) + 2)
    maps = [ir.AffineMap.get(len(lead) + 2, 0, [*position, last]) for last in (channel, word_dim)]
    stand_in = generic([x], destination, maps, [*["parallel"] * len(lead), "reduction", "parallel"], read_all)
    stand_in.owner.attributes[ROUNDED] = ir.StringAttr.get(precision.name)
    stand_in.owner.attributes[SHARED] = ir.DenseI64ArrayAttr.get(shared)
    return stand_in


FORM_INT16, FORM_BF16 = WindowWords(INT16), WindowWords(BF16)
FORM_TILE_BF16, FORM_TILE_BF16X2 = WindowWords(TILE_BF16), WindowWords(TILE_BF16X2)
FORM_BYTES, FORM_TILE_BYTES = WindowWords(BYTES), WindowWords(TILE_BYTES)
FORMS = (FORM_INT16, FORM_BF16, FORM_TILE_BF16, FORM_TILE_BF16X2, FORM_BYTES, FORM_TILE_BYTES)
