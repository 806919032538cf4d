"""Comparison of two recordings."""

from collections.abc import Iterator
from itertools import islice, pairwise

from autotune.contrib.debug.recording import DebugRecording, TransformStep
from autotune.contrib.debug.terminal import cut, details, difference, wrapped
from autotune.core.host.machine import this_machine

MOST_LINES = 40  # of the diff of each recording


def first_difference(one: DebugRecording, other: DebugRecording) -> int:
    """Return the number of the first step whose operations or changes differ; 0 if there is none.

    For different payloads, only the operations are compared.
    """
    is_one_payload = one.before.lines == other.before.lines
    for number, (step, its) in enumerate(zip(one.steps, other.steps, strict=False), 1):
        if (step.op, own_text(step)) != (its.op, own_text(its)) or (is_one_payload and step.changes != its.changes):
            return number
    same = len(one.steps) == len(other.steps)
    return 0 if same else min(len(one.steps), len(other.steps)) + 1


def own_text(step: TransformStep) -> str:
    """Return the text of a step without the names of values, which may differ between equivalent scripts."""
    return " ".join(word for word in step.text.split() if not word.startswith(("%", "(%")))


def compare(one: DebugRecording, other: DebugRecording) -> Iterator[str]:
    """Yield the details of the first step that differs, for both recordings."""
    number = first_difference(one, other)
    if one.before.lines != other.before.lines:
        yield "the payloads differ before the first step"
    if not number:
        yield f"all {len(one.steps)} steps are the same"
        yield from faster(one, other, 1)
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
    yield from faster(one, other, number)


def faster(one: DebugRecording, other: DebugRecording, first: int) -> Iterator[str]:
    """Yield which recording is estimated to be faster, and which of its steps from `first` gains most."""
    quick, slow = sorted((one, other), key=lambda recording: expected(recording, len(recording.steps)))
    times = [expected(recording, len(recording.steps)) for recording in (quick, slow)]
    if not times[0] or times[0] == times[1]:
        return
    yield ""
    yield from wrapped(
        f"{quick.source} is expected to be {times[1] / times[0]:.2f} times as fast as {slow.source}", "", "  "
    )
    after = [expected(quick, number) for number in range(first - 1, len(quick.steps) + 1)]
    gains = [before / now if now else 1.0 for before, now in pairwise(after)]
    if max(gains, default=1.0) > 1:
        number = first + gains.index(max(gains))
        yield cut(f"of its steps, {number} gains most: {quick.steps[number - 1].short}")


def expected(recording: DebugRecording, count: int) -> float:
    """Return the estimated cycles of all loop nests after `count` steps."""
    return sum(max(nest.cycles(this_machine()).values()) for nest in recording.nests_after(count))
