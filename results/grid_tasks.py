"""Tasks of the grid, drawn from a seed by rules: no size of any task is chosen by hand.

A rule per kind draws sizes, mostly uniform in their logarithm, and is asked again until what it draws is neither so
small that nothing but calls is measured nor so large that measuring takes more than a second or two. Each kind draws
from a stream of its own: tasks of a kind stay as they are when other kinds are added. All is float32.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import exp, log, prod
from random import Random
from typing import Any

LEAST_FLOPS, MOST_FLOPS = 1e4, 2e8
MOST_ELEMENTS = 3e6  # of inputs, weights and outputs together
DRAWS = 1000  # that a rule is asked for one task
Sizes = dict[str, Any]  # whole numbers, names, or lists of either, by parameter


@dataclass(frozen=True)
class GridTask:
    """One task.

    Attributes:
        kind: Rule that it is drawn by.
        sizes: Parameters of the rule.
    """

    kind: str
    sizes: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Kind and parameters in words, which no other task shares."""
        return " ".join((self.kind, *(f"{key}={written(value)}" for key, value in self.sizes.items())))


@dataclass(frozen=True)
class Drawn:
    """What a rule drew.

    Attributes:
        sizes: Parameters of a task.
        flops: Operations of a call, roughly.
        elements: Numbers that a call reads and writes, roughly.
    """

    sizes: Sizes
    flops: float
    elements: float

    @property
    def is_of_a_size(self) -> bool:
        """Whether a call takes neither too little nor too much."""
        return LEAST_FLOPS <= self.flops <= MOST_FLOPS and self.elements <= MOST_ELEMENTS


def written(value: Any) -> str:  # noqa: ANN401 - a number, a name, or a list of either
    """A parameter as names have it."""
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def grid(seed: int) -> Iterator[GridTask]:
    """All tasks of a seed, kind by kind, no two the same."""
    for kind, (count, rule) in RULES.items():
        rng, seen = Random(f"{seed} {kind}"), set[str]()
        while len(seen) < count:
            task = GridTask(kind, draw(rng, rule))
            if task.name not in seen:
                seen.add(task.name)
                yield task


def draw(rng: Random, rule: Callable[[Random], Drawn]) -> Sizes:
    """Sizes by a rule that are neither too small nor too large.

    Raises:
        ValueError: The rule draws nothing of that kind.
    """
    for _ in range(DRAWS):
        if (drawn := rule(rng)).is_of_a_size:
            return drawn.sizes
    raise ValueError(f"a rule must draw tasks of {LEAST_FLOPS:g} to {MOST_FLOPS:g} flops, {rule.__name__} draws none")


def size(rng: Random, least: int, most: int) -> int:
    """A size, uniform in its logarithm; a third of those above 32 are multiples of 32, as people choose them."""
    drawn = round(exp(rng.uniform(log(least), log(most))))
    return drawn - drawn % 32 if drawn > 32 and rng.random() < 1 / 3 else drawn


def dimension(rng: Random) -> int:
    """A dimension of a product: now and then one, or a few."""
    return rng.choice((1, size(rng, 2, 16), *([size(rng, 17, 2000)] * 6)))


def shape(rng: Random, ranks: tuple[int, ...] = (1, 2, 3, 4)) -> list[int]:
    """A shape of up to some millions of elements, that are spread over its dimensions by chance."""
    rank = rng.choice(ranks)
    total = rng.uniform(log(2e4), log(MOST_ELEMENTS / 2))
    shares = [rng.uniform(0.3, 1) for _ in range(rank)]
    return [max(2, size(rng, 2, max(2, round(exp(total * share / sum(shares)))))) for share in shares]


def flag(rng: Random) -> int:
    """Yes or no."""
    return rng.randrange(2)


def matmul(rng: Random) -> Drawn:
    """Products of two matrices, of which the second may be held."""
    m, n, k = (dimension(rng) for _ in "mnk")
    sizes = {"m": m, "n": n, "k": k, "ta": flag(rng), "tb": flag(rng), "held": flag(rng)}
    return Drawn(sizes, 2 * m * n * k, m * k + k * n + m * n)


def batch_matmul(rng: Random) -> Drawn:
    """Products of matrices in pairs."""
    b, m, n, k = size(rng, 2, 48), dimension(rng), dimension(rng), dimension(rng)
    return Drawn(
        {"b": b, "m": m, "n": n, "k": k, "ta": flag(rng), "tb": flag(rng)},
        2 * b * m * n * k,
        b * (m * k + k * n + m * n),
    )


def linear(rng: Random) -> Drawn:
    """A layer with a held weight and a bias, and what is applied to it."""
    m, n, k = dimension(rng), size(rng, 10, 2000), size(rng, 10, 2000)
    after = rng.choice(("nothing", "relu", "gelu", "silu", "sigmoid", "residual"))
    return Drawn({"m": m, "n": n, "k": k, "after": after}, 2 * m * n * k, m * k + k * n + m * n)


def attention(rng: Random) -> Drawn:
    """Attention: queries of several heads, which share keys and values or do not; causal where all see all."""
    groups, shared = size(rng, 1, 8), rng.choice((1, 1, 1, 2, 3, 4))
    keys, d = size(rng, 8, 1000), size(rng, 8, 160)
    rows = rng.choice((1, keys, keys, size(rng, 2, 300)))
    heads = groups * shared
    sizes = {"heads": heads, "groups": groups, "rows": rows, "keys": keys, "d": d}
    sizes["causal"] = int(rows == keys and flag(rng))
    return Drawn(sizes, 4 * heads * rows * keys * d, 2 * heads * rows * d + 2 * groups * keys * d)


def rows(rng: Random) -> Drawn:
    """Softmax over any axis."""
    dims = shape(rng)
    return Drawn({"shape": dims, "axis": rng.randrange(len(dims))}, 5 * prod(dims), 2 * prod(dims))


def norm(rng: Random) -> Drawn:
    """Normalisations: of the last axes, of channels as inference has them, of groups of channels, of each image."""
    how = rng.choice(("layer", "layer", "rms", "batch", "group", "instance"))
    dims = shape(rng, (2, 3) if how in ("layer", "rms") else (3, 4))
    sizes: Sizes = {"how": how, "shape": dims}
    if how == "group":
        sizes["groups"] = rng.choice([each for each in range(1, dims[1] + 1) if dims[1] % each == 0])
    return Drawn(sizes, 6 * prod(dims), 2 * prod(dims))


def elements(rng: Random) -> Drawn:
    """Chains of element-wise ops, some of them with another array: of the same shape, a row, or a column."""
    dims = shape(rng)
    ops = [rng.choice(ELEMENTWISE) for _ in range(rng.randint(1, 5))]
    other = rng.choice(("same", "row", "column"))
    return Drawn({"shape": dims, "ops": ops, "other": other}, 3 * len(ops) * prod(dims), 3 * prod(dims))


ELEMENTWISE = ("relu", "exp", "tanh", "sigmoid", "gelu", "silu", "square", "abs", "sqrt", "clip", "add", "mul", "max")


def reduction(rng: Random) -> Drawn:
    """Reductions over any axes."""
    dims = shape(rng)
    axes = sorted(rng.sample(range(len(dims)), rng.randint(1, len(dims))))
    how = rng.choice(("sum", "mean", "max", "min", "var", "argmax", "norm"))
    return Drawn({"how": how, "shape": dims, "axes": axes[:1] if how == "argmax" else axes}, prod(dims), prod(dims))


def transpose(rng: Random) -> Drawn:
    """Transposes of any order but that which there is."""
    dims = shape(rng, (2, 3, 4))
    order = list(range(len(dims)))
    while order == sorted(order):
        rng.shuffle(order)
    return Drawn({"shape": dims, "order": order}, prod(dims), 2 * prod(dims))


def copy(rng: Random) -> Drawn:
    """Copies: arrays joined or repeated, parts, margins."""
    dims = shape(rng)
    axis = rng.randrange(len(dims))
    sizes = {"how": rng.choice(("concat", "slice", "stride", "pad", "repeat")), "shape": dims, "axis": axis}
    return Drawn(sizes, prod(dims), 3 * prod(dims))


def convolution(rng: Random, rank: int) -> Drawn:
    """Convolutions: first layers, of one tap, with steps or holes, in groups, of each channel alone."""
    style = rng.choice(("plain", "plain", "first", "pointwise", "strided", "dilated", "grouped", "depthwise"))
    kernel = 1 if style == "pointwise" else rng.choice((2, 3, 3, 3, 5, 7))
    groups = size(rng, 2, 8) if style == "grouped" else 1
    given = size(rng, 1, 4) if style == "first" else groups * size(rng, 8, 512 // groups)
    made = groups * size(rng, 8, 512 // groups)
    if style == "depthwise":
        groups = made = given
    stride = 2 if style == "strided" or (style == "first" and flag(rng)) else 1
    dilation = 2 if style == "dilated" else 1
    side = size(rng, 7, {1: 3000, 2: 230, 3: 40}[rank])
    sides = [max(dilation * kernel, side + rng.randint(-3, 3)) for _ in range(rank)]
    pad = rng.choice((0, dilation * (kernel - 1) // 2))
    batch = rng.choice((1, 1, 1, size(rng, 2, 8)))
    sizes = {"batch": batch, "given": given, "made": made, "sides": sides, "kernel": kernel, "stride": stride}
    sizes |= {"dilation": dilation, "groups": groups, "pad": pad, "after": rng.choice(("nothing", "bias", "relu"))}
    positions = batch * prod(sides)
    flops = 2 * (positions / stride**rank) * made * (given // groups) * kernel**rank
    held = made * (given // groups) * kernel**rank
    return Drawn(sizes, flops, positions * given + positions / stride**rank * made + held)


def plane(rng: Random) -> Drawn:
    """Convolutions of planes."""
    return convolution(rng, 2)


def line(rng: Random) -> Drawn:
    """Convolutions of lines."""
    return convolution(rng, 1)


def volume(rng: Random) -> Drawn:
    """Convolutions of volumes."""
    return convolution(rng, 3)


def transposed(rng: Random) -> Drawn:
    """Transposed convolutions in one to three dimensions."""
    rank = rng.choice((1, 2, 2, 2, 3))
    given, made, kernel = size(rng, 3, 256), size(rng, 3, 256), rng.choice((2, 3, 4, 5))
    stride = rng.choice((1, 2, 2, 3))
    side = size(rng, 4, {1: 2000, 2: 100, 3: 24}[rank])
    sides = [max(2, side + rng.randint(-2, 2)) for _ in range(rank)]
    sizes = {"given": given, "made": made, "sides": sides, "kernel": kernel, "stride": stride}
    sizes["pad"] = rng.choice((0, (kernel - 1) // 2))
    flops = 2 * prod(sides) * given * made * kernel**rank
    return Drawn(sizes, flops, prod(sides) * (given + made * stride**rank) + given * made * kernel**rank)


def pool(rng: Random) -> Drawn:
    """Pools in one to three dimensions."""
    rank, how = rng.choice((1, 2, 2, 2, 3)), rng.choice(("max", "average"))
    kernel, stride, channels = rng.choice((2, 3, 3, 5)), rng.choice((1, 2, 2, 3)), size(rng, 3, 256)
    side = size(rng, 8, {1: 4000, 2: 230, 3: 40}[rank])
    sides = [max(kernel, side + rng.randint(-3, 3)) for _ in range(rank)]
    sizes = {"how": how, "channels": channels, "sides": sides, "kernel": kernel, "stride": stride}
    sizes["pad"] = rng.choice((0, kernel // 2))
    count = channels * prod(sides)
    return Drawn(sizes, count * kernel**rank / stride**rank, count * (1 + stride**-rank))


def resize(rng: Random) -> Drawn:
    """Images made larger, by the nearest pixel or between four."""
    how, channels, times = rng.choice(("nearest", "bilinear")), size(rng, 1, 128), rng.choice((2, 2, 3))
    sides = [size(rng, 4, 100) for _ in range(2)]
    made = channels * prod(sides) * times**2
    return Drawn({"how": how, "channels": channels, "sides": sides, "times": times}, 4 * made, 2 * made)


def gather(rng: Random) -> Drawn:
    """Rows of a held table, or indices along an axis, by numbers that are given."""
    dims = shape(rng, (2, 2, 3))
    axis = rng.choice((0, 0, rng.randrange(len(dims))))
    count = size(rng, 1, 1000)
    made = prod(dims) // dims[axis] * count
    return Drawn({"shape": dims, "axis": axis, "count": count}, made, prod(dims) + made)


def scan(rng: Random) -> Drawn:
    """Running sums along any axis."""
    dims = shape(rng, (1, 2, 3))
    return Drawn({"shape": dims, "axis": rng.randrange(len(dims))}, prod(dims), 2 * prod(dims))


RULES: dict[str, tuple[int, Callable[[Random], Drawn]]] = {
    "matmul": (24, matmul),
    "batch_matmul": (14, batch_matmul),
    "linear": (14, linear),
    "attention": (16, attention),
    "softmax": (12, rows),
    "norm": (16, norm),
    "elements": (18, elements),
    "reduction": (18, reduction),
    "transpose": (10, transpose),
    "copy": (10, copy),
    "conv2d": (26, plane),
    "conv1d": (8, line),
    "conv3d": (8, volume),
    "transposed": (14, transposed),
    "pool": (12, pool),
    "resize": (6, resize),
    "gather": (8, gather),
    "scan": (6, scan),
}
