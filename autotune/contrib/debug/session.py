"""Stepping to and fro in a terminal."""

from collections.abc import Callable, Iterator

from autotune.contrib.debug.recording import GONE, DebugRecording
from autotune.contrib.debug.terminal import details, difference, find_step, handle_lines, overview

HELP = """\
next, n [COUNT]   the next step            back, b [COUNT]   the one before
into, i           the next call's inside   over, o           behind this call
go, g NUMBER      a step by number         until, u OP       the next step of a transform op
handles, h        what handles point at    diff, d           what the step did, as a diff
marks, m          the next marked step     list, l [TEXT]    all steps, or those with a text
quit, q"""


class DebugSession:
    """Commands on a recording.

    Attributes:
        number: Number of the step that is shown.
    """

    def __init__(self, recording: DebugRecording) -> None:
        self._recording, self.number = recording, 1
        self._commands: dict[str, Callable[[str], Iterator[str]]] = {
            "next": self._next, "back": self._back, "into": self._into, "over": self._over, "go": self._go,
            "until": self._until, "handles": self._handles, "diff": self._diff, "marks": self._marks,
            "list": lambda text: overview(self._recording, text), "help": lambda _: iter(HELP.splitlines()),
        }  # fmt: skip

    def answer(self, line: str) -> list[str] | None:
        """What a command prints; `None` to end. An empty line is ``next``."""
        word, _, rest = (line.strip() or "next").partition(" ")
        if word in ("q", "quit", "exit"):
            return None
        names = [name for name in self._commands if name.startswith(word)]
        if not names:
            return [f"commands are next, back, into, over, go, until, handles, diff, marks, list and quit; got {word}"]
        return list(self._commands[names[0]](rest.strip()))

    def _to(self, number: int) -> Iterator[str]:
        if not self._recording.steps:
            yield from overview(self._recording)
            return
        self.number = min(max(number, 1), len(self._recording.steps))
        yield from details(self._recording, self.number)

    def _next(self, count: str) -> Iterator[str]:
        return self._to(self.number + (int(count) if count.isdecimal() else 1))

    def _back(self, count: str) -> Iterator[str]:
        return self._to(self.number - (int(count) if count.isdecimal() else 1))

    def _go(self, number: str) -> Iterator[str]:
        return self._to(int(number) if number.isdecimal() else self.number)

    def _depth(self, number: int) -> int:
        return len(self._recording.steps[number - 1].path)

    def _into(self, _: str) -> Iterator[str]:
        after = range(self.number + 1, len(self._recording.steps) + 1)
        return self._to(next((n for n in after if self._depth(n) > self._depth(self.number)), self.number))

    def _over(self, _: str) -> Iterator[str]:
        after = range(self.number + 1, len(self._recording.steps) + 1)
        return self._to(next((n for n in after if self._depth(n) < self._depth(self.number)), self.number))

    def _until(self, op: str) -> Iterator[str]:
        steps = self._recording.steps[self.number :]
        found = next((n for n, step in enumerate(steps, self.number + 1) if step.op.endswith(op)), 0)
        return self._to(found or find_step(self._recording, op) or self.number)

    def _marks(self, _: str) -> Iterator[str]:
        steps = self._recording.steps[self.number :]
        return self._to(next((n for n, step in enumerate(steps, self.number + 1) if step.marks), self.number))

    def _handles(self, _: str) -> Iterator[str]:
        handles = [handle for handle in self._recording.handles_after(self.number) if handle.state != GONE]
        return handle_lines(tuple(handles[::-1]))

    def _diff(self, _: str) -> Iterator[str]:
        return difference(self._recording, self.number)
