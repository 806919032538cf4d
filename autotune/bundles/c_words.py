"""C code that packs a weight into 32-bit words of rounded values before any call, as `Precision.pack` does."""

from math import prod

from autotune.core.payload import Argument
from autotune.core.precision import LARGEST, Precision, precision_named
from autotune.core.printable import in_comment
from autotune.store.records import WeightRecord

# C expression of a value's bits in a word, by its type.
BITS = {
    "i8": "(uint32_t)(uint8_t)(int8_t)lrintf(value * steps)",
    "i16": "(uint32_t)(uint16_t)(int16_t)lrintf(value * steps)",
    "bf16": "bf16_bits(value)",
}
AS_IT_IS = "(uint32_t)(uint8_t)(int8_t)value"  # of an i8 value
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
LARGEST_OF = """\
#ifndef AUTOTUNE_LARGEST_OF
#define AUTOTUNE_LARGEST_OF
static inline float largest_of(const float *first, int64_t stride, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i) most = fmaxf(most, fabsf(first[i * stride]));
  return most;
}
#endif
"""
FINEST_STEPS = """\
#ifndef AUTOTUNE_FINEST_STEPS
#define AUTOTUNE_FINEST_STEPS
/* What a column may be multiplied by: by no `span` neighbours do their magnitudes add up to more than `room`. */
static inline float finest_steps(const float *first, int64_t stride, int64_t rows, int64_t length, int64_t padded,
                                 int64_t span, double room, double most) {
  double sum = 0, sums = 0, largest = 0;
  for (int64_t i = 0; i < rows * padded; ++i) {
    const int64_t old = i - span, row = i / padded, of_old = old / padded;
    const double value = i % padded < length ? fabs(first[(row * length + i % padded) * stride]) : 0;
    if (old >= 0 && old % padded < length) sum -= fabs(first[(of_old * length + old % padded) * stride]);
    sum += value;
    if (!(value <= largest)) largest = value;
    if (!(sum <= sums)) sums = sum;
  }
  if (!isfinite(sums)) return 0;
  return (float)fmin(fmin(most / largest, room / sums), 0x1p126);
}
#endif
"""
# C type of a stored element, and the expression that reads it as a float.
STORED = {
    "f32": ("float", "weight[{}]"),
    "i8": ("int8_t", "(float)weight[{}]"),
    "f16": ("uint16_t", "float_of_f16(weight[{}])"),
    "bf16": ("uint16_t", "float_of_bf16(weight[{}])"),
}
WIDEN = {
    "bf16": """\
#ifndef AUTOTUNE_FLOAT_OF_BF16
#define AUTOTUNE_FLOAT_OF_BF16
static inline float float_of_bf16(uint16_t stored) {
  const uint32_t bits = (uint32_t)stored << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
#endif
""",
    "f16": """\
#ifndef AUTOTUNE_FLOAT_OF_F16
#define AUTOTUNE_FLOAT_OF_F16
static inline float float_of_f16(uint16_t stored) {
  const int exponent = stored >> 10 & 31, mantissa = stored & 1023, is_normal = exponent > 0;
  const float finite = ldexpf((float)(mantissa | is_normal << 10), exponent - is_normal - 24);
  const float size = exponent < 31 ? finite : mantissa ? NAN : INFINITY;
  return stored >> 15 ? -size : size;
}
#endif
""",
}
LEFT = """\
#ifndef AUTOTUNE_BF16_REST
#define AUTOTUNE_BF16_REST
static inline float bf16_rest(float value, uint32_t taken) {
  const uint32_t bits = taken << 16;
  float part;
  memcpy(&part, &bits, 4);
  return value - part;
}
#endif
"""


def word_packer(name: str, weight: WeightRecord, source: Argument) -> str:
    """Return the C function that rounds a weight by columns and packs it into panels.

    Args:
        name: Name of the function.
        weight: Weight whose k counts words.
        source: Argument of the payload; f32 if columns have a scale.
    """
    precision = precision_named(weight.precision)
    *lead, words, n = weight.shape
    k, panels, width = prod(source.shape) // (prod(lead) * n), weight.stored_shape[-3], weight.columns
    c_type, reads = STORED[source.dtype]
    element = f"(b * {n} + c) * {k} + i" if weight.transposed else f"(b * {k} + i) * {n} + c"
    first, stride = (f"(b * {n} + c) * {k}", 1) if weight.transposed else (f"b * {k} * {n} + c", n)
    scale, last = "", ""
    if precision.is_scaled:
        scale = "\n" + scaling(precision, f"&weight[{first}]", stride, 1, k)
        last = f"\n      memcpy(&column[{words - precision.extra} * {width}], &scale, 4);"
    start, summed, end = shift_sum(precision, words, width)
    about = f"{in_comment(weight.argument)} {list(source.shape)}, rounded to {precision.name} by columns"
    helpers = helpers_of(precision) + WIDEN.get(source.dtype, "")
    stored = store_value(precision, k, width, summed)
    return f"""\
{helpers}/* Stores {about}, in panels of words {list(weight.stored_shape)}. */
static inline void {name}(const {c_type} *weight, int32_t *panels) {{
  memset(panels, 0, {4 * prod(weight.stored_shape)});
  for (int64_t b = 0; b < {prod(lead)}; ++b)
    for (int64_t c = 0; c < {n}; ++c) {{
      int32_t *column = panels + (b * {panels} + c / {width}) * {words * width} + c % {width};{scale}{start}
      for (int64_t i = 0; i < {k}; ++i) {{
        {"const " if precision.parts == 1 else ""}float value = {reads.format(element)};
{stored}
      }}{last}{end}
    }}
}}
"""


def helpers_of(precision: Precision) -> str:
    """Return the C helper functions that the packers of a precision call."""
    parts, chunk = (LEFT if precision.parts > 1 else ""), (FINEST_STEPS if precision.chunk else "")
    return f"{HELPERS}{LARGEST_OF if precision.is_scaled else ''}{parts}{chunk}"


def scaling(precision: Precision, first: str, stride: int, rows: int, length: int) -> str:
    """Return the C lines that compute a column's quantization factor ``steps`` and its inverse ``scale``.

    Args:
        precision: Precision with a scale per column.
        first: C expression of the address of the column's first element.
        stride: Distance of consecutive elements, in elements.
        rows: Number of runs of elements, each padded to whole words.
        length: Number of elements of a run.
    """
    largest = f"largest_of({first}, {stride}, {rows * length})"
    if not precision.chunk:
        most = precision.most
        return (
            f"      const float most = fmaxf({precision.least!r}f, {largest});\n"
            f"      const float steps = {most}.0f / most, scale = most * (1.0f / {most});"
        )
    padded = precision.part_words(length) * precision.values
    sizes = f"{stride}, {rows}, {length}, {padded}, {precision.span}, {precision.room!r}, {LARGEST}"
    return (
        f"      const float most = {largest};\n"
        f"      const float steps = finest_steps({first}, {sizes});\n"
        "      const float scale = steps > 0 ? 1.0f / steps : most;"
    )


def shift_sum(precision: Precision, words: int, width: int) -> tuple[str, str, str]:
    """Return C code that compensates the shift added to values of A; empty strings if there is no shift.

    The last word of a column holds minus the shift times the sum of the column's values.

    Args:
        precision: Precision of the words.
        words: Number of words of a column.
        width: Number of columns of a panel.

    Returns:
        Code before a column's values, after each of them, and after all.
    """
    if not precision.shift:
        return "", "", ""
    stored = f"\n      column[{words - 1} * {width}] = -{precision.shift} * sum;"
    return "\n      int32_t sum = 0;", " sum += (int8_t)of_value;", stored


def store_value(precision: Precision, k: int, width: int, summed: str) -> str:
    """Return the C lines that write the parts of a value into their words.

    Args:
        precision: Precision of the words.
        k: Number of values of a column.
        width: Number of columns of a panel.
        summed: Code that follows for each value, from `shift_sum`.
    """
    values, bits = precision.values, 32 // precision.values
    rounded = AS_IT_IS if precision.exact else BITS[precision.element]
    if precision.parts == 1:
        return f"""\
        const uint32_t of_value = {rounded};
        column[i / {values} * {width}] |= (int32_t)(of_value << {bits} * (i % {values}));{summed}"""
    words = precision.part_words(k)
    return f"""\
        for (int64_t part = 0; part < {precision.parts}; ++part) {{
          const uint32_t of_value = {rounded};
          column[(part * {words} + i / {values}) * {width}] |= (int32_t)(of_value << {bits} * (i % {values}));
          value = bf16_rest(value, of_value);
        }}"""
