"""Kernels in words of rounded values, stored before any call, and the ops that stand for a convolution of words.

    y[h, w, f] += x[h + i, w + j, c] k[i, j, c, f]   ->   v = {autotune.window_rounded} ins(x)        words along c
                                                          y = {autotune.window_sums} ins(v, words of k)

The second has the loops of the convolution, with a word a step of c, and is tiled as one. Behind the words of every tap
and every position of the inputs are those that a precision wants besides, such as a scale.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from mlir import ir
from mlir.dialects import tensor

from autotune.bundles.c_words import BITS, helpers_of, scaling
from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.nests import indexing_maps
from autotune.compiler.normalise.emit import dims, generic, read_all
from autotune.compiler.passes import narrow
from autotune.contrib.narrow_windows.loops import WindowLoops
from autotune.contrib.narrow_windows.marks import ROUNDED, SHARED, SUMS
from autotune.core.errors import CompileError
from autotune.core.payload import Array
from autotune.core.plugs.weight_form import PluggedForm, Shape
from autotune.core.precision import BF16, INT16, Precision, as_words


@dataclass(frozen=True)
class WindowWords(PluggedForm):
    """A kernel ``(taps.., channels, filters)`` as ``(taps.., words, filters)``, a filter rounded by itself.

    Attributes:
        precision: Precision of the words.
        element: MLIR element type.
    """

    precision: Precision
    element: str = "i32"

    @property
    def name(self) -> str:
        """Name of the family, and of this form."""
        return f"window_{self.precision.name}"

    @property
    def lacking(self) -> str:
        """The instruction, where there is none."""
        return self.precision.lacking

    def takes(self, op: ir.Operation) -> bool:
        """Whether an op sums products along channels that are side by side in its inputs."""
        return WindowLoops.of(op) is not None

    def shape(self, weight: Shape) -> Shape:
        """The shape of the words."""
        *taps, channels, filters = weight
        return (*taps, self.precision.words(channels), filters)

    def pack(self, weight: Array, stored: Shape, *, transposed: bool) -> Array:
        """The words; kernels are never stored transposed, `transposed` is false."""
        *taps, words, filters = stored
        plain = weight.reshape(*taps, -1, filters)
        channels = plain.shape[-2]
        filled = np.zeros((*taps, self.precision.values * self.precision.part_words(channels), filters), np.float32)
        filled[..., :channels, :] = plain
        if not self.precision.most:
            (values,) = self.precision.split(filled)
            return as_words(values, self.precision.values)
        scale, rounded = self.precision.quantise(filled.reshape(-1, filters))
        of_taps = as_words(rounded.reshape(filled.shape), self.precision.values)
        scales = np.broadcast_to(scale.view(np.int32), (*taps, words - of_taps.shape[-2], filters))
        return np.concatenate([of_taps, scales], axis=-2)

    def replace(self, op: ir.Operation, kernel: ir.Value) -> None:
        """Replace a convolution, whose second operand is words of its kernel, by the rounding of inputs and sums."""
        loops = WindowLoops.of(op)
        if loops is None:
            raise CompileError("transform", f"{self.name} must be of sums over channels that are side by side")
        maps = indexing_maps(op)
        iterators = ["parallel" if loop in loops.of_y else "reduction" for loop in range(maps[0].n_dims)]
        with ir.InsertionPoint(op), op.location:
            words = rounded(op.operands[0], loops.shared, self.precision)
            made = generic([words, op.operands[1]], narrow.destination(op), maps, iterators, read_all)
            made.owner.attributes[SUMS] = ir.StringAttr.get(self.precision.name)
        narrow.replace(op, made)

    def c_packer(self, name: str, about: str, elements: int, shape: Shape, columns: int) -> str:
        """C that rounds filters and lays them in panels of words."""
        *taps, words, filters = shape
        precision, count = self.precision, prod(taps)
        channels, panels = elements // (count * filters), -(-filters // columns)
        values, scale, last = precision.values, "", ""
        if precision.is_scaled:
            scale = "\n" + scaling(precision, "&weight[f]", filters, count, channels)
            last = f"\n      memcpy(&tap[{(words - precision.extra) * columns}], &scale, 4);"
        return f"""\
{helpers_of(precision)}/* Stores {about}, rounded to {precision.name} by filters, in panels of {columns} filters. */
static inline void {name}(const float *weight, int32_t *panels) {{
  memset(panels, 0, {4 * count * panels * words * columns});
  for (int64_t f = 0; f < {filters}; ++f) {{{scale}
    for (int64_t t = 0; t < {count}; ++t) {{
      int32_t *tap = panels + (t * {panels} + f / {columns}) * {words * columns} + f % {columns};
      for (int64_t c = 0; c < {channels}; ++c) {{
        const float value = weight[(t * {channels} + c) * {filters} + f];
        const uint32_t of_value = {BITS[precision.element]};
        tap[c / {values} * {columns}] |= (int32_t)(of_value << {32 // values} * (c % {values}));
      }}{last}
    }}
  }}
}}
"""


def rounded(x: ir.Value, shared: list[int], precision: Precision) -> ir.Value:
    """Words of inputs, along their last dimension, at the insertion point."""
    *lead, channels = static_shape(x)
    word = ir.IntegerType.get_signless(32)
    into = tensor.empty([*lead, precision.words(channels)], word)
    *position, channel, place = dims(len(lead) + 2)
    maps = [ir.AffineMap.get(len(lead) + 2, 0, [*position, last]) for last in (channel, place)]
    made = generic([x], into, maps, [*["parallel"] * len(lead), "reduction", "parallel"], read_all)
    made.owner.attributes[ROUNDED] = ir.StringAttr.get(precision.name)
    made.owner.attributes[SHARED] = ir.DenseI64ArrayAttr.get(shared)
    return made


FORM_INT16, FORM_BF16 = WindowWords(INT16), WindowWords(BF16)
