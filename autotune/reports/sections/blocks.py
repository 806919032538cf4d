"""What a page is made of, as plain data: sections, and in them figures, tables, pictures, tasks and code.

The template shows a block by its `kind`. Every text is escaped there; nothing here is markup.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from autotune.reports.pictures.gallery import Picture


@dataclass(frozen=True)
class TableCell:
    """One cell of a table.

    Attributes:
        text: Text of the cell.
        value: Number that a column is sorted by; `None` sorts by the text.
        anchor: Id in the page that the text leads to; empty for none.
        title: Text that is shown when the pointer rests on the cell; empty for nothing.
    """

    text: str
    value: float | None = None
    anchor: str = ""
    title: str = ""


@dataclass(frozen=True)
class TableColumn:
    """Head of a column.

    Attributes:
        name: Name of what it holds.
        numeric: Whether it holds numbers, which are set to the right.
    """

    name: str
    numeric: bool = False


@dataclass(frozen=True)
class TableRow:
    """One row of a table.

    Attributes:
        cells: Cells, one a column; the first is the head of the row.
        marked: Whether it is one of the rows to look at first.
    """

    cells: Sequence[TableCell]
    marked: bool = False


@dataclass(frozen=True)
class DataTable:
    """A table; the browser sorts it by a click on a head."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[TableColumn]
    rows: Sequence[TableRow]


@dataclass(frozen=True)
class Tile:
    """A figure of the headline.

    Attributes:
        name: Name of the figure.
        text: The figure, with its unit.
        detail: Interval of the figure, or what to compare it with.
    """

    name: str
    text: str
    detail: str


@dataclass(frozen=True)
class Tiles:
    """Figures of the headline, side by side."""

    kind: ClassVar[str] = "tiles"
    tiles: Sequence[Tile]


@dataclass(frozen=True)
class Facts:
    """Terms and what is to be said of each."""

    kind: ClassVar[str] = "facts"
    facts: Mapping[str, str]


@dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    kind: ClassVar[str] = "paragraph"
    text: str


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Notes:
    """Sentences of a note."""

    kind: ClassVar[str] = "notes"
    notes: Sequence[str]


@dataclass(frozen=True)
class Gallery:
    """Pictures in a grid; a table beside them where there is one."""

    kind: ClassVar[str] = "gallery"
    pictures: Sequence[Picture]
    table: DataTable | None = None


@dataclass(frozen=True)
class CodeLine:
    """A line of code, and whether it is one of those to look at."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Code:
    """Text of a file, closed until it is asked for.

    Attributes:
        title: Name of the text.
        lines: Lines of the file.
    """

    kind: ClassVar[str] = "code"
    title: str
    lines: Sequence[CodeLine]


@dataclass(frozen=True)
class Commands:
    """Lines for a shell."""

    kind: ClassVar[str] = "commands"
    lines: Sequence[str]


@dataclass(frozen=True)
class FoldedSection:
    """Blocks that are closed until they are asked for."""

    kind: ClassVar[str] = "folded"
    title: str
    blocks: "Sequence[Block]"


@dataclass(frozen=True)
class TaskCard:
    """One task: a line, and what opens below it.

    Attributes:
        anchor: Id in the page, of what opens.
        cells: The line, one a column of its `TaskList`; the first is the task's name.
        share: Share of a call, for the bar behind the line; 0 where it is unknown.
        blocks: What opens.
    """

    anchor: str
    cells: Sequence[TableCell]
    share: float
    blocks: "Sequence[Block]"


@dataclass(frozen=True)
class TaskList:
    """Tasks, a line each, closed."""

    kind: ClassVar[str] = "tasks"
    columns: Sequence[TableColumn]
    tasks: Sequence[TaskCard]


Block = DataTable | Tiles | Facts | Paragraph | Heading | Notes | Gallery | Code | Commands | FoldedSection | TaskList


@dataclass(frozen=True)
class Section:
    """One chapter of the page.

    Attributes:
        anchor: Id in the page.
        title: Heading.
        blocks: What it shows, in order.
    """

    anchor: str
    title: str
    blocks: Sequence[Block] = field(default=())
