"""C that stores a weight as words of rounded values, as `Precision.pack` does: once, before any call."""

from math import prod

from autotune.core.precision import precision_named
from autotune.core.printable import in_comment
from autotune.store.records import WeightRecord

# One value, as the bits that it has in a word.
BITS = {
    "int8": "(uint32_t)(uint8_t)(int8_t)lrintf(value * steps)",
    "int16": "(uint32_t)(uint16_t)(int16_t)lrintf(value * steps)",
    "bf16": "bf16_bits(value)",
}
HELPERS = """\
#include <math.h>
#include <string.h>
#ifndef AUTOTUNE_BF16_BITS
#define AUTOTUNE_BF16_BITS
static inline uint32_t bf16_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
#endif
"""


def word_packer(name: str, weight: WeightRecord, source: tuple[int, ...]) -> str:
    """The function that rounds a weight by columns and stores it in panels.

    Args:
        name: Name of the function.
        weight: Weight, its k in words.
        source: Shape of the payload's argument, f32.
    """
    precision = precision_named(weight.precision)
    *lead, words, n = weight.shape
    k, panels, width = prod(source) // (prod(lead) * n), weight.stored_shape[-3], weight.columns
    element = f"(b * {n} + c) * {k} + i" if weight.transposed else f"(b * {k} + i) * {n} + c"
    bits = 32 // precision.values
    largest, last = "", ""
    if precision.extra:
        largest = f"""
      float most = 0;
      for (int64_t i = 0; i < {k}; ++i) most = fmaxf(most, fabsf(weight[{element}]));
      const float steps = most > 0 ? {precision.most}.0f / most : 0, scale = most * (1.0f / {precision.most});"""
        last = f"""
      memcpy(&column[{words - precision.extra} * {width}], &scale, 4);"""
    summed = ""
    if precision.shift:
        largest += "\n      int32_t sum = 0;"
        last += f"\n      column[{words - 1} * {width}] = -{precision.shift} * sum;"
        summed = " sum += (int8_t)of_value;"
    about = f"{in_comment(weight.argument)} {list(source)}, rounded to {precision.name} by columns"
    return f"""\
{HELPERS}/* Stores {about}, in panels of words {list(weight.stored_shape)}. */
static inline void {name}(const float *weight, int32_t *panels) {{
  memset(panels, 0, {4 * prod(weight.stored_shape)});
  for (int64_t b = 0; b < {prod(lead)}; ++b)
    for (int64_t c = 0; c < {n}; ++c) {{
      int32_t *column = panels + (b * {panels} + c / {width}) * {words * width} + c % {width};{largest}
      for (int64_t i = 0; i < {k}; ++i) {{
        const float value = weight[{element}];
        const uint32_t of_value = {BITS[precision.name]};
        column[i / {precision.values} * {width}] |= (int32_t)(of_value << {bits} * (i % {precision.values}));{summed}
      }}{last}
    }}
}}
"""
