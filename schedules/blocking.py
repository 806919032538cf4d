"""Blocking of contractions: static pieces of every dimension, and the loop nest of each piece.

Remainders are split off into pieces of their own, so that every tile has a static shape and vectorizes without masks.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

DIMS = "mnk"
VECTORS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Piece:
    """A contiguous range of one dimension that its tiles divide.

    Attributes:
        size: Trip count of the piece.
        cache: Step of the loop over cache tiles; equal to `size` if there is none.
        register: Step of the loop over register tiles; equal to `cache` if there is none.
    """

    size: int
    cache: int
    register: int

    @property
    def looped(self) -> bool:
        """Whether there is a loop over cache tiles, that is, one that runs more than once."""
        return self.cache < self.size


Region = dict[str, Piece]


def fitting_vectors(size: int, lanes: int) -> tuple[int, ...]:
    """Return the numbers of vectors of `lanes` elements that fit a size; one vector if none does."""
    return tuple(v for v in VECTORS if v * lanes <= size) or VECTORS[:1]


@dataclass(frozen=True)
class Loop:
    """One loop of a region's nest, over `dim` in steps of `step`; `level` is ``cache`` or ``register``."""

    dim: str
    step: int
    level: str


@functools.cache
def cut(  # noqa: PLR0917 - a size, and how it is cut
    size: int, cache: int, register: int, powers_of_two: bool = False, one: bool = False, masked: int = 0
) -> tuple[Piece, ...]:
    """Split a dimension into a main piece, the remainder of cache tiles, and the remainder of register tiles.

    If only a few rows would remain, they are merged with the last whole register tile and halved: two halves keep
    the FMA units busier than a tile of two rows (128 x 3072 x 768: 84.4 to 85.9 % of peak, 32 x 256 x 64: 86 to 90).

    Args:
        size: Trip count of the dimension.
        cache: Requested cache tile, rounded down to whole register tiles; 0 for no cache tiling.
        register: Requested register tile.
        powers_of_two: Whether the remainder of register tiles is split into powers of two: LLVM lowers vectors of any
            other length to scalar code, at a twentieth of the speed.
        one: Whether the remainder of register tiles stays one piece, starting at a tile boundary.
        masked: Length of a masked vector in elements; pieces may then have any length that takes a power of two of
            vectors. 0 without masks.

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
        whole -= register  # a tile of few rows leaves FMA units idle: merge it with the last whole one
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
    """Return the largest length up to a size that a power of two of vectors holds, the last of them masked."""
    vectors = -(-size // lanes)
    return size if vectors & (vectors - 1) == 0 else lanes << vectors.bit_length() - 1


def masked_ends(rest: int, lanes: int) -> tuple[Piece, ...]:
    """Return the pieces of a remainder of register tiles whose vectors may be masked."""
    parts = []
    while rest:
        parts.append(masked_length(rest, lanes))
        rest -= parts[-1]
    return tuple(Piece(part, part, part) for part in parts)


def leftovers(rest: int, register: int, powers_of_two: bool) -> tuple[Piece, ...]:
    """Return the pieces of a remainder of register tiles; two halves if it is longer than one tile."""
    if powers_of_two:
        parts = [1 << bit for bit in reversed(range(rest.bit_length())) if rest >> bit & 1]
    elif rest > register and rest % 2 == 0:
        return (Piece(rest, rest, rest // 2),)
    else:
        parts = [-(-rest // 2), rest // 2] if rest > register else [rest]
    return tuple(Piece(part, part, part) for part in parts if part)


def regions(pieces: dict[str, tuple[Piece, ...]]) -> Iterator[Region]:
    """Yield every combination of one piece per dimension."""
    for combination in product(*(pieces[dim] for dim in DIMS)):
        yield dict(zip(DIMS, combination, strict=True))


def nest_order(n: Piece, k: Piece) -> str:
    """Return the order of a nest without a cache loop over m: n and k if they have one, then the rest as m, n, k."""
    looped = ("n" if n.looped else "") + ("k" if k.looped else "")
    return looped + "".join(dim for dim in DIMS if dim not in looped)


def register_loops(region: Region, register_order: str) -> list[Loop]:
    """Return the loops over register tiles, outermost first, without those of a single iteration.

    Args:
        region: A piece for each of m, n and k.
        register_order: ``nm`` or ``mn``; the k loop is inside both.
    """
    return [Loop(d, region[d].register, "register") for d in register_order if region[d].register < region[d].cache]
