"""Candidate tile sizes."""

F32_BYTES = 4


def divisors(size: int, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Return the wanted tile sizes that divide a size; if none or only one does, all divisors up to the largest wanted.

    Example:
        >>> divisors(64, (4, 8, 16)), divisors(15, (4, 8, 16)), divisors(127, (4, 8))
        ((4, 8, 16), (1, 3, 5, 15), (1,))
    """
    plain = tuple(tile for tile in wanted if size % tile == 0)
    if len(plain) > 1 or plain == (size,):
        return plain
    return tuple(tile for tile in range(1, min(size, max(wanted)) + 1) if size % tile == 0)


def nearest(values: list[int], wanted: int) -> int:
    """Return the value nearest to the wanted one; of two equally near ones, the larger."""
    return min(values, key=lambda value: (abs(value - wanted), -value))
