"""A recording: the steps of a script on a payload as data, and the payload and handles after any of them."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from html import escape

from autotune.contrib.debug.nest_cost import NestCost

HOLDS, INVALID, GONE = "holds", "invalidated", "out of scope"  # states of a handle
FAILED, EMPTY, IDLE, REMAINDER, CONSUMED, KNOB, SKIPPED = (
    *("failed", "matches nothing", "no difference", "remainder", "used after it was consumed", "knob without effect"),
    "left out",
)


@dataclass(frozen=True)
class Change:
    """Lines of the payload that a step replaced.

    Attributes:
        first: Index of the first line that is replaced, counted before the step.
        removed: Number of lines that are removed.
        added: Lines that replace them.
        ops: Name of the op that begins at each added line; empty where none does.
    """

    first: int
    removed: int
    added: tuple[str, ...]
    ops: tuple[str, ...]


@dataclass(frozen=True)
class Handle:
    """A handle or param of the script after a step that changed it.

    Attributes:
        name: Name that the script gives it, ``%loop``.
        frame: Number of the call of a sequence that it lives in; every call has its own handles.
        ops: Names of payload ops that it points at, in order; values of a param.
        state: One of `HOLDS`, `INVALID` and `GONE`.
        is_param: Whether it is a param.
    """

    name: str
    frame: int
    ops: tuple[str, ...]
    state: str = HOLDS
    is_param: bool = False


@dataclass(frozen=True)
class Mark:
    """Something to look at in a step.

    Attributes:
        kind: One of the words above.
        sentence: What it is, and where it comes from.
        ops: Names of the payload ops that it is about.
        cause: Number of the step that it comes from; 0 where that is the step itself.
    """

    kind: str
    sentence: str
    ops: tuple[str, ...] = ()
    cause: int = 0


@dataclass(frozen=True)
class TransformStep:
    """A transform that was applied.

    Attributes:
        op: Name of the transform op; of several that only work together, the first.
        text: The transform ops as MLIR prints them.
        line: Line of the script, from 1; 0 where it is none of the user's.
        path: Sequences, loops and regions around it, the outermost first: ``@task_0``, ``foreach 2 of 3``.
        frame: Number of the call of a sequence that it is in.
        changes: What it did to the payload, in the order of lines.
        handles: Handles that are not as they were before.
        marks: What to look at.
        origins: New ops of the payload with the one that each was made from, ``new old``.
        seconds: Time that the interpreter took.
        nests: Loop nests after it that are not as they were before.
        order: Outermost ops of all loop nests after it; empty where they are as before.
    """

    op: str
    text: str
    line: int
    path: tuple[str, ...]
    frame: int
    changes: tuple[Change, ...]
    handles: tuple[Handle, ...] = ()
    marks: tuple[Mark, ...] = ()
    origins: tuple[str, ...] = ()
    seconds: float = 0.0
    nests: tuple[NestCost, ...] = ()
    order: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """Name of its op without the dialect."""
        return self.op.removeprefix("transform.")

    @property
    def failed(self) -> bool:
        """Whether the script ended here with an error."""
        return any(mark.kind in (FAILED, CONSUMED) for mark in self.marks)


@dataclass(frozen=True)
class PayloadText:
    """The payload at some time.

    Attributes:
        lines: Lines of its text.
        ops: Name of the op that begins at each line; empty where none does.
    """

    lines: tuple[str, ...]
    ops: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"

    def after(self, changes: tuple[Change, ...]) -> "PayloadText":
        """The text after a step."""
        lines, ops = list(self.lines), list(self.ops)
        for change in reversed(changes):
            part = slice(change.first, change.first + change.removed)
            lines[part], ops[part] = change.added, change.ops
        return PayloadText(tuple(lines), tuple(ops))


@dataclass(frozen=True)
class DebugRecording:
    """The steps of a script on a payload.

    Attributes:
        payload: Name of the payload.
        source: Name of the script.
        script: Text of the script; `TransformStep.line` counts its lines.
        before: The payload before the first step.
        steps: The steps.
        message: Why the script ended early; empty where it did not.
        notes: Sentences about all of it: joined steps, a result that is not that of one run of the whole script.
        marks: What is to be said of the script, not of one step.
        seconds: Time that recording took.
        nests: Loop nests before the first step.
        variants: What becomes of it if something is changed.
        result: Hash of the payload behind the last step, in canonical form.
    """

    payload: str
    source: str
    script: str
    before: PayloadText
    steps: tuple[TransformStep, ...]
    message: str = ""
    notes: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    seconds: float = 0.0
    nests: tuple[NestCost, ...] = ()
    variants: tuple["ScriptVariant", ...] = ()
    result: str = ""

    def _repr_html_(self) -> str:
        """The page of the recording, as a notebook shows it."""
        from autotune.contrib.debug.page import write_page

        style = "width: 100%; height: 640px; border: 1px solid"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(write_page(self))}"></iframe>'

    def nests_after(self, count: int) -> tuple[NestCost, ...]:
        """Loop nests after so many steps, in the order of the payload."""
        known, order = {nest.op: nest for nest in self.nests}, tuple(nest.op for nest in self.nests)
        for step in self.steps[:count]:
            known |= {nest.op: nest for nest in step.nests}
            order = step.order or order
        return tuple(known[op] for op in order)

    def payload_after(self, count: int) -> PayloadText:
        """The payload after so many steps."""
        nearest = bisect_right(self._every, count, key=lambda kept: kept[0]) - 1
        number, text = self._every[nearest]
        for step in self.steps[number:count]:
            text = text.after(step.changes)
        return text

    @cached_property
    def _every(self) -> list[tuple[int, PayloadText]]:
        """The payload after every so many steps, so that each of them is reached soon."""
        kept, text = [(0, self.before)], self.before
        for number, step in enumerate(self.steps, 1):
            text = text.after(step.changes)
            if number % 32 == 0:
                kept.append((number, text))
        return kept

    def handles_after(self, count: int) -> tuple[Handle, ...]:
        """Handles after so many steps, the newest last; those that are out of scope are left out."""
        known: dict[tuple[int, str], Handle] = {}
        for step in self.steps[:count]:
            for handle in step.handles:
                known.pop((handle.frame, handle.name), None)
                if handle.state != GONE:
                    known[handle.frame, handle.name] = handle
        return tuple(known.values())

    def maker(self, op: str) -> int:
        """Number of the step that made an op, from 1; 0 for an op of the payload."""
        for number, step in enumerate(self.steps, 1):
            if any(origin.partition(" ")[0] == op for origin in step.origins):
                return number
        return 0


@dataclass(frozen=True)
class ScriptVariant:
    """The same script with one thing changed.

    Attributes:
        label: What is changed, ``rows = 8`` or ``without step 4``.
        steps: Steps from the first on that is another one.
        first: Number of that step.
        message: Why it ended early; empty where it did not.
        same: Whether the payload is the same in the end, in canonical form.
        knob: Name of the knob that has another value; empty where none has.
    """

    label: str
    steps: tuple[TransformStep, ...]
    first: int
    message: str = ""
    same: bool = False
    knob: str = ""
