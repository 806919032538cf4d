"""Consoles for people, and times with their unit."""

from rich.console import Console, ConsoleRenderable, RenderHook
from rich.text import Text

from autotune.core.printable import is_plain, lines

USUAL_WIDTH = 80  # characters of a line


class PrintableText(RenderHook):
    """Spells out what is no character to print: text from elsewhere cannot command the terminal."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """What is printed, texts of it without control characters but for lines and tabs."""
        return [Text(lines(r.plain)) if isinstance(r, Text) and not is_plain(r.plain) else r for r in renderables]


class VerbConsole(Console):
    """A console whose reader may be gone: results then end the verb, and progress ends, not the verb."""

    def on_broken_pipe(self) -> None:
        """Raise the error that is handled, which the command line turns into its exit code; rich's own exits with 1."""
        if not self.stderr:
            raise  # noqa: PLE0704 - rich calls this where it handles a BrokenPipeError
        self.quiet = True


def terminal(*, stderr: bool = False) -> Console:
    """A console that prints text as it is written, wherever it comes from."""
    console = VerbConsole(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.width:  # COLUMNS=0, as of who does not know
        console.width = USUAL_WIDTH
    console.push_render_hook(PrintableText())
    return console


def duration(seconds: float | None) -> str:
    """A time with the unit that suits it; ``-`` where there is none.

    Example:
        >>> duration(0.00123)
        '1.23 ms'
    """
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if seconds >= scale or unit == "ns":
            break
    value = seconds / scale
    return f"{value:.3g} {unit}" if value < 999.5 else f"{value:.0f} {unit}"
