"""Interactive stepping through a recording in a terminal."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from autotune.contrib.debug.recording import GONE, DebugRecording
from autotune.contrib.debug.terminal import (
    cost_lines,
    details,
    difference,
    find_step,
    handle_lines,
    overview,
    wrapped,
)
from autotune.contrib.debug.whatif import first_difference
from autotune.core.errors import AutotuneError
from autotune.core.printable import lines as plain

HELP = """\
next, n [COUNT]  the next step           back, b [COUNT]   the one before
into, i          the next call's inside  over, o           behind this call
NUMBER           a step by its number    until, u OP       the next step of a transform op
marks, m         the next marked step    why, w            the step that its mark refers to
list, l [TEXT]   steps, those of a text  handles, h        what handles point at
diff, d          what the step did       cost, c           loop nests and caches
skip, s          without this step       edit, e KNOB=V    with another value of a knob
undo, un         without changes         edit, e OLD > NEW with another text in its line
help             these commands          quit, q           also Ctrl-C"""


@dataclass(frozen=True)
class Changes:
    """Changes to a script before it is applied again.

    Attributes:
        knobs: Values of knobs, ``name=value,...``.
        skip: Numbers of steps to skip.
        edits: Text replacements: line of the script, old and new text.
    """

    knobs: str = ""
    skip: tuple[int, ...] = ()
    edits: tuple[tuple[int, str, str], ...] = ()


Replay = Callable[[Changes], DebugRecording]


class DebugSession:
    """Interpreter of the commands on a recording.

    Args:
        recording: Recorded steps.
        replay: Function that applies the script with changes; `None` to disable replays.
        changes: Changes that the recording was made with.

    Attributes:
        number: Number of the current step.
    """

    def __init__(self, recording: DebugRecording, replay: Replay | None = None, changes: Changes | None = None) -> None:
        self._recording, self.number = recording, 1
        self._original, self._replay, self._changes = recording, replay, changes or Changes()
        self._initial_changes = self._changes
        self._commands: dict[str, Callable[[str], Iterator[str]]] = {
            "next": self._next, "back": self._back, "into": self._into, "over": self._over, "why": self._why,
            "until": self._until, "handles": self._handles, "diff": self._diff, "marks": self._marks,
            "cost": self._cost, "skip": self._skip, "edit": self._edit, "undo": self._undo,
            "list": lambda text: overview(self._recording, text), "help": lambda _: iter(HELP.splitlines()),
        }  # fmt: skip

    def answer(self, line: str) -> list[str] | None:
        """Execute a command and return its output; `None` to quit. An empty line is ``next``."""
        word, _, rest = (line.strip() or "next").partition(" ")
        if word in ("q", "quit", "exit"):
            return None
        if word.isdecimal():
            return list(self._to(int(word)))
        names = [name for name in self._commands if name.startswith(word)]
        if not names:
            return [f"commands are {', '.join(self._commands)} and quit; got {plain(word)}"]
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
        match = next((n for n, step in enumerate(steps, self.number + 1) if step.op.endswith(op)), 0)
        return self._to(match or find_step(self._recording, op) or self.number)

    def _marks(self, _: str) -> Iterator[str]:
        steps = self._recording.steps[self.number :]
        return self._to(next((n for n, step in enumerate(steps, self.number + 1) if step.marks), self.number))

    def _why(self, _: str) -> Iterator[str]:
        marks = self._recording.steps[self.number - 1].marks if self._recording.steps else ()
        return self._to(next((mark.cause for mark in marks if mark.cause), self.number))

    def _handles(self, _: str) -> Iterator[str]:
        handles = [handle for handle in self._recording.handles_after(self.number) if handle.state != GONE]
        return handle_lines(tuple(handles[::-1]))

    def _diff(self, _: str) -> Iterator[str]:
        return difference(self._recording, self.number)

    def _cost(self, _: str) -> Iterator[str]:
        return cost_lines(self._recording.nests_after(self.number))

    def _skip(self, _: str) -> Iterator[str]:
        return self._again(replace(self._changes, skip=(*self._changes.skip, self.number)))

    def _edit(self, text: str) -> Iterator[str]:
        if ">" in text:
            old, new = (part.strip() for part in text.split(">", 1))
            line = self._recording.steps[self.number - 1].line if self._recording.steps else 0
            return self._again(replace(self._changes, edits=(*self._changes.edits, (line, old, new))))
        if "=" not in text:
            return iter(["edit must read KNOB=VALUE, or OLD > NEW for a text in this step's line"])
        knobs = ",".join(filter(None, (self._changes.knobs, text.replace(" ", ""))))
        return self._again(replace(self._changes, knobs=knobs))

    def _undo(self, _: str) -> Iterator[str]:
        self._recording, self._changes = self._original, self._initial_changes
        return self._to(self.number)

    def _again(self, changes: Changes) -> Iterator[str]:
        """Apply the script again with changes, and go to the first step that differs."""
        if self._replay is None:
            yield "this recording cannot be applied again"
            return
        try:
            replayed = self._replay(changes)
        except AutotuneError as error:
            yield from wrapped(str(error), "", "  ")
            return
        number = first_difference(self._recording, replayed)
        self._recording, self._changes = replayed, changes
        yield f"step {number} is the first that differs" if number else "nothing differs: all steps are as before"
        yield from self._to(number or self.number)
