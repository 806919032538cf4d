"""Sizes of tiles that families choose from."""

F32_BYTES = 4


def divisors(size: int, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Tiles of a size: those wanted that divide it, and the largest divisors that are no larger than any of them.

    Example:
        >>> divisors(64, (4, 8, 16)), divisors(15, (4, 8, 16)), divisors(127, (4, 8))
        ((4, 8, 16), (1, 3, 5, 15), (1,))
    """
    plain = tuple(tile for tile in wanted if size % tile == 0)
    if len(plain) > 1 or plain == (size,):
        return plain
    return tuple(tile for tile in range(1, min(size, max(wanted)) + 1) if size % tile == 0)


def nearest(values: list[int], wanted: int) -> int:
    """The value nearest to one that is wanted, of two the larger."""
    return min(values, key=lambda value: (abs(value - wanted), -value))
