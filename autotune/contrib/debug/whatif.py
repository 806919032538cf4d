"""Two recordings side by side."""

from collections.abc import Iterator
from itertools import islice

from autotune.contrib.debug.recording import DebugRecording, TransformStep
from autotune.contrib.debug.terminal import cut, details, difference

MOST_LINES = 40  # of the diff of each


def first_difference(one: DebugRecording, other: DebugRecording) -> int:
    """Number of the first step that is another, or does something else; 0 where there is none."""
    if one.before.lines != other.before.lines:
        return 1
    for number, (step, its) in enumerate(zip(one.steps, other.steps, strict=False), 1):
        if (step.op, own_text(step), step.changes) != (its.op, own_text(its), its.changes):
            return number
    same = len(one.steps) == len(other.steps)
    return 0 if same else min(len(one.steps), len(other.steps)) + 1


def own_text(step: TransformStep) -> str:
    """The ops of a step without the names of values, which stand for the same in two scripts."""
    return " ".join(word for word in step.text.split() if not word.startswith(("%", "(%")))


def compare(one: DebugRecording, other: DebugRecording) -> Iterator[str]:
    """The first step that differs, of both."""
    number = first_difference(one, other)
    if not number:
        yield f"all {len(one.steps)} steps are the same"
        return
    if one.before.lines != other.before.lines:
        yield "the payloads differ before the first step"
        return
    yield cut(f"the first {number - 1} steps are the same; step {number} differs")
    for name, recording in ((one.source, one), (other.source, other)):
        yield ""
        if number > len(recording.steps):
            yield cut(f"{name}: ends after step {number - 1}")
            continue
        yield cut(f"{name}:")
        yield from details(recording, number)
        yield from islice(difference(recording, number), MOST_LINES)
