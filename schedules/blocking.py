"""How a contraction is cut into blocks: static pieces of every dimension, and the loop nest of each piece.

Sizes that do not divide are split off into pieces of their own, so that every tile has a static shape and
vectorizes without masks.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

DIMS = "mnk"
VECTORS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Piece:
    """A stretch of one dimension that its tiles divide.

    Attributes:
        size: Length of the piece.
        cache: Step of the loop over cache tiles; equal to `size` if there is none.
        register: Step of the loop over register tiles; equal to `cache` if there is none.
    """

    size: int
    cache: int
    register: int

    @property
    def looped(self) -> bool:
        """It has a loop over cache tiles: one that runs more than once."""
        return self.cache < self.size


Region = dict[str, Piece]


def fitting_vectors(size: int, lanes: int) -> tuple[int, ...]:
    """Numbers of vectors of so many lanes that fit a size; one where none does."""
    return tuple(v for v in VECTORS if v * lanes <= size) or VECTORS[:1]


@dataclass(frozen=True)
class Loop:
    """One loop of a region's nest: over dimension `dim`, in steps of `step`; `level` is ``cache`` or ``register``."""

    dim: str
    step: int
    level: str


@functools.cache
def cut(  # noqa: PLR0917 - a size, and how it is cut
    size: int, cache: int, register: int, powers_of_two: bool = False, one: bool = False, masked: int = 0
) -> tuple[Piece, ...]:
    """Cut a dimension into a main piece, what cache tiles leave over, and what register tiles leave over.

    Where only a few rows would be left over, they share with the last whole register tile: two halves keep the FMA
    units busier than one tile of two rows (128 x 3072 x 768: 84.4 to 85.9 % of the roof, 32 x 256 x 64: 86 to 90).

    Args:
        size: Length of the dimension.
        cache: Wanted cache tile, rounded down to whole register tiles; 0 means all of it.
        register: Wanted register tile.
        powers_of_two: Cut what register tiles leave over into powers of two: LLVM turns vectors of any other
            length into scalar code, at a twentieth of the speed.
        one: Leave what register tiles leave over in one piece, which begins where a tile would.
        masked: Elements of a vector whose ends are masked, so that a piece may be of any length whose vectors are a
            power of two in number; 0 where that is not so.

    Example:
        >>> [piece.size for piece in cut(512, 120, 6)]
        [480, 24, 8]
        >>> [piece.size for piece in cut(509, 0, 16, powers_of_two=True)]
        [496, 8, 4, 1]
        >>> [piece.size for piece in cut(509, 0, 16, masked=16)]
        [496, 13]
    """
    if masked:
        register = min(register, masked_length(size, masked))
    elif powers_of_two:
        register = min(register, 1 << size.bit_length() - 1)
    register = min(register, size)
    whole = size // register * register
    if not (powers_of_two or one or masked) and 0 < size - whole < register // 2 and whole > register:
        whole -= register  # a tile of few rows leaves FMA units idle: share with the last whole one
    cache = max(register, min(cache or whole, whole) // register * register)
    main = whole // cache * cache
    pieces = [Piece(main, cache, register)]
    if main < whole:
        pieces.append(Piece(whole - main, whole - main, register))
    rest = size - whole
    if one:
        return (*pieces, Piece(rest, rest, rest)) if rest else tuple(pieces)
    return tuple(pieces) + (masked_ends(rest, masked) if masked else leftovers(rest, register, powers_of_two))


def masked_length(size: int, lanes: int) -> int:
    """The most of a size that a power of two of vectors holds, the last of them masked."""
    vectors = -(-size // lanes)
    return size if vectors & (vectors - 1) == 0 else lanes << vectors.bit_length() - 1


def masked_ends(rest: int, lanes: int) -> tuple[Piece, ...]:
    """Pieces of what register tiles leave over, where vectors may be masked."""
    parts = []
    while rest:
        parts.append(masked_length(rest, lanes))
        rest -= parts[-1]
    return tuple(Piece(part, part, part) for part in parts)


def leftovers(rest: int, register: int, powers_of_two: bool) -> tuple[Piece, ...]:
    """Pieces of what register tiles leave over; two halves where that is more than one of them."""
    if powers_of_two:
        parts = [1 << bit for bit in reversed(range(rest.bit_length())) if rest >> bit & 1]
    elif rest > register and rest % 2 == 0:
        return (Piece(rest, rest, rest // 2),)
    else:
        parts = [-(-rest // 2), rest // 2] if rest > register else [rest]
    return tuple(Piece(part, part, part) for part in parts if part)


def regions(pieces: dict[str, tuple[Piece, ...]]) -> Iterator[Region]:
    """Every combination of one piece per dimension."""
    for chosen in product(*(pieces[dim] for dim in DIMS)):
        yield dict(zip(DIMS, chosen, strict=True))


def nest_order(n: Piece, k: Piece) -> str:
    """The order of a nest without a cache loop over m: n and k where they have one, then the others as m, n, k."""
    looped = ("n" if n.looped else "") + ("k" if k.looped else "")
    return looped + "".join(dim for dim in DIMS if dim not in looped)


def register_loops(region: Region, register_order: str) -> list[Loop]:
    """Loops over register tiles, outermost first; one that would run once is left out.

    Args:
        region: A piece for each of m, n and k.
        register_order: ``nm`` or ``mn``; the k loop is inside both.
    """
    return [Loop(d, region[d].register, "register") for d in register_order if region[d].register < region[d].cache]
