"""Table layout for a terminal: numbers stay whole, names are shortened, and long texts go below their row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from autotune.core.printable import fold

GAP = 2  # spaces between columns
LEAST_NAME = 40  # width kept for names when optional columns are shown
BELOW = 4  # spaces before text below a row
TAIL = 0.4  # fraction of a shortened name taken from its end, where tags have their hash


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        head: Heading of the column.
        optional: Whether it is omitted if names have too little room.
    """

    head: str
    optional: bool = False


@dataclass(frozen=True)
class TextRow:
    """A row of a table.

    Attributes:
        name: First cell, to the left.
        cells: Numbers, one for every column.
        text: Text beside or below the numbers.
        dim: Whether it is dim on a terminal.
    """

    name: str
    cells: tuple[str, ...] = ()
    text: str = ""
    dim: bool = False


@dataclass(frozen=True)
class Table:
    """Table with headings.

    Attributes:
        head: Heading of the names.
        columns: Columns of numbers.
        rows: Rows in order.
        text: Heading of the texts if they are beside the numbers.
    """

    head: str
    columns: tuple[Column, ...]
    rows: tuple[TextRow, ...]
    text: str = ""


@dataclass(frozen=True)
class Line:
    """A line of the terminal: plain text, then dim text."""

    plain: str
    dim: str = ""


def show_table(console: Console, table: Table) -> None:
    """Print a table."""
    for index, line in enumerate(lay_out(table, console.width)):
        console.print(Text.assemble((line.plain, "" if index else "bold"), (line.dim, "dim")), soft_wrap=True)


def show_sentence(console: Console, sentence: str, indent: int = 0) -> None:
    """Print a sentence, wrapped between words."""
    for line in fold(sentence, console.width, indent, indent + GAP):
        console.print(Text(line), soft_wrap=True)


def show_facts(console: Console, facts: Mapping[str, str]) -> None:
    """Print facts, one labelled line each."""
    indent = longest(facts) + GAP
    for label, text in facts.items():
        for line in fold(label.ljust(indent) + text, console.width, 0, indent):
            console.print(Text(line), soft_wrap=True)


def lay_out(table: Table, width: int) -> list[Line]:
    """Return the lines of a table, at most `width` characters wide if its numbers fit."""
    table = drop_columns(table, width)
    sizes = number_widths(table)
    numbers = sum(GAP + size for size in sizes)
    name_width = max(1, min(longest([table.head, *(row.name for row in table.rows)]), width - numbers))
    room = width - name_width - numbers - GAP
    texts = [table.text, *(row.text for row in table.rows)]
    beside = longest(texts) <= room and not any("\n" in text for text in texts)

    def line(name: str, cells: Sequence[str], text: str, *, dim: bool = False) -> Line:
        aligned = "".join(" " * GAP + cell.rjust(size) for cell, size in zip(cells, sizes, strict=True))
        plain = shorten(name, name_width).ljust(name_width) + aligned
        whole = plain + " " * GAP + text if text else plain.rstrip()
        if dim:
            return Line("", whole)
        return Line(plain, whole[len(plain) :]) if text else Line(whole)

    lines = [line(table.head, [column.head for column in table.columns], table.text if beside else "")]
    for row in table.rows:
        lines.append(line(row.name, row.cells, row.text if beside else "", dim=row.dim))
        if not beside:
            lines += [Line("", below) for below in fold(row.text, width, BELOW, BELOW)]
    return lines


def drop_columns(table: Table, width: int) -> Table:
    """Drop optional columns, the last first, until names have enough room."""
    room = width - min(LEAST_NAME, longest([table.head, *(row.name for row in table.rows)]))
    sizes = number_widths(table)
    shown = list(range(len(sizes)))
    while sum(GAP + sizes[column] for column in shown) > room:
        optional = [column for column in shown if table.columns[column].optional]
        if not optional:
            break
        shown.remove(optional[-1])
    rows = tuple(replace(row, cells=tuple(row.cells[column] for column in shown)) for row in table.rows)
    return replace(table, columns=tuple(table.columns[column] for column in shown), rows=rows)


def number_widths(table: Table) -> list[int]:
    """Return the width of every column of numbers."""
    return [
        longest([column.head, *(row.cells[index] for row in table.rows)]) for index, column in enumerate(table.columns)
    ]


def longest(texts: Iterable[str]) -> int:
    """Return the length of the longest text."""
    return max(map(len, texts))


def shorten(name: str, width: int) -> str:
    """Shorten a name to `width` characters by omitting its middle.

    Example:
        >>> shorten("matmul_128x768x3072_f32_w_fused_4adc51", 24)
        'matmul_128x768…ed_4adc51'
    """
    if len(name) <= width:
        return name
    tail = int(TAIL * (width - 1))
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"
