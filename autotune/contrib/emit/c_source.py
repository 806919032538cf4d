"""The C of a library: tables of what it holds, then the parts that every library has, in one file; and its header."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from autotune.bundles.c_header import C_TYPES, HALF_NOTES, Parameter, packer
from autotune.bundles.declared import named_arguments
from autotune.contrib.emit.levels import FEATURES
from autotune.contrib.emit.statuses import NAMES, OF_ARRAY, range_of, status_texts
from autotune.contrib.emit.variants import LevelProgram
from autotune.contrib.emit.weights import WeightsFile
from autotune.core.c_names import c_name, identifier
from autotune.core.payload import DTYPES, WRITTEN, Argument, Payload
from autotune.core.printable import in_comment

HERE = Path(__file__).parent
INCLUDES = ("fcntl.h", "pthread.h", "stdarg.h", "stdatomic.h", "stdint.h", "stdlib.h", "string.h")
SYSTEM = ("sys/mman.h", "sys/stat.h", "unistd.h")
# keywords of C and C++, and the one name that is ours
TAKEN = frozenset(
    """context alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do
    double else enum explicit export extern false float for friend goto if inline int long mutable namespace new not
    nullptr operator or private protected public register restrict return short signed sizeof static struct switch
    template this throw true try typedef typename union unsigned using virtual void volatile while xor""".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class SharedLibrary:
    """All that a library is made of.

    Attributes:
        payload: What it computes.
        variants: The same for several levels, the best first.
        weights: File of weights; `None` where it has no weights.
    """

    payload: Payload
    variants: tuple[LevelProgram, ...]
    weights: WeightsFile | None

    @property
    def name(self) -> str:
        """Prefix of everything that it exports."""
        return c_name(self.payload.entry)

    @property
    def names(self) -> list[str]:
        """A C identifier for each argument: the payload's name of it, where C allows that."""
        plain = [identifier(argument.name) for argument in named_arguments(self.payload)]
        found: list[str] = []
        for index, name in enumerate(plain):
            usable = name.strip("_") and not name[0].isdigit() and name not in TAKEN and plain.count(name) == 1
            found.append(name if usable else f"{name}_{index}" if name[:1].isalpha() else f"a{index}")
        return found

    @property
    def given(self) -> list[tuple[Argument, str]]:
        """Arguments that a call gives, with their names in C: all but weights."""
        pairs = zip(self.payload.arguments, self.names, strict=True)
        return [(argument, name) for argument, name in pairs if argument.role != "weight"]

    @property
    def threads(self) -> int:
        """Most threads that it runs on."""
        return max(variant.threads for variant in self.variants)

    @property
    def allocates(self) -> bool:
        """Whether a call allocates memory."""
        return any(variant.allocates for variant in self.variants)

    @property
    def about(self) -> str:
        """What it is, a line."""
        levels = ", ".join(variant.level.name for variant in self.variants)
        return in_comment(f"{self.payload.name} for {levels}, emitted by mlir-schedule-autotune")


def header_text(library: SharedLibrary) -> str:
    """The header of a library: plain C, for C++ too."""
    name = library.name
    notes = "".join(note for dtype, note in HALF_NOTES.items() if any(a.dtype == dtype for a, _ in library.given))
    weights = f"file of the weights, sha256\n   {library.weights.sha256}" if library.weights else "NULL: there are none"
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
int {name}_run({name}_context *context,{declared(library)});

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
    """Parameters of `run` behind the context."""
    return ",".join(
        f"\n    {'' if a.role in WRITTEN else 'const '}{C_TYPES[a.dtype]} *{name} /* {list(a.shape)} */"
        for a, name in library.given
    )


def source_text(library: SharedLibrary, more: Sequence[str] = ()) -> str:
    """The C of a library, one file.

    Args:
        library: The library.
        more: Further parts, which come last: texts, or names of files of C beside this one.
    """
    parts = [
        f"/* {library.about} */\n#define _GNU_SOURCE\n",
        *(f"#include <{file}>\n" for file in (*INCLUDES, *SYSTEM)),
        f'#include "{library.name}.h"\n\n',
        constants(library),
        TYPES,
        *(stores(library, variant) for variant in library.variants),
        *(variant_text(library, variant) for variant in library.variants),
        tables(library),
        part("cpuid.c"),
        part("sha256.c") if library.weights else "",
        "struct team;\n\n" if library.threads == 1 else "",
        part("threads.c" if library.threads > 1 else "one_thread.c"),
        part("runtime.c"),
        run_text(library),
        *(part(each) if each.endswith(".c") else each for each in more),
    ]
    return "".join(parts)


def part(name: str) -> str:
    """A part that every library has."""
    return (HERE / name).read_text() + "\n"


TYPES = """\
struct shape {
  int rank;
  const int64_t *sizes;
};

struct memref {
  void *allocated, *aligned;
  int64_t offset, sizes[2 * MOST_RANK + 1]; /* sizes, then strides */
};

struct array {
  struct shape shape;
  int64_t bytes, weight; /* byte of the weights file at which it begins, or -1 */
  int element, written, ranged;
  int64_t least, most;
};

struct panel {
  struct shape shape;
  int64_t bytes;
  int source;
  void (*store)(const void *weight, void *panels);
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
  void (*call)(void **memrefs, void *arena);
};

"""


def constants(library: SharedLibrary) -> str:
    """Names and numbers that the common parts are written with."""
    name, payload, weights = library.name, library.payload, library.weights
    most = max(len(variant.weights) for variant in library.variants)
    ranks = [len(a.shape) for a in payload.arguments]
    ranks += [len(w.stored_shape) for variant in library.variants for w in variant.weights]
    values = {
        "CONTEXT": f"{name}_context",
        "OPEN": f"{name}_open",
        "CLOSE": f"{name}_close",
        "STATUS_TEXT": f"{name}_status",
        "VARIANTS": len(library.variants),
        "ARRAYS": len(payload.arguments),
        "WEIGHTS": int(weights is not None),
        "RANGES": int(any(range_of(argument) for argument in payload.arguments)),
        "WEIGHTS_BYTES": weights.bytes if weights else 0,
        "MOST_PANELS": most,
        "MOST_POINTERS": len(payload.arguments) + most + 1,
        "MOST_RANK": max(ranks, default=1),
        "MOST_THREADS": library.threads,
        **{f"STATUS_{status}": number for number, status in enumerate(NAMES)},
        "STATUS_OF_ARRAY(array, fault)": f"({len(NAMES)} + {OF_ARRAY} * (array) + (fault))",
    }
    return "".join(f"#define {key} {value}\n" for key, value in values.items()) + "\n"


def stores(library: SharedLibrary, variant: LevelProgram) -> str:
    """C that stores the weights of a variant in panels."""
    arguments = {argument.name: argument for argument in library.payload.arguments}
    return "".join(
        packer(
            store_name(variant, number),
            weight,
            Parameter("panels", "i32" if weight.precision else arguments[weight.argument].dtype, weight.stored_shape),
            arguments[weight.argument].shape,
        )
        for number, weight in enumerate(variant.weights)
    )


def store_name(variant: LevelProgram, number: int) -> str:
    """The function that stores a weight of a variant."""
    return f"store_{variant.symbol}_{number}"


def variant_text(library: SharedLibrary, variant: LevelProgram) -> str:
    """The table of a variant, and how it is called."""
    symbol, level = variant.symbol, variant.level
    count = len(library.payload.arguments) + len(variant.weights)
    rows = [", ".join(map(str, FEATURES[name])) for name in (*level.features, *variant.features)]
    features = ", ".join(f"{{{row}}}" for row in rows or ["0, 0, 0, 0"])
    parameters = ", ".join(["void *"] * (count + 1))
    pointers = ", ".join(f"memrefs[{i}]" for i in range(count))
    return f"""\
void {symbol}({parameters});

static void call_{symbol}(void **memrefs, void *arena) {{ {symbol}({pointers}, arena); }}

static const struct feature features_{symbol}[] = {{{features}}};
{panel_table(library, variant)}
"""


def panel_table(library: SharedLibrary, variant: LevelProgram) -> str:
    """The table of a variant's weights in panels."""
    symbol = variant.symbol
    places = {argument.name: index for index, argument in enumerate(library.payload.arguments)}
    functions, sizes, rows = [], [], []
    for number, weight in enumerate(variant.weights):
        argument = library.payload.arguments[places[weight.argument]]
        stored = "i32" if weight.precision else argument.dtype
        store, shape = store_name(variant, number), weight.stored_shape
        functions.append(f"static void {store}_any(const void *weight, void *panels) {{ {store}(weight, panels); }}\n")
        sizes.append(f"static const int64_t sizes_{store}[] = {{{', '.join(map(str, shape))}}};\n")
        size = prod(shape) * DTYPES[stored].itemsize
        rows.append(f"  {{{{{len(shape)}, sizes_{store}}}, {size}, {places[weight.argument]}, {store}_any}},\n")
    table = "".join(rows) or "  {{0, NULL}, 0, 0, NULL},\n"
    return f"{''.join((*functions, *sizes))}static const struct panel panels_{symbol}[] = {{\n{table}}};"


def tables(library: SharedLibrary) -> str:
    """The tables of arrays, variants and sentences."""
    payload, weights = library.payload, library.weights
    sizes, rows = [], []
    for index, argument in enumerate(payload.arguments):
        sizes.append(f"static const int64_t sizes_{index}[] = {{{', '.join(map(str, argument.shape)) or 0}}};\n")
        least, most = range_of(argument) or (0, 0)
        offset = weights.offsets[argument.name] if weights and argument.role == "weight" else -1
        element, written = DTYPES[argument.dtype].itemsize, int(argument.role in WRITTEN)
        ranged = int(range_of(argument) is not None)
        rows.append(
            f"  {{{{{len(argument.shape)}, sizes_{index}}}, {argument.bytes}, {offset}, {element}, {written}, "
            f"{ranged}, {whole(least)}, {whole(most)}}},\n"
        )
    variants = "".join(
        f"  {{features_{v.symbol}, {len((*v.level.features, *v.features))}, {v.level.saved:#x}, {v.threads}, "
        f"{max(v.arena_bytes, 64)}, panels_{v.symbol}, {len(v.weights)}, call_{v.symbol}}},\n"
        for v in library.variants
    )
    texts = "".join(
        f'    "{sentence}",\n' for sentence in status_texts(payload.arguments, library.names, library.variants, weights)
    )
    sums = ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(weights.sha256)) if weights else ""
    hashed = f"static const unsigned char weights_sha256[] = {{{sums}}};\n" if weights else ""
    return (
        f"{''.join(sizes)}static const struct array arrays[] = {{\n{''.join(rows)}}};\n\n"
        f"static const struct variant variants[] = {{\n{variants}}};\n\n{hashed}"
        f"static const char *const status_texts[] = {{\n{texts}}};\n\n"
    )


def whole(number: int) -> str:
    """A whole number of 64 bits in C, which has no literal for the least one."""
    return "INT64_MIN" if number == -(1 << 63) else f"{number}LL"


def run_text(library: SharedLibrary) -> str:
    """The call that computes."""
    values = ", ".join("NULL" if a.role == "weight" else f"(void *){name}" for a, name in pairs(library))
    return (
        f"int {library.name}_run({library.name}_context *context,{declared(library)}) {{\n"
        f"  void *const given[] = {{{values}}};\n  return run_on(context, given);\n}}\n"
    )


def pairs(library: SharedLibrary) -> list[tuple[Argument, str]]:
    """Arguments with their names in C."""
    return list(zip(library.payload.arguments, library.names, strict=True))
