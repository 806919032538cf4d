"""Line diff of two texts with mostly unique lines, as a patience diff: lines unique in both texts are anchors."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from autotune.contrib.debug.recording import Change

FEW = 400  # larger ranges between anchors are replaced as a whole


def changes_between(before: Sequence[str], after: Sequence[str], ops: Sequence[str]) -> tuple[Change, ...]:
    """Return the changes from one text to another.

    Args:
        before: Lines before.
        after: Lines after.
        ops: Name of the operation that begins at each line of `after`.
    """
    return tuple(
        Change(first, end - first, tuple(after[new:new_end]), tuple(ops[new:new_end]))
        for first, end, new, new_end in blocks(before, after)
    )


def blocks(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ranges of lines that differ: first and end before, first and end after."""
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    at, at_new = 0, 0
    for number, number_new in [*anchors(old, new), (len(old), len(new))]:
        yield from (
            (a + head, b + head, c + head, d + head) for a, b, c, d in between(old, new, at, number, at_new, number_new)
        )
        at, at_new = number + 1, number_new + 1


def anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of line numbers of unique common lines: a longest increasing subsequence, by patience sorting."""
    once = {line for line, count in Counter(old).items() if count == 1}
    once &= {line for line, count in Counter(new).items() if count == 1}
    numbers = {line: number for number, line in enumerate(new) if line in once}
    pairs = [(number, numbers[line]) for number, line in enumerate(old) if line in once]
    ends: list[int] = []  # smallest last element of an increasing subsequence of each length
    tops: list[int] = []
    links: list[int] = []
    for index, (_, number) in enumerate(pairs):
        length = bisect_left(ends, number)
        links.append(tops[length - 1] if length else -1)
        ends[length : length + 1], tops[length : length + 1] = [number], [index]
    sequence, index = [], tops[-1] if tops else -1
    while index >= 0:
        sequence.append(pairs[index])
        index = links[index]
    return sequence[::-1]


def between(
    old: Sequence[str], new: Sequence[str], first: int, end: int, first_new: int, end_new: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ranges that differ between two anchors."""
    if end - first > FEW or end_new - first_new > FEW or first == end or first_new == end_new:
        if first < end or first_new < end_new:
            yield first, end, first_new, end_new
        return
    matcher = SequenceMatcher(None, old[first:end], new[first_new:end_new], autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            yield a + first, b + first, c + first_new, d + first_new
