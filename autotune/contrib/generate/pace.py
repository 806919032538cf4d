"""Token rate: a generation timed token by token, with and without the cache in one run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import mean

from autotune.worker.bench.measure import time_once


@dataclass(frozen=True)
class Pace:
    """Times of one generation, token by token.

    Attributes:
        cached: Whether keys and values were kept.
        tokens: Ids of the tokens that were generated, in order.
        seconds: Seconds to each token: from the token before it, to the first from the prompt.
    """

    cached: bool
    tokens: tuple[int, ...]
    seconds: tuple[float, ...]


def follow(found: Iterator[int], on_token: Callable[[int], None] = lambda token: None, *, cached: bool = True) -> Pace:
    """Time a generation to its end; `on_token` is called with every token, outside of what is timed."""
    tokens: list[int] = []
    seconds: list[float] = []

    def take(calls: int) -> None:
        del calls
        tokens.append(next(found))

    while True:
        try:
            seconds.append(time_once(take, 1))
        except StopIteration:
            return Pace(cached, tuple(tokens), tuple(seconds))
        on_token(tokens[-1])


def follow_both(
    start: Callable[[bool], Iterator[int]], on_token: Callable[[int], None] = lambda token: None
) -> tuple[Pace, ...]:
    """Time a generation with the cache, without it, and with it again, so that drift of the machine shows.

    Args:
        start: Compiles all that is needed, with the cache or without it, and gives the tokens to come.
        on_token: Called with every token of the first one.
    """
    order = (True, False, True)
    found = [start(cached) for cached in order]  # all is compiled before the first is timed
    first = follow(found[0], on_token)
    return (first, *(follow(one, cached=cached) for one, cached in zip(found[1:], order[1:], strict=True)))


def cache_gain(paces: tuple[Pace, ...], count: int) -> float:
    """How many times as long the first `count` tokens take without the cache."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    for pace in paces:
        taken[pace.cached].append(sum(pace.seconds[:count]))
    return mean(taken[False]) / mean(taken[True])
