"""Syntax highlighting of MLIR, LLVM IR and assembly on a terminal; plain text everywhere else."""

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.text import Text
from rich.theme import Theme

from autotune.core.printable import lines

THEME = Theme(
    {
        "code.comment": "italic bright_black",
        "code.string": "green",
        "code.number": "cyan",
        "code.value": "yellow",
        "code.type": "magenta",
        "code.symbol": "bold blue",
        "code.op": "bold",
        "code.fma": "bold green",
        "code.plus": "green",
        "code.minus": "red",
        "code.place": "cyan",
    }
)


class CodeHighlighter(RegexHighlighter):
    """Highlighter of code; later rules override earlier ones, so comments come last."""

    base_style = "code."
    highlights = [  # noqa: RUF012 - rich reads a list
        r"(?P<number>\b\d+(\.\d+)?(e[+-]?\d+)?\b)",
        r"(?P<op>\b[a-z_]+\.[a-z_.]+\b)",
        r"(?P<value>%[\w#$.]+)",
        r"(?P<symbol>@[\w$.]+)",
        r"(?P<type>\b(?:tensor|memref|vector)<[^>]*>|\b[fi]\d{1,2}\b|\bindex\b|![\w.]+)",
        r"(?P<fma>\bv?fn?m(?:add|sub)\w*\b|\bfml[as]\b)",
        r"(?P<string>\"[^\"]*\")",
        r"(?P<comment>(?://|^#|\s#\s|^;).*$)",
    ]


class DiffHighlighter(RegexHighlighter):
    """Highlighter of added lines, removed lines and hunk headers."""

    base_style = "code."
    highlights = [r"(?P<plus>^\+.*$)", r"(?P<minus>^-.*$)", r"(?P<place>^@@.*$)"]  # noqa: RUF012


def print_code(text: str, *, is_diff: bool = False) -> None:
    """Print code to stdout, coloured if that is a terminal; the characters are the same in any case."""
    text = lines(text)
    console = Console(theme=THEME, soft_wrap=True, highlight=False)
    if not console.is_terminal:
        print(text)
        return
    highlighter = DiffHighlighter() if is_diff else CodeHighlighter()
    for line in text.splitlines():
        shown = Text(line)
        highlighter.highlight(shown)
        console.print(shown)
