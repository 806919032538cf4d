"""C header of an emitted program: a function that takes plain pointers, and functions that prepack weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from textwrap import fill
from typing import TYPE_CHECKING

from autotune.bundles.c_words import word_packer
from autotune.core.c_names import c_name, c_symbol, identifier
from autotune.core.payload import WRITTEN, Argument
from autotune.core.precision import PRECISIONS
from autotune.core.printable import in_comment
from autotune.registry import weight_form
from autotune.store.records import WeightRecord

if TYPE_CHECKING:
    from autotune.compiler.lowering.emit import Emitted

# C type of every element type in `autotune.core.payload.DTYPES`; 16-bit floats, which few compilers support, as bits.
C_TYPES = {
    "f32": "float",
    "f64": "double",
    "i32": "int32_t",
    "i64": "int64_t",
    "i8": "int8_t",
    "f16": "uint16_t",
    "bf16": "uint16_t",
}
HALF_NOTES = {
    "f16": "   f16 is passed as its bits, those of IEEE's binary16.\n",
    "bf16": "   bf16 is passed as its bits, the upper half of a float's.\n",
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of the C function.

    Attributes:
        name: C identifier with a prefix such as ``input_`` or ``panels0_``, so that it is not a keyword.
        dtype: MLIR element type.
        shape: Shape of the array that the pointer refers to, outermost dimension first; empty for one element.
        written: Whether a call writes the array.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    written: bool = False

    @property
    def kind(self) -> str:
        """Name of the C type of its memref descriptor."""
        return f"autotune_memref_{self.dtype}_{len(self.shape)}"

    @property
    def declaration(self) -> str:
        """C declaration: type, name, and the shape as a comment."""
        return f"{'' if self.written else 'const '}{C_TYPES[self.dtype]} *{self.name} /* {list(self.shape)} */"


def c_header(
    entry: str,
    arguments: Sequence[Argument],
    weights: Sequence[WeightRecord],
    about: str,
    emitted: "Emitted",
) -> str:
    """Return the text of the C header that declares a program.

    Args:
        entry: Name of the program's entry function.
        arguments: Arguments of the payload, in order.
        weights: Weights that are stored in panels; the program takes them after the arguments.
        about: Description of the program, one line.
        emitted: The emitted program, with its target processor and memory requirements.
    """
    name = c_name(entry)
    plain = [parameter(index, argument) for index, argument in enumerate(arguments)]
    sources = {argument.name: argument for argument in arguments}
    stored = [
        Parameter(f"panels{i}_{identifier(w.argument)}", w.dtype(sources[w.argument].dtype), w.stored_shape)
        for i, w in enumerate(weights)
    ]
    packers = [
        packer(f"{name}_prepare_{identifier(w.argument)}_panels_{i}", w, stored[i], sources[w.argument])
        for i, w in enumerate(weights)
    ]
    everything = [*plain, *stored]
    halves = "".join(note for dtype, note in HALF_NOTES.items() if any(p.dtype == dtype for p in everything))
    parts = [
        f"/* {in_comment(about)}\n{halves}{needs(name, emitted)} */",
        f"#ifndef AUTOTUNE_{name.upper()}_H\n#define AUTOTUNE_{name.upper()}_H\n\n#include <stdint.h>\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        *(descriptor(dtype, rank) for dtype, rank in sorted({(p.dtype, len(p.shape)) for p in everything})),
        *packers,
        caller(name, c_symbol(entry), everything),
        "\n#ifdef __cplusplus\n}\n#endif\n#endif",
    ]
    return "\n".join(parts) + "\n"


def needs(name: str, emitted: "Emitted") -> str:
    """Return the comment lines on a program's target processor, memory use and link options."""
    processor = f"Compiled for {emitted.cpu}; the processor must have {', '.join(emitted.features)}."
    arena = (
        f"Intermediates lie in one arena of {emitted.arena_bytes} bytes, static: one call of {name} at a time; "
        "`autotune emit` writes a library with an arena a context. "
    )
    calls = "A call allocates memory for what its loops carry." if emitted.allocations else "A call allocates nothing."
    runtime = f" -lomp (or -liomp5), for {emitted.threads} threads" if emitted.threads > 1 else ""
    indent = " " * 3
    lines = (processor, f"{arena if emitted.arena_bytes else ''}{calls}", f"Link with -lm{runtime}.")
    return "\n".join(
        fill(in_comment(line), 120, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        for line in lines
    )


def parameter(index: int, argument: Argument) -> Parameter:
    """Return the parameter for a payload's argument, with a unique name."""
    name = identifier(argument.name)
    suffix = "" if name == argument.name else str(index)
    return Parameter(f"{argument.role}{suffix}_{name}", argument.dtype, argument.shape, argument.role in WRITTEN)


def descriptor(dtype: str, rank: int) -> str:
    """Return the C type of a memref descriptor, with an include guard shared by all emitted headers."""
    guard = f"AUTOTUNE_MEMREF_{dtype.upper()}_{rank}"
    shape = f" int64_t sizes[{rank}], strides[{rank}];" if rank else ""
    pointer = C_TYPES[dtype]
    return (
        f"#ifndef {guard}\n#define {guard}\n"
        f"typedef struct {{ {pointer} *allocated, *aligned; int64_t offset;{shape} }} autotune_memref_{dtype}_{rank};\n"
        "#endif\n"
    )


def caller(name: str, symbol: str, parameters: Sequence[Parameter]) -> str:
    """Return the C function that wraps pointers in memref descriptors and calls the program."""
    lines = [
        f"void {symbol}({', '.join(f'{p.kind} *' for p in parameters)});",
        "",
        f"static inline void {name}(\n    " + ",\n    ".join(p.declaration for p in parameters) + ") {",
    ]
    for index, p in enumerate(parameters):
        pointer = f"({C_TYPES[p.dtype]} *){p.name}"
        strides = [prod(p.shape[i + 1 :]) for i in range(len(p.shape))]
        tail = f", {{{', '.join(map(str, p.shape))}}}, {{{', '.join(map(str, strides))}}}" if p.shape else ""
        lines.append(f"  {p.kind} memref_{index} = {{{pointer}, {pointer}, 0{tail}}};")
    lines.append(f"  {symbol}({', '.join(f'&memref_{i}' for i in range(len(parameters)))});")
    return "\n".join([*lines, "}"])


def packer(name: str, weight: WeightRecord, stored: Parameter, source: Argument) -> str:
    """Return the C function that packs a weight, an argument of the payload, into panels before any call."""
    if weight.precision in PRECISIONS:
        return word_packer(name, weight, source)
    if weight.precision:
        about = f"{in_comment(weight.argument)} {list(source.shape)}"
        return weight_form(weight.precision).c_packer(name, about, source, weight.shape, weight.columns)
    *lead, k, n = weight.shape
    panels = -(-n // weight.columns)
    c_type, width = C_TYPES[stored.dtype], weight.columns
    shape = [*lead, n, k] if weight.transposed else [*lead, k, n]
    element = f"(b * {n} + c) * {k} + i" if weight.transposed else f"(b * {k} + i) * {n} + c"
    return f"""\
/* Stores {in_comment(weight.argument)} {shape} in panels {list(stored.shape)}; columns beyond {n} are zero. */
static inline void {name}(const {c_type} *weight, {c_type} *panels) {{
  for (int64_t b = 0; b < {prod(lead)}; ++b)
    for (int64_t p = 0; p < {panels}; ++p)
      for (int64_t i = 0; i < {k}; ++i)
        for (int64_t j = 0; j < {width}; ++j) {{
          const int64_t c = p * {width} + j;
          panels[((b * {panels} + p) * {k} + i) * {width} + j] = c < {n} ? weight[{element}] : 0;
        }}
}}
"""
