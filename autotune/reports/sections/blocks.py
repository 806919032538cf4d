"""Elements of a report page as plain data: sections with figures, tables, plots, tasks and code.

The template renders a block by its `kind` and escapes all text; no text here is markup.
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
        value: Number that a column is sorted by; `None` to sort by the text.
        anchor: Id in the page that the text links to; empty for none.
        title: Tooltip of the cell; empty for none.
    """

    text: str
    value: float | None = None
    anchor: str = ""
    title: str = ""


@dataclass(frozen=True)
class TableColumn:
    """Heading of a column.

    Attributes:
        name: Text of the heading.
        numeric: Whether the column contains numbers, which are right-aligned.
    """

    name: str
    numeric: bool = False


@dataclass(frozen=True)
class TableRow:
    """One row of a table.

    Attributes:
        cells: Cells, one per column; the first is the heading of the row.
        marked: Whether the row is highlighted.
    """

    cells: Sequence[TableCell]
    marked: bool = False


@dataclass(frozen=True)
class DataTable:
    """A table, sortable in the browser by a click on a heading."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[TableColumn]
    rows: Sequence[TableRow]


@dataclass(frozen=True)
class Tile:
    """A key figure.

    Attributes:
        name: Name of the figure.
        text: Value of the figure, with its unit.
        detail: Interval of the figure, or a value to compare it with.
    """

    name: str
    text: str
    detail: str


@dataclass(frozen=True)
class Tiles:
    """Key figures, side by side."""

    kind: ClassVar[str] = "tiles"
    tiles: Sequence[Tile]


@dataclass(frozen=True)
class Facts:
    """Terms with their descriptions."""

    kind: ClassVar[str] = "facts"
    facts: Mapping[str, str]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text."""

    kind: ClassVar[str] = "paragraph"
    text: str


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Notes:
    """A list of notes."""

    kind: ClassVar[str] = "notes"
    notes: Sequence[str]


@dataclass(frozen=True)
class Gallery:
    """Plots in a grid, optionally with a table beside them."""

    kind: ClassVar[str] = "gallery"
    pictures: Sequence[Picture]
    table: DataTable | None = None


@dataclass(frozen=True)
class CodeLine:
    """A line of code, and whether it is highlighted."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Code:
    """Text of a file, collapsed at first.

    Attributes:
        title: Title of the text.
        lines: Lines of the file.
    """

    kind: ClassVar[str] = "code"
    title: str
    lines: Sequence[CodeLine]


@dataclass(frozen=True)
class Commands:
    """Shell commands, one per line."""

    kind: ClassVar[str] = "commands"
    lines: Sequence[str]


@dataclass(frozen=True)
class FoldedSection:
    """Blocks that are collapsed at first."""

    kind: ClassVar[str] = "folded"
    title: str
    blocks: "Sequence[Block]"


@dataclass(frozen=True)
class TaskCard:
    """One task: a line, and blocks that unfold below it.

    Attributes:
        anchor: Id of the task in the page.
        cells: Cells of the line, one per column of its `TaskList`; the first is the task's name.
        share: Share of a call, for the bar behind the line; 0 if unknown.
        blocks: Blocks that unfold.
    """

    anchor: str
    cells: Sequence[TableCell]
    share: float
    blocks: "Sequence[Block]"


@dataclass(frozen=True)
class TaskList:
    """List of tasks, one line each, collapsed at first."""

    kind: ClassVar[str] = "tasks"
    columns: Sequence[TableColumn]
    tasks: Sequence[TaskCard]


Block = DataTable | Tiles | Facts | Paragraph | Heading | Notes | Gallery | Code | Commands | FoldedSection | TaskList


@dataclass(frozen=True)
class Section:
    """One chapter of the page.

    Attributes:
        anchor: Id in the page.
        title: Heading of the section.
        blocks: Blocks of the section, in order.
    """

    anchor: str
    title: str
    blocks: Sequence[Block] = field(default=())
