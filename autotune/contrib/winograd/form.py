"""Winograd-transformed filters, stored before any call, and the stand-in op for their convolution."""

from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.nests import dimensions, indexing_maps, read_index
from autotune.compiler.normalise.emit import dims, generic, read_all
from autotune.compiler.passes import narrow
from autotune.contrib.winograd.marks import MARK
from autotune.contrib.winograd.transform import TAPS, Filtering
from autotune.core.payload import Argument, Array
from autotune.core.plugs.weight_form import PluggedForm, Shape

KERNEL_DIMENSIONS = 4


@dataclass(frozen=True)
class TransformedFilters(PluggedForm):
    """Filters ``(r, r, channels, filters)`` as ``(m + r - 1, m + r - 1, channels, filters)``.

    Attributes:
        filtering: Tile size.
        element: MLIR element type.
    """

    filtering: Filtering
    element: str = "f32"

    @property
    def name(self) -> str:
        """Name of the family."""
        return self.filtering.name

    def takes(self, op: ir.Operation) -> bool:
        """Return whether an op sums over contiguous windows of 3 x 3."""
        of_x, of_kernel, _ = indexing_maps(op)
        sizes = static_shape(op.operands[1])
        if len(sizes) != KERNEL_DIMENSIONS or sizes[:2] != [TAPS, TAPS]:
            return False
        subscripts = [read_index(expr).terms for expr in of_x.results[-3:-1]]
        taps = dimensions(of_kernel)[:2]
        return all(
            len(terms) == len(taps) and (tap, 1) in terms and all(factor == 1 for _, factor in terms)
            for terms, tap in zip(subscripts, taps, strict=True)
        )

    def shape(self, weight: Shape) -> Shape:
        """Return the shape of transformed filters."""
        *_, channels, filters = weight
        return (self.filtering.inputs, self.filtering.inputs, channels, filters)

    def pack(self, weight: Array, stored: Shape, *, transposed: bool) -> Array:
        """Transform filters; they are never stored transposed, so `transposed` is false."""
        *_, channels, filters = stored
        return self.filtering.transform(weight.reshape(TAPS, TAPS, channels, filters))

    def replace(self, op: ir.Operation, kernel: ir.Value) -> None:
        """Replace a convolution by a stand-in op that reads its input, its kernel for sizes, and transformed filters.

        The loops over pairs (u, v) are added after its own; the op overwrites its result.
        """
        maps = indexing_maps(op)
        of_x, of_kernel, of_y = (amap.results for amap in maps)
        rank = maps[0].n_dims
        u, v = dims(rank + 2)[rank:]
        layouts = [of_x, of_kernel, [u, v, *of_kernel[-2:]], of_y]
        written = {number for number, loop in enumerate(dims(rank)) if loop in list(of_y)}
        iterators = ["parallel" if loop in written else "reduction" for loop in range(rank + 2)]
        with ir.InsertionPoint(op), op.location:
            amaps = [ir.AffineMap.get(rank + 2, 0, list(layout)) for layout in layouts]
            stand_in = generic(
                [op.operands[0], kernel, op.operands[1]], narrow.destination(op), amaps, iterators, read_all
            )
            stand_in.owner.attributes[MARK] = ir.IntegerAttr.get(
                ir.IntegerType.get_signless(64), self.filtering.outputs
            )
        narrow.replace(op, stand_in)

    def c_packer(self, name: str, about: str, weight: Argument, shape: Shape, columns: int) -> str:
        """Return C code that transforms f32 filters and packs them into panels."""
        side, (channels, filters) = self.filtering.inputs, shape[-2:]
        panels = -(-filters // columns)
        rows = ", ".join("{" + ", ".join(repr(float(each)) for each in row) + "}" for row in self.filtering.of_taps)
        return f"""\
/* Stores {about}, transformed for {self.name}, in panels of {columns} filters. */
static inline void {name}(const float *weight, float *panels) {{
  static const double of_taps[{side}][{TAPS}] = {{{rows}}};
  for (int64_t u = 0; u < {side}; ++u)
    for (int64_t v = 0; v < {side}; ++v)
      for (int64_t p = 0; p < {panels}; ++p)
        for (int64_t c = 0; c < {channels}; ++c)
          for (int64_t j = 0; j < {columns}; ++j) {{
            const int64_t f = p * {columns} + j;
            double sum = 0;
            if (f < {filters})
              for (int64_t y = 0; y < {TAPS}; ++y)
                for (int64_t x = 0; x < {TAPS}; ++x)
                  sum += of_taps[u][y] * of_taps[v][x] * weight[((y * {TAPS} + x) * {channels} + c) * {filters} + f];
            panels[(((u * {side} + v) * {panels} + p) * {channels} + c) * {columns} + j] = (float)sum;
          }}
}}
"""


FORM_F2, FORM_F4 = TransformedFilters(Filtering(2)), TransformedFilters(Filtering(4))
