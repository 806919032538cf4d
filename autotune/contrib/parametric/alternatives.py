"""Boolean alternatives: knobs of which another value adds ops to a script or leaves some out, and no more."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from autotune.contrib.parametric.lines import ScriptLine
from autotune.core.space import Value

HANDLES = re.compile(r"%\w+")


@dataclass(frozen=True)
class Hunk:
    """A position where two scripts differ.

    Attributes:
        at: Position among the ops of the script that is shown.
        left_out: Number of its ops, from there on, that the other one lacks.
        added: Ops that the other one has there besides.
    """

    at: int
    left_out: int
    added: tuple[ScriptLine, ...]


@dataclass(frozen=True)
class BooleanAlternative:
    """A knob with two values, the one that is shown and another one.

    Attributes:
        knob: Name of the knob.
        values: Both values.
        hunks: Positions where the scripts of the two differ, in order.
    """

    knob: str
    values: tuple[Value, Value]
    hunks: tuple[Hunk, ...]

    @property
    def covered(self) -> set[int]:
        """Positions of the ops that the other value leaves out."""
        return {index for hunk in self.hunks for index in range(hunk.at, hunk.at + hunk.left_out)}


def hunks_between(shown: Sequence[ScriptLine], other: Sequence[ScriptLine]) -> tuple[Hunk, ...] | None:
    """Positions where two scripts differ; `None` where ops are replaced, or what is there is used elsewhere."""
    hunks = []
    for kind, begin, end, from_, to in SequenceMatcher(None, shown, other, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        gone, more = shown[begin:end], other[from_:to]
        rest = (*shown[:begin], *shown[end:], *other[:from_], *other[to:])
        if (gone and more) or not is_whole(gone or more) or defined(gone or more) & used(rest):
            return None
        hunks.append(Hunk(begin, len(gone), tuple(more)))
    return tuple(hunks)


def is_whole(lines: Sequence[ScriptLine]) -> bool:
    """Return whether lines hold whole ops: every bracket that is opened is closed."""
    depth = 0
    for letter in "".join(part for line in lines for part in line.parts):
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            return False
    return depth == 0


def defined(lines: Sequence[ScriptLine]) -> set[str]:
    """Handles that lines make."""
    return {handle for line in lines for handle in HANDLES.findall(head_of(line)[0])}


def used(lines: Sequence[ScriptLine]) -> set[str]:
    """Handles that lines read."""
    return {handle for line in lines for handle in HANDLES.findall(head_of(line)[1])}


def head_of(line: ScriptLine) -> tuple[str, str]:
    """What a line makes, and the rest of it."""
    text = "".join(line.parts)
    made, equals, rest = text.partition(" = transform.")
    return (made, rest) if equals else ("", text)


def with_alternatives(
    count: int, alternatives: Sequence[BooleanAlternative], taken: Sequence[bool]
) -> Iterator[int | ScriptLine]:
    """The script with some alternatives at their other value: positions of ops that stay, and ops that are added.

    Args:
        count: Number of ops of the script that is shown.
        alternatives: The alternatives.
        taken: Whether each is at its other value.
    """
    on = [alternative for alternative, other in zip(alternatives, taken, strict=True) if other]
    left_out = set().union(*(alternative.covered for alternative in on))
    for index in range(count + 1):
        for hunk in (hunk for alternative in on for hunk in alternative.hunks if hunk.at == index):
            yield from hunk.added
        if index < count and index not in left_out:
            yield index
