"""Token rate: a generation timed token by token, with and without the cache in one run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import mean

from autotune.worker.bench.measure import time_once


@dataclass(frozen=True)
class Pace:
    """Latencies of one generation.

    Attributes:
        cached: Whether a key-value cache was used.
        tokens: Ids of the generated tokens, in order.
        seconds: Seconds to each token from its predecessor, or from the prompt to the first.
    """

    cached: bool
    tokens: tuple[int, ...]
    seconds: tuple[float, ...]


def follow(stream: Iterator[int], on_token: Callable[[int], None] = lambda token: None, *, cached: bool = True) -> Pace:
    """Time a generation to its end; calls of `on_token` with every token are not timed."""
    tokens: list[int] = []
    seconds: list[float] = []

    def take(calls: int) -> None:
        del calls
        tokens.append(next(stream))

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
        start: Function that compiles the model with or without the cache and returns an iterator over the tokens.
        on_token: Function called with every token of the first generation.
    """
    order = (True, False, True)
    streams = [start(cached) for cached in order]  # all are compiled before the first is timed
    first = follow(streams[0], on_token)
    return (first, *(follow(stream, cached=cached) for stream, cached in zip(streams[1:], order[1:], strict=True)))


def cache_gain(paces: tuple[Pace, ...], count: int) -> float:
    """Return the ratio of the times of the first `count` tokens without and with the cache."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for pace in paces:
        seconds[pace.cached].append(sum(pace.seconds[:count]))
    return mean(seconds[False]) / mean(seconds[True])
