"""What a request of some size is computed by, and which sizes are worth compiling: the cheapest by cost.

seconds at a few sizes --SizeCosts--> seconds at any --choose--> at most 8 sizes --plan_request--> calls of them
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import inf, log, prod

import numpy as np

from autotune.contrib.sizes.bounds import Sizes, name_of
from autotune.contrib.sizes.proof import Dim
from autotune.core.errors import PayloadError
from autotune.core.payload import Array

MOST_REQUESTS = 256  # that a choice is judged by
CALL_SECONDS = 1e-5  # what a call from Python costs beyond its program
MEASURED, MOST_MEASURED = 6, 16  # sizes of the widest dimension whose calls are measured; and of all of them
POINTS = 12  # sizes of a dimension that are looked at, by factors and by steps
VECTOR = 8
SHOWN = 4  # sizes of a dimension of which expected times are shown
LEAST_GAIN = 1e-3  # of the mean factor: less is not worth another size
LEAST_EXCHANGE = 1e-4  # and less no exchange
MOST_ROUNDS = 8


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


def open_dim(dims: Sequence[Dim]) -> Dim | None:
    """The dimension along which programs may be shortened: one that is padded, and not split."""
    return next((dim for dim in dims if dim.pad and not dim.split), None)


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
    *others, last = (SizeTimes.of(dims, size, each, requests) for size, each in zip(sizes, seconds, strict=True))
    return np.asarray(costs_with(dims, others, [last], requests)[0])


@dataclass(frozen=True, eq=False)
class SizeTimes:
    """What parts of requests take by one size.

    Attributes:
        width: Rows that a call computes along the dimension that is split; 0 where none is.
        seconds: Seconds of a call for each request, of shape ``(requests,)``; infinite where it does not hold it.
    """

    width: int
    seconds: Array

    @classmethod
    def of(cls, dims: Sequence[Dim], size: Sizes, seconds: float, requests: Sequence[Sizes]) -> "SizeTimes":
        """Those of a size, by its seconds of a call."""
        apart = split_dim(dims)
        held = [holds(dims, size, request) for request in requests]
        return cls(size[apart.name] if apart is not None else 0, np.where(held, seconds + CALL_SECONDS, inf))


def costs_with(
    dims: Sequence[Dim], sizes: Sequence[SizeTimes], others: Sequence[SizeTimes], requests: Sequence[Sizes]
) -> Array:
    """Seconds of each request by its plan, for each of several sizes that may join: ``(others, requests)``."""
    joining = np.array([each.seconds for each in others])
    apart = split_dim(dims)
    if apart is None:
        return np.asarray(np.minimum(joining, np.min([each.seconds for each in sizes], axis=0, initial=inf)))
    wants = np.array([request[apart.name] for request in requests])
    widths, number = np.array([each.width for each in others]), np.arange(len(others))
    best = np.zeros((int(wants.max()) + 1, *joining.shape))
    for done in range(1, len(best)):
        best[done] = joining + best[np.maximum(0, done - widths), number]
        if not apart.pad:
            best[done, widths > done] = inf
        for each in sizes:
            if each.width <= done or apart.pad:
                np.minimum(best[done], each.seconds + best[max(0, done - each.width)], out=best[done])
    return np.asarray(best[wants, :, np.arange(len(requests))].T)


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


def grid_of(dims: Sequence[Dim]) -> dict[str, list[int]]:
    """Sizes of each dimension to be measured: borders, and some between them of the widest.

    Where that is more than `MOST_MEASURED` points, of the narrowest dimensions the largest size alone.
    """
    widest = max(dims, key=lambda dim: dim.high / dim.low)
    counts = {dim.name: MEASURED if dim is widest else 2 for dim in dims}
    for dim in sorted(dims, key=lambda dim: dim.high / dim.low):
        if prod(counts.values()) > MOST_MEASURED:
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


def shorter_sizes(dims: Sequence[Dim], size: Sizes, grain: int) -> list[dict[str, int]]:
    """Smaller sizes that the program of a size serves as well; none where its grain is 0."""
    dim = open_dim(dims)
    if dim is None or not grain:
        return []
    return [{**size, dim.name: extent} for extent in range(grain, size[dim.name], grain)]


@dataclass(frozen=True)
class ChosenSizes:
    """Sizes to compile, and what requests are expected to cost by them.

    Attributes:
        sizes: The sizes, in order.
        cost: Mean logarithm of what a request takes, over a size of its own.
    """

    sizes: tuple[dict[str, int], ...]
    cost: float


def choose(dims: Sequence[Dim], costs: SizeCosts, most: int, served: Sequence[tuple[Sizes, float]] = ()) -> ChosenSizes:
    """Sizes to compile: at the least mean factor of what requests cost, over sizes of their own.

    Those that all requests need come first, then whichever lowers the factor most; then each is exchanged for
    another, or moved a little, as long as that lowers it.

    Args:
        dims: The open dimensions.
        costs: Seconds at any size.
        most: Most sizes.
        served: Sizes that programs of those which all requests need serve, themselves among them, and the seconds.

    Raises:
        PayloadError: Requests need more sizes.
    """
    chosen = needed(dims, most)
    requests = some_requests(dims)
    own = np.array([costs.of(request) + CALL_SECONDS for request in requests])
    known = {tuple(size.items()): seconds for size, seconds in served}

    @cache
    def times(point: tuple[tuple[str, int], ...]) -> SizeTimes:
        size = dict(point)
        return SizeTimes.of(dims, size, known.get(point) or costs.of(size), requests)

    def best_of(others: Sequence[Sizes], trials: Sequence[dict[str, int]]) -> tuple[float, dict[str, int]]:
        """Which size, if it joins others, gives the least mean factor; and that."""
        held, joining = [[times(tuple(each.items())) for each in some] for some in (others, trials)]
        held += [times(point) for point in known]
        factors = np.log(costs_with(dims, held, joining, requests) / own).mean(axis=1)
        number = int(np.argmin(factors))
        return float(factors[number]), trials[number]

    candidates, kept = [point for point in points_of(candidates_of(dims)) if point not in chosen], len(chosen)
    now, _ = best_of(chosen[:-1], chosen[-1:])
    while len(chosen) < most and candidates:
        least, best = best_of(chosen, candidates)
        if now - least < LEAST_GAIN:
            break
        chosen, now = [*chosen, best], least
    for _ in range(MOST_ROUNDS):
        before = now
        for position in range(kept, len(chosen)):
            others, near = [*chosen[:position], *chosen[position + 1 :]], neighbours(dims, chosen[position])
            now, best = best_of(others, [chosen[position], *near, *candidates])
            chosen = [*chosen[:position], best, *chosen[position + 1 :]]
        if before - now < LEAST_EXCHANGE:
            break
    return ChosenSizes(tuple(sorted(chosen, key=lambda size: tuple(size.values()))), now)


def neighbours(dims: Sequence[Dim], size: Sizes) -> list[dict[str, int]]:
    """Sizes a few steps away along a dimension that is padded or split."""
    found = []
    for dim in dims:
        steps = () if is_exact(dim) else (-4, -2, -1, 1, 2, 4)
        moved = {rounded(dim, size[dim.name] + step * step_at(size[dim.name])) for step in steps}
        found += [{**size, dim.name: each} for each in sorted(moved - {size[dim.name]})]
    return found


def candidates_of(dims: Sequence[Dim]) -> dict[str, list[int]]:
    """Sizes of each dimension that may be compiled at first: by factors and by steps, from border to border."""
    found = {}
    for dim in dims:
        steps = [*spaced(dim.low, dim.high, POINTS), *np.linspace(dim.low, dim.high, POINTS).round().astype(int)]
        exact = range(dim.low, dim.high + 1)
        found[dim.name] = list(exact) if is_exact(dim) else sorted({rounded(dim, int(each)) for each in steps})
    return found


def step_at(size: int) -> int:
    """How far sizes of about that are apart: whole vectors, where that is little."""
    return VECTOR if size >= 2 * VECTOR else 1


def rounded(dim: Dim, size: int) -> int:
    """The next size that a program computes as fast as any, within the bounds."""
    return min(max(-(-size // step_at(size)) * step_at(size), dim.low), dim.high)


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
    lists = {d.name: list(range(d.low, d.high + 1)) if is_exact(d) else [1 if d.split else d.high] for d in dims}
    return points_of(lists)


def some_requests(dims: Sequence[Dim]) -> list[dict[str, int]]:
    """Requests that a choice is judged by: all of them, or as many random ones and the borders.

    Half of the random ones are spread evenly, half by factors: short requests are few of all sizes, and many of those
    that people make.
    """
    if prod(dim.high - dim.low + 1 for dim in dims) <= MOST_REQUESTS:
        return points_of({dim.name: range(dim.low, dim.high + 1) for dim in dims})
    rng = np.random.default_rng(1)
    by_factors = [
        {dim.name: round(dim.low * (dim.high / dim.low) ** rng.random()) for dim in dims}
        for _ in range(MOST_REQUESTS // 2)
    ]
    return [*random_requests(dims, MOST_REQUESTS - len(by_factors), 0), *by_factors]


def random_requests(dims: Sequence[Dim], count: int, seed: int) -> Iterator[dict[str, int]]:
    """Random sizes within the bounds, and all corners."""
    rng = np.random.default_rng(seed)
    corners = points_of({dim.name: sorted({dim.low, dim.high}) for dim in dims})
    yield from corners
    for _ in range(count - len(corners)):
        yield {dim.name: int(rng.integers(dim.low, dim.high + 1)) for dim in dims}


def shown_requests(dims: Sequence[Dim]) -> list[dict[str, int]]:
    """Requests of which expected times are shown: all borders, and sizes between them by factors."""
    return points_of({dim.name: spaced(dim.low, dim.high, SHOWN) for dim in dims})


def describe(dims: Sequence[Dim]) -> list[str]:
    """What may be done along each dimension, a sentence each."""
    ways = {(True, True): "padded or split", (True, False): "padded", (False, True): "split", (False, False): "exact"}
    return [f"{dim.name} {dim.low} to {dim.high}: {ways[dim.pad, dim.split]}" for dim in dims]


def unserved(sizes: Sequence[Sizes], request: Sizes) -> PayloadError:
    """The error of a request that no compiled size holds."""
    names = "; ".join(map(name_of, sizes))
    return PayloadError(f"a request must fit a compiled size, {name_of(request)} fits none of {names}")
