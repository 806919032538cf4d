"""Text map of an arena: buffer offsets over the steps of the program."""

from string import ascii_letters

from autotune.core.arena_plan import BufferPlan

FREE, SHARED = ".", "+"


def draw_map(plan: BufferPlan, width: int, height: int) -> list[str]:
    """Draw an arena as lines of text, with bytes from bottom to top and steps from left to right.

    Each buffer is a letter, the first one ``a``; `FREE` marks unused cells and `SHARED` those that several buffers
    occupy, because a cell covers many bytes and steps.

    Example:
        >>> from autotune.core.arena_plan import Lifetime, place
        >>> draw_map(place([Lifetime(128, 0, 1), Lifetime(64, 2, 3)]), 4, 2)
        ['aa..', 'aabb']
    """
    steps = 1 + max((buffer.last for buffer in plan.buffers), default=0)
    cells = [[FREE] * width for _ in range(height)]
    for number, (buffer, offset) in enumerate(zip(plan.buffers, plan.offsets, strict=True)):
        name = ascii_letters[number % len(ascii_letters)]
        columns = span(buffer.first, buffer.last + 1, steps, width)
        for row in span(offset, offset + buffer.room, max(1, plan.peak_bytes), height):
            for column in columns:
                free = cells[row][column] in (FREE, name)
                cells[row][column] = name if free else SHARED
    return ["".join(row) for row in reversed(cells)]


def span(begin: int, end: int, whole: int, cells: int) -> range:
    """Return the cells that the interval ``[begin, end)`` of ``[0, whole)`` overlaps, at least one."""
    return range(begin * cells // whole, max(begin * cells // whole + 1, -(-end * cells // whole)))


def live_bytes(plan: BufferPlan) -> list[int]:
    """Return the number of live bytes at each step."""
    steps = 1 + max((buffer.last for buffer in plan.buffers), default=0)
    return [sum(b.room for b in plan.buffers if b.first <= step <= b.last) for step in range(steps)]
