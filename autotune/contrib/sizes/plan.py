"""What a request of some size is computed by, and which sizes are worth compiling: the cheapest by cost.

seconds at a few sizes --SizeCosts--> seconds at any --choose--> at most 8 sizes --plan_request--> calls of them
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, log, prod

import numpy as np

from autotune.contrib.sizes.bounds import Sizes, name_of
from autotune.contrib.sizes.proof import Dim
from autotune.core.errors import PayloadError
from autotune.core.payload import Array

MOST_REQUESTS = 256  # that a choice is judged by
CALL_SECONDS = 1e-5  # what a call from Python costs beyond its program
POINTS = 12  # sizes of a dimension that may be compiled
LEAST_GAIN = 1e-3  # of the mean factor: less is not worth another size


@dataclass(frozen=True)
class PlannedCall:
    """One call of a compiled size, for part of a request.

    Attributes:
        size: Number of the compiled size.
        start: First index of the part along the dimension that is split.
        count: How many of that dimension it is.
    """

    size: int
    start: int
    count: int


def split_dim(dims: Sequence[Dim]) -> Dim | None:
    """The dimension along which requests are computed in parts; `None` where none may be."""
    return next((dim for dim in dims if dim.split), None)


def holds(dims: Sequence[Dim], size: Sizes, request: Sizes) -> bool:
    """Tell whether a compiled size serves a request, of whatever size along the dimension that is split."""
    apart = split_dim(dims)
    return all(
        size[d.name] == request[d.name] or (d.pad and size[d.name] > request[d.name]) for d in dims if d is not apart
    )


def plan_request(
    dims: Sequence[Dim], sizes: Sequence[Sizes], seconds: Sequence[float], request: Sizes
) -> list[PlannedCall]:
    """The cheapest calls that compute a request; empty where no size holds it."""
    held = [number for number, size in enumerate(sizes) if holds(dims, size, request)]
    apart = split_dim(dims)
    if apart is None:
        return [PlannedCall(min(held, key=lambda number: seconds[number]), 0, 0)] if held else []
    want = request[apart.name]
    best: list[tuple[float, int, int]] = [(0.0, 0, 0)]  # seconds, size and count of the last part, by what is computed
    for done in range(1, want + 1):
        ways = [(inf, 0, 0)]
        for number in held:
            width = sizes[number][apart.name]
            if width <= done or apart.pad:
                count = min(width, done)
                ways.append((seconds[number] + CALL_SECONDS + best[done - count][0], number, count))
        best.append(min(ways))
    parts: list[PlannedCall] = []
    while want and best[want][0] < inf:
        _, number, count = best[want]
        want -= count
        parts.append(PlannedCall(number, want, count))
    return [] if want else parts[::-1]


def costs_of(dims: Sequence[Dim], sizes: Sequence[Sizes], seconds: Sequence[float], requests: Sequence[Sizes]) -> Array:
    """Seconds of each request by its plan, of shape ``(requests,)``; infinite where no size holds it."""
    times = [
        np.where([holds(dims, size, request) for request in requests], each + CALL_SECONDS, inf)
        for size, each in zip(sizes, seconds, strict=True)
    ]
    apart = split_dim(dims)
    if apart is None:
        return np.asarray(np.min(times, axis=0))
    wants = np.array([request[apart.name] for request in requests])
    best = [np.zeros(len(requests))]
    for done in range(1, int(wants.max()) + 1):
        ways = []
        for size, each in zip(sizes, times, strict=True):
            if (width := size[apart.name]) <= done or apart.pad:
                ways.append(each + best[max(0, done - width)])
        best.append(np.min(ways, axis=0) if ways else np.full(len(requests), inf))
    return np.asarray(np.array(best)[wants, np.arange(len(requests))])


class SizeCosts:
    """Seconds of a call at any size: between those that are known, along lines in the logarithms of both.

    Args:
        grid: Sizes of each dimension at which seconds are known, in order.
        seconds: Seconds at every point of that grid, the last dimension fastest.
    """

    def __init__(self, grid: Mapping[str, Sequence[int]], seconds: Sequence[float]) -> None:
        self._grid = {name: np.log(np.asarray(sizes, float)) for name, sizes in grid.items()}
        self._logs = np.log(np.asarray(seconds, float)).reshape([len(sizes) for sizes in grid.values()])

    def of(self, sizes: Sizes) -> float:
        """Seconds of a call at a size."""
        values = self._logs
        for name, known in self._grid.items():
            at = log(sizes[name])
            after = int(np.clip(np.searchsorted(known, at), 1, max(len(known) - 1, 1)))
            if len(known) == 1:  # nothing is known of it: taken to be proportional
                values = values[0] + at - known[0]
                continue
            share = (at - known[after - 1]) / (known[after] - known[after - 1])
            values = (1 - share) * values[after - 1] + share * values[after]
        return float(np.exp(values))


def grid_of(dims: Sequence[Dim], most: int) -> dict[str, list[int]]:
    """Sizes of each dimension to be measured: borders, and a middle of the widest.

    Where that is more than `most` points, of the narrowest dimensions the largest size alone.
    """
    widest = max(dims, key=lambda dim: dim.high / dim.low)
    counts = {dim.name: 3 if dim is widest else 2 for dim in dims}
    for dim in sorted(dims, key=lambda dim: dim.high / dim.low):
        if prod(counts.values()) > most:
            counts[dim.name] = 1
    return {dim.name: spaced(dim.low, dim.high, counts[dim.name]) for dim in dims}


def spaced(low: int, high: int, most: int) -> list[int]:
    """Sizes from one to another, each larger by about the same factor."""
    if most == 1:
        return [high]
    steps = [low * (high / low) ** (step / (most - 1)) for step in range(most)]
    return sorted({round(step) for step in steps})


def points_of(grid: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """All points of a grid, the last dimension fastest."""
    return [dict(zip(grid, point, strict=True)) for point in product(*grid.values())]


def choose(dims: Sequence[Dim], costs: SizeCosts, most: int) -> list[dict[str, int]]:
    """Sizes to compile, those that all requests need first: each lowers what requests cost over sizes of their own.

    Args:
        dims: The open dimensions.
        costs: Seconds at any size.
        most: Most sizes.

    Raises:
        PayloadError: Requests need more sizes.
    """
    chosen = needed(dims, most)
    requests = some_requests(dims)
    own = np.array([costs.of(request) + CALL_SECONDS for request in requests])
    seconds = [costs.of(size) for size in chosen]

    def factor(sizes: Sequence[Sizes], times: Sequence[float]) -> float:
        return float(np.log(costs_of(dims, sizes, times, requests) / own).mean())

    candidates = [point for point in points_of(candidates_of(dims)) if point not in chosen]
    now = factor(chosen, seconds)
    while len(chosen) < most and candidates:
        trials = [
            (factor([*chosen, each], [*seconds, costs.of(each)]), number) for number, each in enumerate(candidates)
        ]
        least, number = min(trials)
        if now - least < LEAST_GAIN:
            break
        best = candidates.pop(number)
        chosen, seconds, now = [*chosen, best], [*seconds, costs.of(best)], least
    return sorted(chosen, key=lambda size: tuple(size.values()))


def candidates_of(dims: Sequence[Dim]) -> dict[str, list[int]]:
    """Sizes of each dimension that may be compiled."""
    return {d.name: list(range(d.low, d.high + 1)) if is_exact(d) else spaced(d.low, d.high, POINTS) for d in dims}


def is_exact(dim: Dim) -> bool:
    """Tell whether each size of a dimension must be compiled."""
    return not dim.pad and not dim.split


def needed(dims: Sequence[Dim], most: int) -> list[dict[str, int]]:
    """The sizes without which some request is not served.

    Raises:
        PayloadError: There are more than may be compiled.
    """
    exact = [dim for dim in dims if is_exact(dim)]
    if (count := prod(dim.high - dim.low + 1 for dim in exact)) > most:
        names = " and ".join(dim.name for dim in exact)
        raise PayloadError(
            f"at most {most} sizes are compiled, {count} are needed: what is padded along {names} reaches the results; "
            f"give narrower bounds, or export the model with a mask as an input"
        )
    lists = {d.name: list(range(d.low, d.high + 1)) if is_exact(d) else [d.high if d.pad else 1] for d in dims}
    return points_of(lists)


def some_requests(dims: Sequence[Dim]) -> list[dict[str, int]]:
    """Requests that a choice is judged by: all of them, or as many random ones and the borders."""
    if prod(dim.high - dim.low + 1 for dim in dims) <= MOST_REQUESTS:
        return points_of({dim.name: range(dim.low, dim.high + 1) for dim in dims})
    return list(random_requests(dims, MOST_REQUESTS, 0))


def random_requests(dims: Sequence[Dim], count: int, seed: int) -> Iterator[dict[str, int]]:
    """Random sizes within the bounds, and all corners."""
    rng = np.random.default_rng(seed)
    corners = points_of({dim.name: sorted({dim.low, dim.high}) for dim in dims})
    yield from corners
    for _ in range(count - len(corners)):
        yield {dim.name: int(rng.integers(dim.low, dim.high + 1)) for dim in dims}


def describe(dims: Sequence[Dim]) -> list[str]:
    """What may be done along each dimension, a sentence each."""
    ways = {(True, True): "padded or split", (True, False): "padded", (False, True): "split", (False, False): "exact"}
    return [f"{dim.name} {dim.low} to {dim.high}: {ways[dim.pad, dim.split]}" for dim in dims]


def unserved(sizes: Sequence[Sizes], request: Sizes) -> PayloadError:
    """The error of a request that no compiled size holds."""
    names = "; ".join(map(name_of, sizes))
    return PayloadError(f"a request must fit a compiled size, {name_of(request)} fits none of {names}")
