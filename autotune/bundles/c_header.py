"""The C header of an emitted program: a function on plain pointers, and how weights are stored beforehand."""

from collections.abc import Sequence
from math import prod

from autotune.core.payload import Argument
from autotune.store.records import WeightRecord

C_TYPES = {"f32": "float", "f64": "double", "i32": "int32_t", "i64": "int64_t"}


def c_header(entry: str, arguments: Sequence[Argument], weights: Sequence[WeightRecord], about: str) -> str:
    """Declare a program.

    Args:
        entry: Its entry function.
        arguments: Of the payload.
        weights: Those that are stored in panels; the program takes them after the arguments.
        about: A line for whoever reads it.
    """
    name = c_name(entry)
    types = {argument.name: argument for argument in arguments}
    stored = [
        Argument(f"{w.argument}_panels_{i}", "weight", w.stored_shape, types[w.argument].dtype)
        for i, w in enumerate(weights)
    ]
    everything = [*arguments, *stored]
    descriptors = sorted({(argument.dtype, len(argument.shape)) for argument in everything})
    parts = [
        f"/* {about}\n   {name}(...) is not reentrant: its intermediates lie in one arena. Link with -no-pie -lm. */",
        f"#ifndef AUTOTUNE_{name.upper()}_H\n#define AUTOTUNE_{name.upper()}_H\n\n#include <stdint.h>\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        *(descriptor(dtype, rank) for dtype, rank in descriptors),
        *(packer(name, w, s, types[w.argument]) for w, s in zip(weights, stored, strict=True)),
        caller(name, entry, everything),
        "\n#ifdef __cplusplus\n}\n#endif\n#endif",
    ]
    return "\n".join(parts) + "\n"


def c_name(entry: str) -> str:
    """A C identifier for an MLIR symbol."""
    return "autotune_" + "".join(c if c.isalnum() else "_" for c in entry)


def descriptor(dtype: str, rank: int) -> str:
    """MLIR's memref descriptor, once for all programs."""
    guard = f"AUTOTUNE_MEMREF_{dtype.upper()}_{rank}"
    shape = f" int64_t sizes[{rank}], strides[{rank}];" if rank else ""
    pointer = C_TYPES[dtype]
    return (
        f"#ifndef {guard}\n#define {guard}\n"
        f"typedef struct {{ {pointer} *allocated, *aligned; int64_t offset;{shape} }} autotune_memref_{dtype}_{rank};\n"
        "#endif\n"
    )


def caller(name: str, entry: str, arguments: Sequence[Argument]) -> str:
    """The function to call: it wraps pointers into descriptors."""
    kinds = [f"autotune_memref_{a.dtype}_{len(a.shape)}" for a in arguments]
    plain = ", ".join(
        f"{'' if a.role == 'output' else 'const '}{C_TYPES[a.dtype]} *{a.name} /* {a.role} {list(a.shape)} */"
        for a in arguments
    )
    lines = [
        f"void _mlir_ciface_{entry}({', '.join(f'{kind} *' for kind in kinds)});",
        "",
        f"static inline void {name}({plain}) {{",
    ]
    for index, (argument, kind) in enumerate(zip(arguments, kinds, strict=True)):
        pointer = f"({C_TYPES[argument.dtype]} *){argument.name}"
        shape = argument.shape
        strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
        tail = f", {{{', '.join(map(str, shape))}}}, {{{', '.join(map(str, strides))}}}" if shape else ""
        lines.append(f"  {kind} memref_{index} = {{{pointer}, {pointer}, 0{tail}}};")
    lines.append(f"  _mlir_ciface_{entry}({', '.join(f'&memref_{i}' for i in range(len(arguments)))});")
    return "\n".join([*lines, "}"])


def packer(name: str, weight: WeightRecord, stored: Argument, source: Argument) -> str:
    """The function that stores a weight in panels: once, before any call."""
    *lead, k, n = weight.shape
    panels = -(-n // weight.columns)
    kind, width = C_TYPES[source.dtype], weight.columns
    element = f"(b * {n} + c) * {k} + i" if weight.transposed else f"(b * {k} + i) * {n} + c"
    return f"""\
/* Stores {weight.argument} {list(source.shape)} in panels {list(stored.shape)}; columns beyond {n} are zero. */
static inline void {name}_prepare_{stored.name}(const {kind} *weight, {kind} *panels) {{
  for (int64_t b = 0; b < {prod(lead)}; ++b)
    for (int64_t p = 0; p < {panels}; ++p)
      for (int64_t i = 0; i < {k}; ++i)
        for (int64_t j = 0; j < {width}; ++j) {{
          const int64_t c = p * {width} + j;
          panels[((b * {panels} + p) * {k} + i) * {width} + j] = c < {n} ? weight[{element}] : 0;
        }}
}}
"""
