"""C source of a library in one file: tables of its contents, then the parts common to all libraries; and its header."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path

from autotune.bundles.c_header import C_TYPES, HALF_NOTES, Parameter, packer
from autotune.bundles.declared import named_arguments
from autotune.compiler.lowering.emit import setter_symbol
from autotune.contrib.emit.levels import FEATURES
from autotune.contrib.emit.size_tables import MORE, served_table, size_tables, size_types
from autotune.contrib.emit.statuses import NAMES, OF_ARRAY, feature_texts, range_of, size_texts, status_texts
from autotune.contrib.emit.variants import LevelProgram
from autotune.contrib.emit.weights import WeightsFile, stored_name
from autotune.core.c_names import c_name, identifier
from autotune.core.payload import DTYPES, WRITTEN, Argument, Payload
from autotune.core.plugs.any_size import AnySizePrograms, ServedSize
from autotune.core.printable import in_comment
from autotune.store.records import WeightRecord

HERE = Path(__file__).parent
INCLUDES = ("fcntl.h", "pthread.h", "stdarg.h", "stdatomic.h", "stdint.h", "stdlib.h", "string.h")
SYSTEM = ("math.h", "sys/mman.h", "sys/stat.h", "unistd.h")
# Keywords of C and C++, and `context`, a parameter of the library's functions.
RESERVED = frozenset(
    """context alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do
    double else enum explicit export extern false float for friend goto if inline int long mutable namespace new not
    nullptr operator or private protected public register restrict return short signed sizeof static struct switch
    template this throw true try typedef typename union unsigned using virtual void volatile while xor""".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class LibraryProgram:
    """A program in a library.

    Attributes:
        payload: Payload that the program computes.
        code: Compiled code of the program.
        owners: Name of the size that owns a weight, by name of the weight; empty for weights shared by all programs.
    """

    payload: Payload
    code: LevelProgram
    owners: Mapping[str, str]


@dataclass(frozen=True)
class StoredPanel:
    """A packed weight.

    Attributes:
        record: Packing of the weight, which is named as in the weights file.
        source: Argument of the weight.
    """

    record: WeightRecord
    source: Argument

    @property
    def stored(self) -> Parameter:
        """Array of panels."""
        return Parameter("panels", self.record.dtype(self.source.dtype), self.record.stored_shape)


@dataclass(frozen=True)
class LevelPrograms:
    """Programs of a library for one level.

    Attributes:
        programs: Program of the level; in a library of any size, one for each compiled size.
        served: Sizes that the programs serve; empty for a library of one size.
    """

    programs: tuple[LibraryProgram, ...]
    served: tuple[ServedSize, ...] = ()

    @property
    def code(self) -> LevelProgram:
        """Code of the first program; all programs have the same level."""
        return self.programs[0].code

    @property
    def symbol(self) -> str:
        """Prefix of the level's symbols."""
        return self.code.symbol

    @property
    def features(self) -> tuple[str, ...]:
        """CPU features that the programs need."""
        more = sorted({name for program in self.programs for name in program.code.features})
        return (*self.code.level.features, *more)

    @property
    def threads(self) -> int:
        """Maximum number of threads."""
        return max(program.code.threads for program in self.programs)

    @property
    def arena_bytes(self) -> int:
        """Bytes of memory for intermediates, of one program at a time."""
        return max(64, *(program.code.arena_bytes for program in self.programs))

    @cached_property
    def panels(self) -> tuple[StoredPanel, ...]:
        """Packed weights, once each for all programs that share a packing."""
        return tuple(dict.fromkeys(panel for program in self.programs for panel in self.panels_of(program)))

    def panels_of(self, program: LibraryProgram) -> list[StoredPanel]:
        """Return the packed weights that a program takes, in order."""
        arguments = {argument.name: argument for argument in program.payload.arguments}
        return [
            StoredPanel(
                replace(each, argument=stored_name(each.argument, program.owners)),
                arguments[each.argument],
            )
            for each in program.code.weights
        ]


@dataclass(frozen=True)
class SharedLibrary:
    """Contents of a library.

    Attributes:
        payload: Payload of the library; in a library of any size, that of its first compiled size.
        codes: Code for each level, the best level first; in a library of any size, for each compiled size of each
            level.
        weights: Weights file; `None` if there are no weights.
        sized: Programs of a model of any size for each level; empty for a library of one size.
    """

    payload: Payload
    codes: tuple[LevelProgram, ...]
    weights: WeightsFile | None
    sized: tuple[AnySizePrograms, ...] = ()

    @cached_property
    def variants(self) -> tuple[LevelPrograms, ...]:
        """Programs for each level, the best level first."""
        if not self.sized:
            return tuple(LevelPrograms((LibraryProgram(self.payload, code, {}),)) for code in self.codes)
        codes = iter(self.codes)
        return tuple(
            LevelPrograms(tuple(LibraryProgram(p.payload, next(codes), p.owners) for p in each.programs), each.served)
            for each in self.sized
        )

    @property
    def any_size(self) -> AnySizePrograms | None:
        """Programs of a model of any size for the best level; `None` for a library of one size."""
        return self.sized[0] if self.sized else None

    @property
    def name(self) -> str:
        """Prefix of all exported symbols."""
        return c_name(self.payload.entry)

    @property
    def names(self) -> list[str]:
        """C identifiers of the arguments: the payload's names where they are valid in C."""
        plain = [identifier(argument.name) for argument in named_arguments(self.payload)]
        identifiers: list[str] = []
        for index, name in enumerate(plain):
            usable = name.strip("_") and not name[0].isdigit() and name not in RESERVED and plain.count(name) == 1
            identifiers.append(name if usable else f"{name}_{index}" if name[:1].isalpha() else f"a{index}")
        return identifiers

    @property
    def call_arguments(self) -> list[tuple[Argument, str]]:
        """Arguments of a call, with their names in C: all but weights."""
        pairs = zip(self.payload.arguments, self.names, strict=True)
        return [(argument, name) for argument, name in pairs if argument.role != "weight"]

    @property
    def threads(self) -> int:
        """Maximum number of threads."""
        return max(code.threads for code in self.codes)

    @property
    def allocates(self) -> bool:
        """Whether a call allocates memory."""
        return any(code.allocates for code in self.codes)

    @property
    def about(self) -> str:
        """Description of the library in one line."""
        levels = ", ".join(variant.code.level.name for variant in self.variants)
        name = self.any_size.name if self.any_size else self.payload.name
        return in_comment(f"{name} for {levels}, emitted by mlir-schedule-autotune")

    @property
    def dim_names(self) -> list[str]:
        """C identifiers of the open dimensions: the model's names where they are valid in C."""
        dims = self.any_size.dims if self.any_size else ()
        plain = [identifier(dim.name) for dim in dims]
        used = {*RESERVED, *self.names}
        return [
            name if name[:1].isalpha() and name not in used and plain.count(name) == 1 else f"size_{number}"
            for number, name in enumerate(plain)
        ]

    def dims_of(self, argument: Argument) -> list[int]:
        """Return the index of the open dimension of each axis of an argument, or -1."""
        dims = [-1] * len(argument.shape)
        for number, dim in enumerate(self.any_size.dims if self.any_size else ()):
            axis = self.any_size.axis(argument, dim) if self.any_size else None
            if axis is not None:
                dims[axis] = number
        return dims

    def shape(self, argument: Argument) -> tuple[int | str, ...]:
        """Return the shape of an argument, with names for open dimensions."""
        sizes = zip(argument.shape, self.dims_of(argument), strict=True)
        return tuple(size if number < 0 else self.dim_names[number] for size, number in sizes)


def header_text(library: SharedLibrary) -> str:
    """Return the header of a library, valid in C and C++."""
    name = library.name
    notes = "".join(
        note for dtype, note in HALF_NOTES.items() if any(a.dtype == dtype for a, _ in library.call_arguments)
    )
    weights = f"file of the weights, sha256\n   {library.weights.sha256}" if library.weights else "NULL: there are none"
    extents = "".join(
        f"\n    int64_t {name} /* {dim.low} to {dim.high} */,"
        for name, dim in zip(library.dim_names, library.any_size.dims if library.any_size else (), strict=True)
    )
    calls = "allocates memory for what its loops carry" if library.allocates else "allocates nothing"
    return f"""\
/* {library.about}
{notes}
   Every call gives 0, or a status whose sentence {name}_status has.
   A context serves one call at a time: open one for each thread. All of a process share the weights.
   Arrays lie at any multiple of their elements' size, best of 64 bytes; what is written overlaps nothing. */
#ifndef {name.upper()}_LIBRARY_H
#define {name.upper()}_LIBRARY_H

#ifdef __cplusplus
extern "C" {{
#endif

#include <stdint.h>

typedef struct {name}_context {name}_context;

/* Opens a context. weights: {weights}.
   threads: 1 to {library.threads}, or 0 for as many as it was tuned on. */
int {name}_open({name}_context **context, const char *weights, int threads);

/* Computes once; {calls}. */
int {name}_run({name}_context *context,{extents}{declared(library)});

/* Closes a context, or NULL. */
void {name}_close({name}_context *context);

/* The sentence of a status. */
const char *{name}_status(int status);

#ifdef __cplusplus
}}
#endif
#endif
"""


def declared(library: SharedLibrary) -> str:
    """Return the parameters of `run` after the context."""
    lines = []
    for argument, name in library.call_arguments:
        const, shape = "" if argument.role in WRITTEN else "const ", ", ".join(map(str, library.shape(argument)))
        lines.append(f"\n    {const}{C_TYPES[argument.dtype]} *{name} /* [{shape}] */")
    return ",".join(lines)


def source_text(library: SharedLibrary, more: Sequence[str] = ()) -> str:
    """Return the C source of a library in one file.

    Args:
        library: The library.
        more: Additional parts, which come last: texts, or names of C files in this folder.
    """
    parts = [
        f"/* {library.about} */\n#define _GNU_SOURCE\n",
        *(f"#include <{file}>\n" for file in (*INCLUDES, *SYSTEM)),
        f'#include "{library.name}.h"\n\n',
        constants(library),
        TYPES,
        size_types(library.sized) if library.sized else "",
        *(stores(variant) for variant in library.variants),
        *(variant_text(library, variant) for variant in library.variants),
        tables(library),
        size_tables(library.any_size, [a for a, _ in library.call_arguments]) if library.any_size else "",
        part("cpuid.c"),
        part("sha256.c") if library.weights else "",
        "struct team;\n\n" if library.threads == 1 else "",
        part("threads.c" if library.threads > 1 else "one_thread.c"),
        part("runtime.c"),
        part("any_size.c" if library.any_size else "one_size.c"),
        part("call.c"),
        run_text(library),
        *(part(each) if each.endswith(".c") else each for each in more),
    ]
    return "".join(parts)


def part(name: str) -> str:
    """Return a part common to all libraries."""
    return (HERE / name).read_text(encoding="utf-8") + "\n"


TYPES = """\
struct shape {
  int rank;
  const int64_t *sizes;
};

struct memref {
  void *allocated, *aligned;
  int64_t offset, sizes[2 * MOST_RANK + 1]; /* sizes, then strides */
};

struct array { /* of a program */
  struct shape shape;
  int64_t weight; /* byte of the weights file at which it begins, or -1 */
  int given;      /* number of what a call gives, or -1 */
};

struct given { /* what a call gives */
  struct shape shape;
  const int *dims; /* open dimension that each axis is, or -1 */
  int element, written, ranged;
  int64_t least, most;
};

struct panel {
  struct shape shape;
  int64_t bytes, weight;
  void (*store)(const void *weight, void *panels);
};

struct served;

struct program {
  const struct array *array;
  int arrays;
  const int *panel; /* numbers of the variant's panels */
  int panels;
  void (*call)(void **memrefs, void *arena);
  void (*set)(int64_t extent); /* where loops end, or NULL */
};

struct feature {
  unsigned leaf, subleaf;
  int part, bit;
};

struct variant {
  const struct feature *feature;
  int features;
  unsigned saved;
  int threads;
  int64_t arena_bytes;
  const struct panel *panel;
  int panels;
  const struct program *program;
  const struct served *served; /* sizes, of a library of any size */
  int serving;
};

"""


def constants(library: SharedLibrary) -> str:
    """Return the macros that the common parts use."""
    name, weights, call_arguments = library.name, library.weights, library.call_arguments
    programs = [program for variant in library.variants for program in variant.programs]
    counts = [len(program.payload.arguments) + len(program.code.weights) for program in programs]
    ranks = [len(a.shape) for program in programs for a in program.payload.arguments]
    ranks += [len(w.stored_shape) for program in programs for w in program.code.weights]
    values = {
        "CONTEXT": f"{name}_context",
        "OPEN": f"{name}_open",
        "CLOSE": f"{name}_close",
        "STATUS_TEXT": f"{name}_status",
        "VARIANTS": len(library.variants),
        "PROGRAMS": len(library.variants[0].programs),
        "GIVEN": len(call_arguments),
        "WEIGHTS": int(weights is not None),
        "RANGES": int(any(range_of(argument) for argument, _ in call_arguments)),
        "WEIGHTS_BYTES": weights.bytes if weights else 0,
        "MOST_PANELS": max(len(variant.panels) for variant in library.variants),
        "MOST_POINTERS": max(counts) + 1,
        "MOST_RANK": max(1, *ranks),
        "MOST_THREADS": library.threads,
        **{f"STATUS_{status}": number for number, status in enumerate(NAMES)},
        "STATUS_OF_ARRAY(array, fault)": f"({len(NAMES)} + {OF_ARRAY} * (array) + (fault))",
        **(MORE if library.any_size else {"DIMS": 0, "MORE_BYTES": 0, "PLAN_BYTES": 0}),
    }
    return "".join(f"#define {key} {value}\n" for key, value in values.items()) + "\n"


def stores(variant: LevelPrograms) -> str:
    """Return C code that packs the weights of a variant."""
    return "".join(
        packer(store_name(variant, number), panel.record, panel.stored, panel.source)
        for number, panel in enumerate(variant.panels)
    )


def store_name(variant: LevelPrograms, number: int) -> str:
    """Return the name of the function that packs a weight of a variant."""
    return f"store_{variant.symbol}_{number}"


def variant_text(library: SharedLibrary, variant: LevelPrograms) -> str:
    """Return the tables of a variant."""
    rows = [", ".join(map(str, FEATURES[name])) for name in variant.features]
    features = ", ".join(f"{{{row}}}" for row in rows or ["0, 0, 0, 0"])
    programs = "".join(program_text(library, variant, program) for program in variant.programs)
    table = "".join(program_row(program) for program in variant.programs)
    return f"""\
static const struct feature features_{variant.symbol}[] = {{{features}}};
{panel_table(library, variant)}
{programs}static const struct program programs_{variant.symbol}[] = {{
{table}}};
{served_table(variant.symbol, variant.served)}
"""


def program_text(library: SharedLibrary, variant: LevelPrograms, program: LibraryProgram) -> str:
    """Return the tables of a program, and the function that calls it."""
    symbol, payload = program.code.symbol, program.payload
    count = len(payload.arguments) + len(program.code.weights)
    parameters = ", ".join(["void *"] * (count + 1))
    pointers = ", ".join(f"memrefs[{i}]" for i in range(count))
    setter = f"void {setter_symbol(symbol)}(int64_t);\n" if program.code.extents else ""
    numbers = ", ".join(str(variant.panels.index(panel)) for panel in variant.panels_of(program)) or "0"
    positions = {argument.name: number for number, (argument, _) in enumerate(library.call_arguments)}
    sizes, rows = [], []
    for index, argument in enumerate(payload.arguments):
        sizes.append(sizes_text(f"sizes_{symbol}_{index}", argument.shape))
        position = -1 if argument.role == "weight" else positions[argument.name]
        shape, offset = f"{len(argument.shape)}, sizes_{symbol}_{index}", offset_of(library, program, argument)
        rows.append(f"  {{{{{shape}}}, {offset}, {position}}},\n")
    return f"""\
void {symbol}({parameters});
{setter}
static void call_{symbol}(void **memrefs, void *arena) {{ {symbol}({pointers}, arena); }}

static const int panels_of_{symbol}[] = {{{numbers}}};
{"".join(sizes)}static const struct array arrays_{symbol}[] = {{
{"".join(rows)}}};
"""


def program_row(program: LibraryProgram) -> str:
    """Return a program's row in the table of its variant."""
    symbol, setter = program.code.symbol, setter_symbol(program.code.symbol) if program.code.extents else "NULL"
    return (
        f"  {{arrays_{symbol}, {len(program.payload.arguments)}, panels_of_{symbol}, {len(program.code.weights)}, "
        f"call_{symbol}, {setter}}},\n"
    )


def sizes_text(name: str, shape: Sequence[int], kind: str = "int64_t") -> str:
    """Return a table of sizes."""
    return f"static const {kind} {name}[] = {{{', '.join(map(str, shape)) or 0}}};\n"


def offset_of(library: SharedLibrary, program: LibraryProgram, argument: Argument) -> int:
    """Return the offset of a weight in the weights file; -1 for other arguments."""
    if library.weights is None or argument.role != "weight":
        return -1
    return library.weights.offsets[stored_name(argument.name, program.owners)]


def panel_table(library: SharedLibrary, variant: LevelPrograms) -> str:
    """Return the table of a variant's packed weights."""
    functions, sizes, rows = [], [], []
    for number, panel in enumerate(variant.panels):
        store, shape = store_name(variant, number), panel.record.stored_shape
        offset = library.weights.offsets[panel.record.argument] if library.weights else -1
        functions.append(f"static void {store}_any(const void *weight, void *panels) {{ {store}(weight, panels); }}\n")
        sizes.append(sizes_text(f"sizes_{store}", shape))
        size = prod(shape) * DTYPES[panel.stored.dtype].itemsize
        rows.append(f"  {{{{{len(shape)}, sizes_{store}}}, {size}, {offset}, {store}_any}},\n")
    table = "".join(rows) or "  {{0, NULL}, 0, 0, NULL},\n"
    return f"{''.join((*functions, *sizes))}static const struct panel panels_{variant.symbol}[] = {{\n{table}}};"


def tables(library: SharedLibrary) -> str:
    """Return the tables of call arguments, variants and status messages."""
    weights, call_arguments = library.weights, library.call_arguments
    sizes, rows = [], []
    for index, (argument, _) in enumerate(call_arguments):
        dims = library.dims_of(argument)
        sizes.append(sizes_text(f"sizes_{index}", argument.shape) + sizes_text(f"dims_{index}", dims, "int"))
        lowest, highest = range_of(argument) or (0, 0)
        element, written = DTYPES[argument.dtype].itemsize, int(argument.role in WRITTEN)
        ranged = int(range_of(argument) is not None)
        rows.append(
            f"  {{{{{len(argument.shape)}, sizes_{index}}}, dims_{index}, {element}, {written}, {ranged}, "
            f"{whole(lowest)}, {whole(highest)}}},\n"
        )
    variants = "".join(
        f"  {{features_{v.symbol}, {len(v.features)}, {v.code.level.saved:#x}, {v.threads}, "
        f"{v.arena_bytes}, panels_{v.symbol}, {len(v.panels)}, programs_{v.symbol}, "
        f"{f'served_{v.symbol}' if v.served else 'NULL'}, {len(v.served)}}},\n"
        for v in library.variants
    )
    needs = ", ".join(library.variants[-1].features) or "x86-64"
    sentences = status_texts(call_arguments, needs, library.threads, weights, is_open=library.any_size is not None)
    if library.any_size:
        sentences += size_texts(library.any_size, library.dim_names, call_arguments)
    first = len(sentences)
    sentences += feature_texts(library.variants[-1].features)
    texts = "".join(f'    "{in_literal(sentence)}",\n' for sentence in sentences)
    sums = ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(weights.sha256)) if weights else ""
    hashed = f"static const unsigned char weights_sha256[] = {{{sums}}};\n" if weights else ""
    return (
        f"{''.join(sizes)}static const struct given given[] = {{\n{''.join(rows)}}};\n\n"
        f"static const struct variant variants[] = {{\n{variants}}};\n\n{hashed}"
        f"#define STATUS_OF_FEATURE(feature) ({first} + (feature))\n"
        f"static const char *const status_texts[] = {{\n{texts}}};\n\n"
    )


def in_literal(text: str) -> str:
    """Escape a text for a C string literal."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def whole(number: int) -> str:
    """Return a 64-bit integer literal in C, which has none for the minimum."""
    return "INT64_MIN" if number == -(1 << 63) else f"{number}LL"


def run_text(library: SharedLibrary) -> str:
    """Return the definition of the function that runs the library."""
    dims = library.dim_names
    extents = "".join(f"\n    int64_t {name}," for name in dims)
    return (
        f"int {library.name}_run({library.name}_context *context,{extents}{declared(library)}) {{\n"
        f"  const int64_t request[] = {{{', '.join(dims) or 0}}};\n"
        f"  void *const memory[] = {{{', '.join(f'(void *){name}' for _, name in library.call_arguments)}}};\n"
        "  return run_on(context, request, memory);\n}\n"
    )
