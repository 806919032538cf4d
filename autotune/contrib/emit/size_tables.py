"""C tables of a library of any size: served sizes and their times, and where padded arrays lie in memory."""

from collections.abc import Iterable, Sequence

from autotune.contrib.emit.statuses import NAMES, OF_ARRAY
from autotune.core.payload import Argument
from autotune.core.plugs.any_size import AnySizePrograms, ServedSize

LINE = 64  # bytes per cache line, to which padded arrays are aligned
FIRST = f"({len(NAMES)} + {OF_ARRAY} * GIVEN)"
# Macros that the common parts use in addition; messages are those of `size_texts`.
MORE = {
    "STATUS_SIZE": FIRST,
    "STATUS_OF_DIM(dim)": f"({FIRST} + 1 + (dim))",
    "STATUS_OF_MASK(array)": f"({FIRST} + 1 + DIMS + (array))",
    "PLAN_BYTES": "((sizeof(struct plan) + 63) / 64 * 64)",
    "MORE_BYTES": "(PLAN_BYTES + PADDED_BYTES)",
}
TYPES = """\
struct part {
  int size; /* number of what is served */
  int64_t start, count; /* along the dimension that is split */
};

/* How the last request was computed: most calls are of the same size as the one before. */
struct plan {
  int64_t request[DIMS];
  int parts, held, holding[MOST_SERVED];
  struct part part[MOST_PARTS], last[MOST_PARTS + 1];
  double seconds[MOST_PARTS + 1];
};

struct dim {
  int64_t low, high;
  int pad;
};

struct served {
  int64_t sizes[DIMS];
  double seconds;
  int program;
  int64_t extent; /* where loops end */
};

"""


def size_types(sized: Sequence[AnySizePrograms]) -> str:
    """Return the macros and structures of a library of any size, given its model's programs for each level."""
    model = sized[0]
    split = next((number for number, dim in enumerate(model.dims) if dim.split), -1)
    values = {
        "DIMS": len(model.dims),
        "SPLIT": split,
        "MOST_SERVED": max(len(each.served) for each in sized),
        "MOST_PARTS": model.dims[split].high if split >= 0 else 1,
        "CALL_SECONDS": repr(model.call_seconds),
    }
    return "".join(f"#define {name} {value}\n" for name, value in values.items()) + "\n" + TYPES


def size_tables(model: AnySizePrograms, arguments: Sequence[Argument]) -> str:
    """Return tables of open dimensions, compiled sizes, masks, and offsets of padded arrays.

    Args:
        model: Programs of the model, for any level.
        arguments: Arguments of a call.
    """
    dims = [f"{dim.low}, {dim.high}, {int(dim.pad)}" for dim in model.dims]
    masks = [numbers(argument.name in dim.masks for dim in model.dims) for argument in arguments]
    offsets, end = [], 0
    for argument in arguments:
        offsets.append(end)
        alike = [each.bytes for p in model.programs for each in p.payload.arguments if each.name == argument.name]
        end += -(-max(alike) // LINE) * LINE
    return (
        table("struct dim dims[DIMS]", dims)
        + table("int64_t compiled[PROGRAMS][DIMS]", [numbers(sizes.values()) for sizes in model.sizes])
        + table("char masks[GIVEN][DIMS]", masks)
        + f"#define PADDED_BYTES {end}\nstatic const int64_t padded_at[GIVEN] = {{{numbers(offsets)}}};\n\n"
    )


def served_table(symbol: str, served: Sequence[ServedSize]) -> str:
    """Return the table of sizes that a level's programs serve; empty for a library of one size."""
    rows = [f"{{{numbers(each.sizes.values())}}}, {each.seconds!r}, {each.number}, {each.extent}" for each in served]
    return table(f"struct served served_{symbol}[]", rows) if rows else ""


def numbers(values: Iterable[int]) -> str:
    """Return the text of a row of integers."""
    return ", ".join(str(int(value)) for value in values)


def table(declaration: str, rows: Sequence[str]) -> str:
    """Return the definition of a table with these rows."""
    return f"static const {declaration} = {{\n" + "".join(f"  {{{row}}},\n" for row in rows) + "};\n"
