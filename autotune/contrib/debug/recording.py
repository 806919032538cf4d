"""Data classes of a recording: the steps of a script, and the payload and handles after each of them."""

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
    """A range of payload lines that a step replaced.

    Attributes:
        first: Index of the first replaced line, before the step.
        removed: Number of removed lines.
        added: Lines that replace them.
        ops: Name of the operation that begins at each added line; empty for none.
    """

    first: int
    removed: int
    added: tuple[str, ...]
    ops: tuple[str, ...]


@dataclass(frozen=True)
class Handle:
    """A handle or param of the script after a step that changed it.

    Attributes:
        name: Name in the script, such as ``%loop``.
        frame: Number of the sequence call that it belongs to; every call has its own handles.
        ops: Names of the payload operations that it points to, in order; values of a param.
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
    """A finding about a step.

    Attributes:
        kind: One of the constants of this module, such as `FAILED`.
        sentence: Description of the finding and its cause.
        ops: Names of the affected payload operations.
        cause: Number of the step that caused it; 0 for the step itself.
    """

    kind: str
    sentence: str
    ops: tuple[str, ...] = ()
    cause: int = 0


@dataclass(frozen=True)
class TransformStep:
    """One step of a script.

    Attributes:
        op: Name of the transform operation; the first one if several form one step.
        text: The transform operations as MLIR prints them.
        line: Line of the script, from 1; 0 if it is not in the user's script.
        path: Enclosing sequences, loops and regions, outermost first: ``@task_0``, ``foreach 2 of 3``.
        frame: Number of the enclosing sequence call.
        changes: Changes of the payload, in the order of lines.
        handles: Handles that the step changed.
        marks: Findings about the step.
        origins: New payload operations, each with the operation that it was created from, ``new old``.
        seconds: Time of the interpreter.
        nests: Loop nests that the step changed.
        order: Outermost operations of all loop nests after the step; empty if unchanged.
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
        """Name of the operation without the dialect."""
        return self.op.removeprefix("transform.")

    @property
    def failed(self) -> bool:
        """Whether the script ended here with an error."""
        return any(mark.kind in (FAILED, CONSUMED) for mark in self.marks)


@dataclass(frozen=True)
class PayloadText:
    """Text of the payload at one point of the script.

    Attributes:
        lines: Lines of the text.
        ops: Name of the operation that begins at each line; empty for none.
    """

    lines: tuple[str, ...]
    ops: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"

    def after(self, changes: tuple[Change, ...]) -> "PayloadText":
        """Return the text after the changes of a step."""
        lines, ops = list(self.lines), list(self.ops)
        for change in reversed(changes):
            part = slice(change.first, change.first + change.removed)
            lines[part], ops[part] = change.added, change.ops
        return PayloadText(tuple(lines), tuple(ops))


@dataclass(frozen=True)
class DebugRecording:
    """A recording of a script on a payload.

    Attributes:
        payload: Name of the payload.
        source: Name of the script.
        script: Text of the script, whose lines `TransformStep.line` refers to.
        before: The payload before the first step.
        steps: Recorded steps.
        message: Reason why the script ended early; empty if it did not.
        notes: Notes on the recording: reached limits, differences to one run of the whole script.
        marks: Findings about the script as a whole.
        seconds: Duration of the recording.
        nests: Loop nests before the first step.
        variants: Variants with single changes.
        result: Hash of the canonicalized payload after the last step.
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
        """HTML page of the recording, for notebooks."""
        from autotune.contrib.debug.page import write_page

        style = "width: 100%; height: 640px; border: 1px solid"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(write_page(self))}"></iframe>'

    def nests_after(self, count: int) -> tuple[NestCost, ...]:
        """Return the loop nests after `count` steps, in the order of the payload."""
        known, order = {nest.op: nest for nest in self.nests}, tuple(nest.op for nest in self.nests)
        for step in self.steps[:count]:
            known |= {nest.op: nest for nest in step.nests}
            order = step.order or order
        return tuple(known[op] for op in order)

    def payload_after(self, count: int) -> PayloadText:
        """Return the payload after `count` steps."""
        nearest = bisect_right(self._every, count, key=lambda entry: entry[0]) - 1
        number, text = self._every[nearest]
        for step in self.steps[number:count]:
            text = text.after(step.changes)
        return text

    @cached_property
    def _every(self) -> list[tuple[int, PayloadText]]:
        """Snapshots of the payload after every 32nd step, from which the others are derived."""
        snapshots, text = [(0, self.before)], self.before
        for number, step in enumerate(self.steps, 1):
            text = text.after(step.changes)
            if number % 32 == 0:
                snapshots.append((number, text))
        return snapshots

    def handles_after(self, count: int) -> tuple[Handle, ...]:
        """Return the handles in scope after `count` steps, the newest last."""
        known: dict[tuple[int, str], Handle] = {}
        for step in self.steps[:count]:
            for handle in step.handles:
                known.pop((handle.frame, handle.name), None)
                if handle.state != GONE:
                    known[handle.frame, handle.name] = handle
        return tuple(known.values())

    def maker(self, op: str) -> int:
        """Return the number of the step that created an operation, from 1; 0 for an original one."""
        for number, step in enumerate(self.steps, 1):
            if any(origin.partition(" ")[0] == op for origin in step.origins):
                return number
        return 0


@dataclass(frozen=True)
class ScriptVariant:
    """The recording of a script with one change.

    Attributes:
        label: Description of the change, ``rows = 8`` or ``without step 4``.
        steps: Steps from the first one that differs.
        first: Number of that step.
        message: Reason why it ended early; empty if it did not.
        same: Whether the final payload is the same, in canonical form.
        knob: Name of the changed knob; empty for none.
    """

    label: str
    steps: tuple[TransformStep, ...]
    first: int
    message: str = ""
    same: bool = False
    knob: str = ""
