"""Boolean alternatives: knobs of which another value only adds or removes operations of a script."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from autotune.contrib.parametric.lines import ScriptLine
from autotune.core.space import Value

HANDLES = re.compile(r"%\w+")


@dataclass(frozen=True)
class Hunk:
    """Difference between two scripts at one position.

    Attributes:
        at: Position among the operations of the shown script.
        left_out: Number of operations from there on that the other script lacks.
        added: Operations that the other script has there.
    """

    at: int
    left_out: int
    added: tuple[ScriptLine, ...]


@dataclass(frozen=True)
class BooleanAlternative:
    """Knob with two values, the shown one and another.

    Attributes:
        knob: Name of the knob.
        values: Shown value and other value.
        hunks: Differences between the scripts of the two values, in order.
    """

    knob: str
    values: tuple[Value, Value]
    hunks: tuple[Hunk, ...]

    @property
    def covered(self) -> set[int]:
        """Positions of the operations that the other value removes."""
        return {index for hunk in self.hunks for index in range(hunk.at, hunk.at + hunk.left_out)}


def hunks_between(shown: Sequence[ScriptLine], other: Sequence[ScriptLine]) -> tuple[Hunk, ...] | None:
    """Return the differences between two scripts as hunks.

    Return `None` if an operation is replaced, a hunk splits an operation, or a handle defined in it is used elsewhere.
    """
    hunks = []
    for edit, begin, end, from_, to in SequenceMatcher(None, shown, other, autojunk=False).get_opcodes():
        if edit == "equal":
            continue
        removed, added = shown[begin:end], other[from_:to]
        rest = (*shown[:begin], *shown[end:], *other[:from_], *other[to:])
        if (removed and added) or not is_whole(removed or added) or defined(removed or added) & used(rest):
            return None
        hunks.append(Hunk(begin, len(removed), tuple(added)))
    return tuple(hunks)


def is_whole(lines: Sequence[ScriptLine]) -> bool:
    """Return whether lines are whole operations, with balanced braces."""
    depth = 0
    for letter in "".join(part for line in lines for part in line.parts):
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            return False
    return depth == 0


def defined(lines: Sequence[ScriptLine]) -> set[str]:
    """Return the handles that lines define."""
    return {handle for line in lines for handle in HANDLES.findall(head_of(line)[0])}


def used(lines: Sequence[ScriptLine]) -> set[str]:
    """Return the handles that lines use."""
    return {handle for line in lines for handle in HANDLES.findall(head_of(line)[1])}


def head_of(line: ScriptLine) -> tuple[str, str]:
    """Split a line into its results and the rest."""
    text = "".join(line.parts)
    results, equals, rest = text.partition(" = transform.")
    return (results, rest) if equals else ("", text)


def with_alternatives(
    count: int, alternatives: Sequence[BooleanAlternative], selected: Sequence[bool]
) -> Iterator[int | ScriptLine]:
    """Yield the script with some alternatives at their other value.

    Operations of the shown script are yielded as positions, added ones as lines.

    Args:
        count: Number of operations of the shown script.
        alternatives: All alternatives.
        selected: Whether each alternative has its other value.
    """
    on = [alternative for alternative, other in zip(alternatives, selected, strict=True) if other]
    left_out = set().union(*(alternative.covered for alternative in on))
    for index in range(count + 1):
        for hunk in (hunk for alternative in on for hunk in alternative.hunks if hunk.at == index):
            yield from hunk.added
        if index < count and index not in left_out:
            yield index
