"""Planning of requests over compiled sizes, and choice of the sizes that are worth compiling.

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

MOST_REQUESTS = 256  # over which a choice of sizes is evaluated
CALL_SECONDS = 1e-5  # overhead of a call from Python
MEASURED, MOST_MEASURED = 6, 16  # measured sizes of the widest dimension, and of all dimensions together
POINTS = 12  # candidate sizes of a dimension in geometric, and in linear spacing
VECTOR = 8
SHOWN = 4  # sizes of a dimension whose expected times are shown
LEAST_GAIN = 1e-3  # least reduction of the mean log cost that justifies another size
LEAST_EXCHANGE = 1e-4  # least reduction by a round of exchanges that justifies another round
MOST_ROUNDS = 8


@dataclass(frozen=True)
class PlannedCall:
    """One call of a compiled size, for part of a request.

    Attributes:
        size: Index of the compiled size.
        start: First index of the part along the split dimension.
        count: Length of the part along the split dimension.
    """

    size: int
    start: int
    count: int


def split_dim(dims: Sequence[Dim]) -> Dim | None:
    """Return the dimension along which requests may be computed in parts; `None` if there is none."""
    return next((dim for dim in dims if dim.split), None)


def open_dim(dims: Sequence[Dim]) -> Dim | None:
    """Return the dimension along which loops may end early: one that is padded and not split."""
    return next((dim for dim in dims if dim.pad and not dim.split), None)


def holds(dims: Sequence[Dim], size: Sizes, request: Sizes) -> bool:
    """Return whether a compiled size serves a request, regardless of the size along the split dimension."""
    cut_dim = split_dim(dims)
    return all(
        size[d.name] == request[d.name] or (d.pad and size[d.name] > request[d.name]) for d in dims if d is not cut_dim
    )


def plan_request(
    dims: Sequence[Dim], sizes: Sequence[Sizes], seconds: Sequence[float], request: Sizes
) -> list[PlannedCall]:
    """Return the cheapest calls that compute a request; empty if no size serves it."""
    usable = [number for number, size in enumerate(sizes) if holds(dims, size, request)]
    split = split_dim(dims)
    if split is None:
        return [PlannedCall(min(usable, key=lambda number: seconds[number]), 0, 0)] if usable else []
    remaining = request[split.name]
    # Dynamic program over the length computed so far: seconds, and size and count of the last part.
    best: list[tuple[float, int, int]] = [(0.0, 0, 0)]
    for done in range(1, remaining + 1):
        options = [(inf, 0, 0)]
        for number in usable:
            width = sizes[number][split.name]
            if width <= done or split.pad:
                count = min(width, done)
                options.append((seconds[number] + CALL_SECONDS + best[done - count][0], number, count))
        best.append(min(options))
    parts: list[PlannedCall] = []
    while remaining and best[remaining][0] < inf:
        _, number, count = best[remaining]
        remaining -= count
        parts.append(PlannedCall(number, remaining, count))
    return [] if remaining else parts[::-1]


def costs_of(dims: Sequence[Dim], sizes: Sequence[Sizes], seconds: Sequence[float], requests: Sequence[Sizes]) -> Array:
    """Return the seconds of each request's cheapest plan, of shape ``(requests,)``; infinite if no size serves it."""
    *other_times, last = (SizeTimes.of(dims, size, each, requests) for size, each in zip(sizes, seconds, strict=True))
    return np.asarray(costs_with(dims, other_times, [last], requests)[0])


@dataclass(frozen=True, eq=False)
class SizeTimes:
    """Seconds of the calls of one size for each request.

    Attributes:
        width: Rows that a call computes along the split dimension; 0 without a split dimension.
        seconds: Seconds of a call for each request, of shape ``(requests,)``; infinite if the size does not serve it.
    """

    width: int
    seconds: Array

    @classmethod
    def of(cls, dims: Sequence[Dim], size: Sizes, seconds: float, requests: Sequence[Sizes]) -> "SizeTimes":
        """Return the seconds of a size, given those of one call."""
        split = split_dim(dims)
        serves = [holds(dims, size, request) for request in requests]
        return cls(size[split.name] if split is not None else 0, np.where(serves, seconds + CALL_SECONDS, inf))


def costs_with(
    dims: Sequence[Dim], sizes: Sequence[SizeTimes], others: Sequence[SizeTimes], requests: Sequence[Sizes]
) -> Array:
    """Return the seconds of each request with each of several additional sizes, of shape ``(others, requests)``.

    The dynamic program of `plan_request`, vectorized over requests and additional sizes.
    """
    call_seconds = np.array([each.seconds for each in others])
    split = split_dim(dims)
    if split is None:
        return np.asarray(np.minimum(call_seconds, np.min([each.seconds for each in sizes], axis=0, initial=inf)))
    wants = np.array([request[split.name] for request in requests])
    widths, number = np.array([each.width for each in others]), np.arange(len(others))
    best = np.zeros((int(wants.max()) + 1, *call_seconds.shape))
    for done in range(1, len(best)):
        best[done] = call_seconds + best[np.maximum(0, done - widths), number]
        if not split.pad:
            best[done, widths > done] = inf
        for each in sizes:
            if each.width <= done or split.pad:
                np.minimum(best[done], each.seconds + best[max(0, done - each.width)], out=best[done])
    return np.asarray(best[wants, :, np.arange(len(requests))].T)


class SizeCosts:
    """Interpolated seconds of a call at any size: piecewise linear in the logarithms of size and time.

    Args:
        grid: Sizes of each dimension with known seconds, in order.
        seconds: Seconds at every point of that grid, the last dimension fastest.
    """

    def __init__(self, grid: Mapping[str, Sequence[int]], seconds: Sequence[float]) -> None:
        self._grid = {name: np.log(np.asarray(sizes, float)) for name, sizes in grid.items()}
        self._logs = np.log(np.asarray(seconds, float)).reshape([len(sizes) for sizes in grid.values()])

    def of(self, sizes: Sizes) -> float:
        """Return the seconds of a call at a size."""
        values = self._logs
        for name, log_sizes in self._grid.items():
            at = log(sizes[name])
            after = int(np.clip(np.searchsorted(log_sizes, at), 1, max(len(log_sizes) - 1, 1)))
            if len(log_sizes) == 1:  # a single point: assume proportionality
                values = values[0] + at - log_sizes[0]
                continue
            share = (at - log_sizes[after - 1]) / (log_sizes[after] - log_sizes[after - 1])
            values = (1 - share) * values[after - 1] + share * values[after]
        return float(np.exp(values))


def grid_of(dims: Sequence[Dim]) -> dict[str, list[int]]:
    """Return the sizes of each dimension to be measured: its borders, and intermediate sizes of the widest one.

    If these are more than `MOST_MEASURED` points, the narrowest dimensions are measured at their largest size only.
    """
    widest = max(dims, key=lambda dim: dim.high / dim.low)
    counts = {dim.name: MEASURED if dim is widest else 2 for dim in dims}
    for dim in sorted(dims, key=lambda dim: dim.high / dim.low):
        if prod(counts.values()) > MOST_MEASURED:
            counts[dim.name] = 1
    return {dim.name: spaced(dim.low, dim.high, counts[dim.name]) for dim in dims}


def spaced(low: int, high: int, most: int) -> list[int]:
    """Return at most `most` geometrically spaced sizes."""
    if most == 1:
        return [high]
    steps = [low * (high / low) ** (step / (most - 1)) for step in range(most)]
    return sorted({round(step) for step in steps})


def points_of(grid: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Return all points of a grid, the last dimension fastest."""
    return [dict(zip(grid, point, strict=True)) for point in product(*grid.values())]


def shorter_sizes(dims: Sequence[Dim], size: Sizes, grain: int) -> list[dict[str, int]]:
    """Return the smaller sizes that a size's program serves as well; none if its grain is 0."""
    dim = open_dim(dims)
    if dim is None or not grain:
        return []
    return [{**size, dim.name: extent} for extent in range(grain, size[dim.name], grain)]


@dataclass(frozen=True)
class ChosenSizes:
    """Sizes to compile, with their expected cost.

    Attributes:
        sizes: The sizes, in order.
        cost: Mean logarithm of the time of a request relative to a size compiled for it alone.
    """

    sizes: tuple[dict[str, int], ...]
    cost: float


def choose(dims: Sequence[Dim], costs: SizeCosts, most: int, served: Sequence[tuple[Sizes, float]] = ()) -> ChosenSizes:
    """Choose the sizes to compile that minimize the mean log cost of requests, relative to sizes compiled for each.

    A greedy search: start with the sizes that all requests need, add the size that lowers the cost most, then exchange
    or shift single sizes while that lowers the cost.

    Args:
        dims: The open dimensions.
        costs: Seconds of a call at any size.
        most: Maximum number of sizes.
        served: Sizes served by programs of the sizes that all requests need, including those, with their seconds.

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
        """Return the least mean log cost with one of the trial sizes added to others, and that size."""
        fixed_times, joining = [[times(tuple(each.items())) for each in some] for some in (others, trials)]
        fixed_times += [times(point) for point in known]
        factors = np.log(costs_with(dims, fixed_times, joining, requests) / own).mean(axis=1)
        number = int(np.argmin(factors))
        return float(factors[number]), trials[number]

    candidates, fixed = [point for point in points_of(candidates_of(dims)) if point not in chosen], len(chosen)
    now, _ = best_of(chosen[:-1], chosen[-1:])
    while len(chosen) < most and candidates:
        least, best = best_of(chosen, candidates)
        if now - least < LEAST_GAIN:
            break
        chosen, now = [*chosen, best], least
    for _ in range(MOST_ROUNDS):
        before = now
        for position in range(fixed, len(chosen)):
            others, near = [*chosen[:position], *chosen[position + 1 :]], neighbours(dims, chosen[position])
            now, best = best_of(others, [chosen[position], *near, *candidates])
            chosen = [*chosen[:position], best, *chosen[position + 1 :]]
        if before - now < LEAST_EXCHANGE:
            break
    return ChosenSizes(tuple(sorted(chosen, key=lambda size: tuple(size.values()))), now)


def neighbours(dims: Sequence[Dim], size: Sizes) -> list[dict[str, int]]:
    """Return sizes a few steps away along padded or split dimensions."""
    sizes = []
    for dim in dims:
        steps = () if is_exact(dim) else (-4, -2, -1, 1, 2, 4)
        moved = {rounded(dim, size[dim.name] + step * step_at(size[dim.name])) for step in steps}
        sizes += [{**size, dim.name: each} for each in sorted(moved - {size[dim.name]})]
    return sizes


def candidates_of(dims: Sequence[Dim]) -> dict[str, list[int]]:
    """Return the candidate sizes of each dimension, in geometric and linear spacing from border to border."""
    candidates = {}
    for dim in dims:
        steps = [*spaced(dim.low, dim.high, POINTS), *np.linspace(dim.low, dim.high, POINTS).round().astype(int)]
        exact = range(dim.low, dim.high + 1)
        candidates[dim.name] = list(exact) if is_exact(dim) else sorted({rounded(dim, int(each)) for each in steps})
    return candidates


def step_at(size: int) -> int:
    """Return the spacing of candidate sizes: whole vectors, if that is small compared to the size."""
    return VECTOR if size >= 2 * VECTOR else 1


def rounded(dim: Dim, size: int) -> int:
    """Round a size up to a multiple of its spacing, within the bounds."""
    return min(max(-(-size // step_at(size)) * step_at(size), dim.low), dim.high)


def is_exact(dim: Dim) -> bool:
    """Return whether each size of a dimension must be compiled."""
    return not dim.pad and not dim.split


def needed(dims: Sequence[Dim], most: int) -> list[dict[str, int]]:
    """Return the sizes that any choice must include to serve all requests.

    Raises:
        PayloadError: There are more than `most`.
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
    """Return the requests that a choice is evaluated over: all, or random ones and the borders.

    Half of the random ones are uniform, half log-uniform: short requests are few among all sizes, but frequent in use.
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
    """Yield random sizes within the bounds, and all corners."""
    rng = np.random.default_rng(seed)
    corners = points_of({dim.name: sorted({dim.low, dim.high}) for dim in dims})
    yield from corners
    for _ in range(count - len(corners)):
        yield {dim.name: int(rng.integers(dim.low, dim.high + 1)) for dim in dims}


def shown_requests(dims: Sequence[Dim]) -> list[dict[str, int]]:
    """Return the requests whose expected times are shown: all borders, and geometrically spaced sizes between them."""
    return points_of({dim.name: spaced(dim.low, dim.high, SHOWN) for dim in dims})


def describe(dims: Sequence[Dim]) -> list[str]:
    """Return one sentence per dimension on whether it is padded, split or exact."""
    descriptions = {
        (True, True): "padded or split",
        (True, False): "padded",
        (False, True): "split",
        (False, False): "exact",
    }
    return [f"{dim.name} {dim.low} to {dim.high}: {descriptions[dim.pad, dim.split]}" for dim in dims]


def unserved(sizes: Sequence[Sizes], request: Sizes) -> PayloadError:
    """Return the error for a request that no compiled size serves."""
    names = "; ".join(map(name_of, sizes))
    return PayloadError(f"a request must fit a compiled size, {name_of(request)} fits none of {names}")
