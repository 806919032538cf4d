"""Consoles that print text literally, and formatting of durations."""

from rich.console import Console, ConsoleRenderable, RenderHook
from rich.text import Text

from autotune.core.printable import is_plain, lines

WIDTH = 80  # characters of a line where the terminal does not say its width


class PrintableText(RenderHook):
    """Render hook that escapes control characters, so that untrusted text cannot control the terminal."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return the renderables, with control characters other than newlines and tabs escaped in texts."""
        return [Text(lines(r.plain)) if isinstance(r, Text) and not is_plain(r.plain) else r for r in renderables]


class VerbConsole(Console):
    """Console that handles a closed pipe: on stdout the command ends, on stderr only the progress output does."""

    def on_broken_pipe(self) -> None:
        """Re-raise `BrokenPipeError`, which the command line maps to its exit code; rich's own version exits with 1."""
        if not self.stderr:
            raise  # noqa: PLE0704 - rich calls this where it handles a BrokenPipeError
        self.quiet = True


def terminal(*, stderr: bool = False) -> Console:
    """Return a console that prints text literally, without markup or control characters."""
    console = VerbConsole(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.width:  # COLUMNS=0 means unknown
        console.width = WIDTH
    console.push_render_hook(PrintableText())
    return console


def duration(seconds: float | None) -> str:
    """Format a duration with a suitable unit; ``-`` for `None`.

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
