"""Step-by-step execution of a transform script: control flow is executed here, other operations by the interpreter.

The stepper enters `transform.include`, `transform.foreach` and `transform.sequence`, so that the payload and the
handles are recorded after each nested operation. Other operations, including `transform.foreach_match` and
`transform.alternatives`, are one step each.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir

from autotune.compiler.ir.scripts import MAIN, UNNAMED
from autotune.compiler.script.apply import without_preamble
from autotune.contrib.debug.costs import nest_cost, outermost
from autotune.contrib.debug.differ import changes_between
from autotune.contrib.debug.leaf import OPS, PARAM, VALUE, HandleState, Leaf, LeafError, kind_of
from autotune.contrib.debug.marks import marks_of, short
from autotune.contrib.debug.named_ops import NamedOps, name_in
from autotune.contrib.debug.nest_cost import NestCost
from autotune.contrib.debug.recording import (
    CONSUMED,
    EMPTY,
    FAILED,
    GONE,
    HOLDS,
    INVALID,
    SKIPPED,
    Change,
    Handle,
    Mark,
    TransformStep,
)
from autotune.contrib.debug.script_facts import QUERIES, ScriptFacts, is_used_behind, location_of
from autotune.core.printable import first_lines

INCLUDE, FOREACH = "transform.include", "transform.foreach"
ENTERED = (INCLUDE, FOREACH, UNNAMED)
MOST_LINES = 200  # of a loop nest; a larger loop contains several nests
SUPPRESS = 2  # value of the failure propagation mode
LOCATED = re.compile(r'loc\("(\w+)"\)')
PRINTED = re.compile(r'%\w+(?::\d+)? = "transform\.([\w.]+)"\(.* -> (?:\([^)]*\)|\S+)(?= )')  # a script operation
WHERE = re.compile(r'(?:at )?loc\((?:"[^"]*"(?::\d+:\d+)?|unknown)\):\s*')


class Ended(Exception):  # noqa: N818 - no error of this program: the script ended early
    """The script ended early; its step says why."""


@dataclass
class Frame:
    """An execution frame: the call of a named sequence, or the execution of a region.

    Attributes:
        number: Number of the call of a sequence; a region has that of the enclosing sequence.
        values: Contents of its handles, params and values.
        at: Operation being executed.
        waiting: Handles of the iterations of a loop that remain.
    """

    number: int
    values: dict[ir.Value, HandleState] = field(default_factory=dict)
    at: ir.Operation | None = None
    waiting: list[HandleState] = field(default_factory=list)


@dataclass(frozen=True)
class DebugLimits:
    """Limits of a recording.

    Attributes:
        seconds: Time after which the rest of the script is recorded by whole calls instead of single steps.
        characters: Total size of the recorded changes after which the same applies.
        skip: Numbers of steps to skip.
        lanes: f32 elements of a vector register, the unit of costs.
        cost_seconds: Time after which costs are not computed any more.
    """

    seconds: float = 120.0
    characters: int = 48_000_000
    skip: tuple[int, ...] = ()
    lanes: int = 16
    cost_seconds: float = 20.0


class Stepper:
    """Applies a script to a payload step by step, in the current context.

    Args:
        module: Module of the payload.
        facts: The script and facts about it.
        limits: Limits of the recording.
        argument_bytes: Bytes of all arguments of the payload.

    Attributes:
        steps: Steps so far.
        named: The payload with the names of its operations.
        thinned: Number of the first step that is a whole call; 0 if all are single operations.
        nests: Loop nests before the first step.
        costless: Number of the first step without costs; 0 if all have costs.
    """

    def __init__(self, module: ir.Module, facts: ScriptFacts, limits: DebugLimits, argument_bytes: int) -> None:
        self.named, self._facts, self._limits = NamedOps(module), facts, limits
        self._argument_bytes = argument_bytes
        self.steps: list[TransformStep] = []
        self.thinned, self.costless = 0, 0
        self._lines, self._ops = self.named.text()
        self.before = (tuple(self._lines), tuple(self._ops))
        self._cost_seconds, self._priced = 0.0, dict[str, NestCost | None]()
        self._known = {nest.op: nest for nest in self._costs()}
        self.nests = tuple(self._known.values())
        self._frames: list[Frame] = []
        self._path: list[str] = []
        self._sequences = 0
        self._recorded: dict[tuple[int, str], tuple[tuple[str, ...], str]] = {}
        self._characters = 0
        self._deadline = time.monotonic() + limits.seconds

    def run(self) -> None:
        """Apply the script.

        Raises:
            Ended: The script ended early.
        """
        entry = self._facts.sequences[MAIN]
        block = entry.regions[0].blocks[0]
        root = HandleState("", OPS, block.arguments[0].type, [self.named.root])
        self._call(entry, [root])

    def _call(self, sequence: ir.Operation, arguments: Sequence[HandleState]) -> list[HandleState]:
        """Run a named sequence and return what it yields."""
        self._sequences += 1
        frame = Frame(self._sequences)
        return self._enter(sequence, sequence.regions[0].blocks[0], frame, arguments, f"@{symbol_of(sequence)}")

    def _enter(
        self, op: ir.Operation, block: ir.Block, frame: Frame, arguments: Sequence[HandleState], where: str
    ) -> list[HandleState]:
        """Run a block in a frame and return what it yields."""
        self._frames.append(frame)
        self._path.append(where)
        for value, name, argument in zip(
            block.arguments, self._facts.argument_names(block, op), arguments, strict=False
        ):
            frame.values[value] = passed_on(argument, name, value.type)
        try:
            *ops, end = [each.operation for each in block.operations]
            self._run_ops(ops)
            frame.at = end
            return [self._state_of(value) for value in end.operands]
        finally:
            self._path.pop()
            self._frames.pop()

    def _run_ops(self, ops: list[ir.Operation]) -> None:
        """Run the operations of a block; producers of payload value handles are applied together with their users."""
        frame = self._frames[-1]
        while ops:
            frame.at = ops[0]
            if ops[0].name in ENTERED and not self._is_late():
                self._container(ops.pop(0))
                continue
            count = together(ops) if len(self._frames) == 1 or not self._is_late() else len(ops)
            frame.at = ops[count - 1]
            self._leaf(ops[:count])
            ops = ops[count:]

    def _is_late(self) -> bool:
        """Return whether a limit was reached, so that the rest is recorded by whole calls of the entry sequence."""
        late = time.monotonic() > self._deadline or self._characters > self._limits.characters
        if late and not self.thinned:
            self.thinned = len(self.steps) + 1
        return late

    def _container(self, op: ir.Operation) -> None:
        """Execute an operation with a region or a callee."""
        operands = [self._state_of(value) for value in op.operands]
        self._check(op)
        self._spend(op)
        if op.name == FOREACH:
            results = self._foreach(op, operands)
        elif op.name == INCLUDE:
            callee = self._facts.sequences[str(op.attributes["target"].value)]
            results = self._caught(op, lambda: self._call(callee, operands))
        else:
            block = op.regions[0].blocks[0]
            arguments = operands or [HandleState("", OPS, block.arguments[0].type, [self.named.root])]
            frame = Frame(self._frames[-1].number)
            results = self._caught(op, lambda: self._enter(op, block, frame, arguments, "sequence"))
        for value, name, result in zip(op.results, self._facts.names_of(op), results, strict=False):
            self._frames[-1].values[value] = passed_on(result, name, value.type)

    def _caught(self, op: ir.Operation, run: Callable[[], list[HandleState]]) -> list[HandleState]:
        """Run a region and return its results; empty handles if it fails and the operation suppresses failures."""
        mode, depth = op.attributes["failure_propagation_mode"], (len(self._frames), len(self._path))
        try:
            return run()
        except Ended:
            if int(mode) != SUPPRESS:
                raise
            del self._frames[depth[0] :], self._path[depth[1] :]
            return [HandleState("", kind_of(value.type), value.type) for value in op.results]

    def _foreach(self, op: ir.Operation, operands: Sequence[HandleState]) -> list[HandleState]:
        """Run a loop over the operations of handles, and return the concatenated results of its iterations."""
        counts = [len(state.values if state.kind == PARAM else state.ops) for state in operands]
        if not counts or not min(counts):
            self._note(op, "it runs over nothing", next((state.made for state in operands if state.made), 0))
        results = [HandleState("", kind_of(value.type), value.type) for value in op.results]
        rest = [passed_on(state, "", state.type) for state in operands]
        self._frames[-1].waiting += rest
        count = min(counts, default=0)
        for turn in range(1, count + 1):
            item_handles = [first_of(state) for state in rest]
            frame = Frame(self._frames[-1].number)
            given_back = self._enter(op, op.regions[0].blocks[0], frame, item_handles, f"foreach {turn} of {count}")
            for state, yielded in zip(results, given_back, strict=False):
                state.ops += yielded.ops
                state.values += yielded.values
        self._frames[-1].waiting = [
            state for state in self._frames[-1].waiting if all(state is not each for each in rest)
        ]
        return results

    def _note(self, op: ir.Operation, sentence: str, cause: int) -> None:
        """Add a step that only carries a note."""
        self._add(op, str(op).split("{", maxsplit=1)[0].strip(), (), (Mark(EMPTY, sentence, cause=cause),), 0.0)

    def _state_of(self, value: ir.Value) -> HandleState:
        """Return the contents of a value of the script."""
        return next(frame.values[value] for frame in reversed(self._frames) if value in frame.values)

    def _check(self, op: ir.Operation, ops: Sequence[ir.Operation] = ()) -> None:
        """End the script if an operation uses an invalidated handle; results of `ops` are valid."""
        for value in op.operands:
            if not is_made_by(value, ops) and (state := self._state_of(value)).invalid:
                message = f"{state.name} may not be used any more: {state.invalid}"
                self._add(op, str(op), (), (Mark(CONSUMED, message, cause=state.ended),), 0.0)
                raise Ended(message)

    def _spend(self, op: ir.Operation) -> None:
        """Invalidate the handles that an operation consumes, and all that point to the same or nested operations."""
        spent = [self._state_of(op.operands[index]) for index in sorted(self._facts.consumed.get(op, ()))]
        number, line = len(self.steps) + 1, location_of(op)[0]
        where = f"step {number} ({short(op)}{f', line {line}' if line else ''})"
        for state in spent:
            gone, name = set(state.ops), state.name
            if state.invalid or state.kind != OPS:
                continue
            state.invalid, state.ended = f"{where} consumed it", number
            for other in self._all_states():
                if not other.invalid and any(self._is_inside(each, gone) for each in other.ops):
                    other.invalid, other.ended = f"{where} consumed {name}, which is or holds its ops", number

    def _is_inside(self, op: str, ops: set[str]) -> bool:
        return any(each in ops for each in self.named.ancestry(op))

    def _all_states(self) -> Iterator[HandleState]:
        """Yield the handles of all active frames."""
        for frame in self._frames:
            yield from frame.values.values()
            yield from frame.waiting

    def _live(self) -> list[HandleState]:
        """Return the handles that later operations may use."""
        live: list[HandleState] = []
        for frame in self._frames:
            at = frame.at
            for value, state in frame.values.items():
                if state.kind == OPS and not state.invalid and at is not None and is_used_behind(value, at):
                    live.append(state)
            live += [state for state in frame.waiting if state.kind == OPS and state.ops]
        return live

    def _leaf(self, ops: list[ir.Operation]) -> None:
        """Apply operations as one step."""
        number = len(self.steps) + 1
        for op in ops:
            self._check(op, ops)
        used = {value: self._state_of(value) for op in ops for value in operands_of(op) if not is_made_by(value, ops)}
        results = self._results(ops)
        text = "\n".join(op.get_asm(assume_verified=True) for op in ops)  # the script was verified when it was read
        if number in self._limits.skip:
            self._leave_out(ops, results, text)
            return
        for op in ops:
            if not any(is_made_by(value, ops) for value in op.operands):
                self._spend(op)
        live = self._live()
        try:
            seconds = Leaf(self.named, self._facts.module, ops, used, live, results).apply()
        except LeafError as error:
            self._fail(ops[0], text, str(error), used.values())
        self._frames[-1].values |= results
        changes = () if all(op.name.startswith(QUERIES) for op in ops) else self._look()
        marks = marks_of(ops, changes, results, used)
        self._add(ops[0], text, changes, marks, seconds)

    def _results(self, ops: Sequence[ir.Operation]) -> dict[ir.Value, HandleState]:
        """Return empty contents for the results that may be used after the operations."""
        results = {}
        for op in ops:
            for value, name in zip(op.results, self._facts.names_of(op), strict=True):
                result = HandleState(name, kind_of(value.type), value.type, made=len(self.steps) + 1)
                if op is ops[-1] or result.kind == PARAM or is_used_behind(value, ops[-1]):
                    results[value] = result
        return results

    def _leave_out(self, ops: Sequence[ir.Operation], results: dict[ir.Value, HandleState], text: str) -> None:
        """Skip a step: its results take the contents of the operands at the same positions."""
        operands = [self._state_of(value) for value in ops[0].operands]
        for result, operand in zip(results.values(), operands, strict=False):
            if result.kind == operand.kind:
                result.ops, result.values = list(operand.ops), list(operand.values)
        self._frames[-1].values |= results
        self._add(ops[0], text, (), (Mark(SKIPPED, "this step was left out"),), 0.0)

    def _fail(self, op: ir.Operation, text: str, diagnostic: str, used: Iterable[HandleState]) -> None:
        """End the script with an error of the interpreter."""
        message, about = read_error(diagnostic, self.named.spots)
        self.named.renew()
        changes = self._look()
        self._add(op, text, changes, (Mark(FAILED, message, about, self._cause(used)),), 0.0)
        raise Ended(message)

    def _cause(self, used: Iterable[HandleState]) -> int:
        """Return the step that caused a failure: of those that defined operands, preferably one with marks or changes.

        Return 0 if there is none.
        """
        makers = [state.made for state in used if state.made]  # in operand order: the target comes first
        marked = [number for number in makers if self.steps[number - 1].marks]
        changed = [number for number in makers if self.steps[number - 1].changes]
        return next(iter(marked + changed + makers), 0)

    def _costs(self) -> tuple[NestCost, ...]:
        """Return the current loop nests with their costs; none if the time limit was reached."""
        if self._cost_seconds > self._limits.cost_seconds:
            self.costless = self.costless or len(self.steps) + 1
            return ()
        begun = time.perf_counter()
        line_numbers = {name: number for number, name in enumerate(self._ops) if name}
        costs, known = list[NestCost](), dict[str, NestCost | None]()

        def text_of(op: ir.Operation) -> str:
            return nest_text(self._lines, line_numbers.get(name_in(op.location), 0))

        for op in outermost(self.named.module, lambda op: text_of(op).count("\n") > MOST_LINES):
            text = text_of(op)
            known[text] = (
                self._priced[text] if text in self._priced else nest_cost(op, self._limits.lanes, self._argument_bytes)
            )
            costs += [cost] if (cost := known[text]) is not None else []
        self._priced = known
        self._cost_seconds += time.perf_counter() - begun
        return tuple(costs)

    def _look(self) -> tuple[Change, ...]:
        """Return what changed in the payload since the last call."""
        lines, ops = self.named.text()
        changes = changes_between(self._lines, lines, ops)
        self._lines, self._ops = lines, ops
        self._characters += sum(len(line) for change in changes for line in change.added)
        return changes

    def _add(
        self, op: ir.Operation, text: str, changes: tuple[Change, ...], marks: tuple[Mark, ...], seconds: float
    ) -> None:
        frame = self._frames[-1].number if self._frames else 0
        line = location_of(op)[0]
        now = self._costs() if changes else ()
        nests = tuple(nest for nest in now if self._known.get(nest.op) != nest)
        order = tuple(nest.op for nest in now)
        order = order if nests or (now and order != tuple(self._known)) else ()
        self._known = {nest.op: nest for nest in now} or self._known
        step = TransformStep(
            op.name,
            text,
            line,
            tuple(self._path),
            frame,
            changes,
            self._changed_handles(),
            marks,
            tuple(self.named.origins) if changes else (),
            seconds,
            nests,
            order,
        )
        self.steps.append(step)

    def _changed_handles(self) -> tuple[Handle, ...]:
        """Return the handles that changed since they were last recorded."""
        now: dict[tuple[int, str], Handle] = {}
        for frame in self._frames:
            for value in frame.values.values():
                if value.kind != VALUE:
                    ops = tuple(map(str, value.values)) if value.kind == PARAM else tuple(value.ops)
                    state = INVALID if value.invalid else HOLDS
                    now[frame.number, value.name] = Handle(value.name, frame.number, ops, state, value.kind == PARAM)
        changed = [handle for key, handle in now.items() if self._recorded.get(key) != (handle.ops, handle.state)]
        changed += [Handle(name, frame, (), GONE) for frame, name in self._recorded if (frame, name) not in now]
        self._recorded = {key: (handle.ops, handle.state) for key, handle in now.items()}
        return tuple(changed)


def nest_text(lines: Sequence[str], first: int) -> str:
    """Return the text of the operation that begins at a line; names are unique, so that it identifies the operation."""
    depth = len(lines[first]) - len(lines[first].lstrip())
    end = first + 1
    while end < len(lines) and (lines[end].startswith(" " * (depth + 1)) or lines[end].startswith(" " * depth + "}")):
        end += 1
    return "\n".join(lines[first:end])


def symbol_of(sequence: ir.Operation) -> str:
    """Return the symbol name of a sequence."""
    return str(sequence.attributes["sym_name"].value)


def passed_on(state: HandleState, name: str, mlir_type: ir.Type) -> HandleState:
    """Copy the contents of a handle for a new name and type."""
    return replace(
        state, name=name, type=mlir_type, ops=list(state.ops), values=list(state.values), invalid="", ended=0
    )


def first_of(state: HandleState) -> HandleState:
    """Remove the first operation or value from a handle, and return a handle to it."""
    if state.kind == PARAM:
        return HandleState("", state.kind, state.type, values=[state.values.pop(0)], made=state.made)
    return HandleState("", state.kind, state.type, [state.ops.pop(0)], made=state.made)


def together(ops: Sequence[ir.Operation]) -> int:
    """Return how many leading operations must be one step: up to the last use of handles that cannot be rebuilt."""
    count = 1
    for index, op in enumerate(ops):
        if index >= count:
            return count
        for result in op.results:
            if kind_of(result.type) == VALUE:
                users = [number for number, user in enumerate(ops) if result in set(operands_of(user))]
                count = max([count, *(number + 1 for number in users)])
    return count


def operands_of(op: ir.Operation) -> list[ir.Value]:
    """Return the values that an operation or its regions use and that are defined outside."""
    operands, defined_inside = list(op.operands), set[ir.Value]()
    stack = [op]
    while stack:
        at = stack.pop()
        for block in (block for region in at.regions for block in region.blocks):
            defined_inside.update(block.arguments)
            for each in block.operations:
                defined_inside.update(each.operation.results)
                operands += each.operation.operands
                stack.append(each.operation)
    return [value for value in dict.fromkeys(operands) if value not in defined_inside]


def is_made_by(value: ir.Value, ops: Sequence[ir.Operation]) -> bool:
    """Return whether a value is a result of one of the operations."""
    return any(value in list(op.results) for op in ops)


def read_error(diagnostic: str, spots: Mapping[str, object]) -> tuple[str, tuple[str, ...]]:
    """Return the interpreter's diagnostic as one line, and the payload operations that it names."""
    about = tuple(dict.fromkeys(name for name in LOCATED.findall(diagnostic) if name in spots))
    return first_lines(PRINTED.sub(r"what \1 gives", WHERE.sub("", without_preamble(diagnostic)))), about
