"""Output of steps for a terminal of 80 columns."""

from collections import Counter
from collections.abc import Iterator
from difflib import unified_diff
from textwrap import wrap

from autotune.contrib.debug.nest_cost import NestCost, cache_of
from autotune.contrib.debug.recording import INVALID, DebugRecording, Handle, TransformStep
from autotune.core.console import WIDTH
from autotune.core.host.machine import this_machine
from autotune.core.printable import lines as plain
from autotune.reports.format import size

MOST_HANDLES = 12
CONTEXT = 2  # lines around a change


def overview(recording: DebugRecording, grep: str = "") -> Iterator[str]:
    """Yield one line for each step, then the notes on the recording; with `grep`, only steps with that text."""
    yield cut(f"{recording.payload}: {len(recording.steps)} steps of {recording.source}")
    for number, step in enumerate(recording.steps, 1):
        if not grep or is_about(step, grep):
            yield from step_line(number, step)
    yield from ending(recording)


def is_about(step: TransformStep, text: str) -> bool:
    """Return whether a text occurs in the operations, changes or marks of a step."""
    added = (line for change in step.changes for line in change.added)
    return any(text in part for part in (step.text, step.op, *added, *(mark.sentence for mark in step.marks)))


def step_line(number: int, step: TransformStep) -> Iterator[str]:
    """Yield a line for a step, and lines for each of its marks."""
    depth = max(len(step.path) - 1, 0)
    added, removed = (sum(counts) for counts in zip((0, 0), *sizes(step), strict=True))
    change = f"+{added} -{removed}" if added or removed else ""
    where = f"line {step.line}" if step.line else ""
    name = f"{'  ' * min(depth, 6)}{step.short}"
    yield cut(f"{number:>4}  {name:<46.46} {where:<9} {change:>15}")
    for mark in step.marks:
        cause = f"; see step {mark.cause}" if mark.cause else ""
        yield from wrapped(f"{mark.kind}: {mark.sentence}{cause}", "        ! ", "          ")


def sizes(step: TransformStep) -> list[tuple[int, int]]:
    """Return the numbers of lines added and removed by each change of a step."""
    return [(len(change.added), change.removed) for change in step.changes]


def ending(recording: DebugRecording) -> Iterator[str]:
    """Yield the marks, notes and error of the whole recording."""
    for mark in recording.marks:
        yield from wrapped(f"{mark.kind}: {mark.sentence}", "! ", "  ")
    for note in recording.notes:
        yield from wrapped(note, "", "  ")
    if recording.message:
        yield from wrapped(f"failed: {recording.message}", "", "  ")


def details(recording: DebugRecording, number: int, *, diff: bool = False) -> Iterator[str]:
    """Yield the details of a step: position, operations, changes, marks and changed handles."""
    step = recording.steps[number - 1]
    yield cut(f"step {number} of {len(recording.steps)}: {step.short}{f', line {step.line}' if step.line else ''}")
    yield cut("in " + " > ".join(step.path))
    yield from (cut(f"  {line}") for line in script_lines(recording, step))
    yield from changed(recording, number)
    for mark in step.marks:
        about = f" ({', '.join(f'%{op}' for op in mark.ops[:4])})" if mark.ops else ""
        cause = f"; see step {mark.cause}" if mark.cause else ""
        yield from wrapped(f"{mark.kind}: {mark.sentence}{about}{cause}", "! ", "  ")
    yield from handle_lines(step.handles)
    if diff:
        yield from difference(recording, number)


def script_lines(recording: DebugRecording, step: TransformStep) -> list[str]:
    """Return the source lines of a step's operation; as MLIR prints it if it is not in the script."""
    if not step.line:
        return plain(step.text).splitlines()
    lines = plain(recording.script).splitlines()[step.line - 1 :][:3]
    own = lines[0].partition(" //")[0]
    return [own.strip(), *([lines[1].strip()] if len(lines) > 1 and own.count("(") > own.count(")") else [])]


def changed(recording: DebugRecording, number: int) -> Iterator[str]:
    """Yield how many operations of each kind a step added and removed."""
    step = recording.steps[number - 1]
    if not step.changes:
        yield "the payload is as it was"
        return
    before = recording.payload_after(number - 1)
    old = (before.lines[c.first : c.first + c.removed] for c in step.changes)
    new = (c.added for c in step.changes)
    counts, old_counts = (Counter(kind for part in parts for kind in kinds(part)) for parts in (new, old))
    more, less = counts - old_counts, old_counts - counts
    texts = [f"{sign}{count} {kind}" for sign, part in (("+", more), ("-", less)) for kind, count in part.most_common()]
    yield from wrapped(", ".join(texts) or "ops are the same, with other operands or attributes", "payload: ", "  ")


def kinds(part: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of the operations that begin at lines."""
    for line in part:
        word = line.partition(" = ")[2] if line.lstrip().startswith("%") else line.strip()
        kind = word.split("(")[0].split(" ")[0].strip('"')
        if "." in kind and kind[0].isalpha():
            yield kind


def handle_lines(handles: tuple[Handle, ...]) -> Iterator[str]:
    """Yield the handles with the operations that they point to, or that they are invalidated."""
    shown = [handle for handle in handles if handle.name]
    shown = [handle for handle in shown if handle.state != "out of scope"]
    for handle in shown[:MOST_HANDLES]:
        about = handle.ops[0] if handle.is_param and handle.ops else ", ".join(f"%{op}" for op in handle.ops)
        yield cut(f"  {handle.name}: {'invalidated' if handle.state == INVALID else about or 'nothing'}")
    if len(shown) > MOST_HANDLES:
        yield f"  and {len(shown) - MOST_HANDLES} more"


def cost_lines(nests: tuple[NestCost, ...]) -> Iterator[str]:
    """Yield the costs of loop nests: footprint of each loop and its cache, loads, stores and share of the peak."""
    if not nests:
        yield "no loop nest"
    machine = this_machine()
    for nest in nests:
        yield from wrapped(f"%{nest.op}: {summary(nest)}", "", "  ")
        for loop in nest.loops[:MOST_HANDLES]:
            name = f"{'  ' * loop.depth}%{loop.op}"
            touched = f"{size(loop.bytes)} a run"
            yield cut(
                f"  {name:<32.32} {loop.trips:>10} x {loop.runs:<10} {touched:>15} {cache_of(loop.bytes, machine)}"
            )
        if len(nest.loops) > MOST_HANDLES:
            yield f"  and {len(nest.loops) - MOST_HANDLES} more loops"


def summary(nest: NestCost) -> str:
    """Summarize the cost of a nest in a phrase."""
    machine = this_machine()
    if not nest.flops:
        return f"moves data, bound by {nest.bound(machine)}"
    per = "a multiply-add" if nest.fmas else "an operation"
    about = "" if nest.exact else "about "
    rates = f"{nest.loads_each:.2f} loads, {nest.stores_each:.2f} stores {per}"
    return f"{rates}; {about}{nest.share(machine):.0%} of the roof, bound by {nest.bound(machine)}"


def difference(recording: DebugRecording, number: int) -> Iterator[str]:
    """Yield the changes of a step to the payload as a unified diff; lines are not truncated."""
    before, after = recording.payload_after(number - 1), recording.payload_after(number)
    step = recording.steps[number - 1]
    if sum(map(sum, sizes(step))) > 2000:  # the recorded changes, since a new comparison would take long
        for change in step.changes:
            yield f"@@ -{change.first + 1},{change.removed} +{len(change.added)} @@"
            yield from (f"-{plain(line)}" for line in before.lines[change.first : change.first + change.removed])
            yield from (f"+{plain(line)}" for line in change.added)
        return
    names = (f"before step {number}", f"after step {number}")
    yield from map(plain, unified_diff(before.lines, after.lines, *names, n=CONTEXT, lineterm=""))


def find_step(recording: DebugRecording, until: str) -> int:
    """Return the first step of a transform operation, named with or without the dialect; 0 if there is none."""
    names = (until, f"transform.{until}", f"transform.structured.{until}")
    return next((number for number, step in enumerate(recording.steps, 1) if step.op in names), 0)


def wrapped(text: str, first: str, more: str) -> Iterator[str]:
    """Wrap a sentence to the terminal's width."""
    yield from wrap(plain(text), WIDTH, initial_indent=first, subsequent_indent=more, break_on_hyphens=False)


def cut(text: str, width: int = WIDTH) -> str:
    """Truncate a line to a width."""
    text = plain(text).replace("\n", " ").rstrip()
    return text if len(text) <= width else f"{text[: width - 1]}…"
