"""The tasks of `grid_tasks.py` as functions of PyTorch, and of NumPy where one would write them so.

A rule per kind gives what is computed, on which arrays. Needs PyTorch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from grid_tasks import GridTask
from scipy.special import erf

Array = np.ndarray[Any, np.dtype[Any]]
Tensor = torch.Tensor
Function = Callable[..., Any]
EPSILON = 1e-5
SEED = 42


@dataclass(frozen=True)
class Computed:
    """What a task computes.

    Attributes:
        function: Function of PyTorch, of `given` and then `held`.
        given: Shapes of what is given with each call.
        held: Shapes of what is the same in each call.
        numpy: The same in terms of NumPy; `None` where nobody would use it.
        below: Bound of inputs that are whole numbers of 64 bits, from 0 on; 0 where they are reals.
    """

    function: Function
    given: Sequence[Sequence[int]]
    held: Sequence[Sequence[int]] = ()
    numpy: Function | None = None
    below: int = 0


class GridModel(torch.nn.Module):
    """A task as a network, whose parameters are what it holds."""

    def __init__(self, computed: Computed) -> None:
        super().__init__()
        self.function = computed.function
        held = [torch.randn(*each) for each in computed.held]
        self.held = torch.nn.ParameterList([torch.nn.Parameter(each, requires_grad=False) for each in held])

    def forward(self, *inputs: Tensor) -> Any:  # noqa: ANN401 - what the function gives
        """Compute once."""
        return self.function(*inputs, *self.held)


@dataclass(frozen=True)
class Problem:
    """A task, ready to be computed.

    Attributes:
        model: The network, in eval mode.
        inputs: What it is called with.
        numpy: A call in terms of NumPy, on the same values; `None` where there is none.
    """

    model: GridModel
    inputs: list[Tensor]
    numpy: Callable[[], Any] | None


def problem_of(task: GridTask) -> Problem:
    """A task with weights and inputs, the same each time."""
    torch.manual_seed(SEED)
    computed = KINDS[task.kind](dict(task.sizes))
    model = GridModel(computed).eval()
    if computed.below:
        inputs = [torch.randint(computed.below, tuple(each)) for each in computed.given]
    else:
        inputs = [torch.randn(*each) for each in computed.given]
    arrays = [each.numpy() for each in (*inputs, *(held.detach() for held in model.held))]
    function = computed.numpy
    return Problem(model, inputs, None if function is None else lambda: function(*arrays))


def transposed_if(array: Any, yes: int) -> Any:  # noqa: ANN401 - of either library
    """A matrix, or its transpose."""
    return array.swapaxes(-1, -2) if yes else array


def matmul(p: dict[str, Any]) -> Computed:
    """Products; with `b` there are several."""
    first = [p["k"], p["m"]] if p["ta"] else [p["m"], p["k"]]
    second = [p["n"], p["k"]] if p["tb"] else [p["k"], p["n"]]
    first, second = ([p["b"], *each] if "b" in p else each for each in (first, second))

    def product(a: Any, b: Any) -> Any:  # noqa: ANN401 - of either library
        return transposed_if(a, p["ta"]) @ transposed_if(b, p["tb"])

    held = bool(p.get("held"))
    return Computed(product, [first] if held else [first, second], [second] if held else [], product)


AFTER: Mapping[str, tuple[Function, Function]] = {
    "nothing": (lambda y: y, lambda y: y),
    "bias": (lambda y: y, lambda y: y),
    "relu": (F.relu, lambda y: np.maximum(y, 0)),
    "gelu": (F.gelu, lambda y: y * (erf(y * np.float32(0.5**0.5)) + 1) * np.float32(0.5)),
    "silu": (F.silu, lambda y: y / (1 + np.exp(-y))),
    "sigmoid": (torch.sigmoid, lambda y: 1 / (1 + np.exp(-y))),
}


def linear(p: dict[str, Any]) -> Computed:
    """A layer, and what is applied to it."""
    m, n, k = p["m"], p["n"], p["k"]
    held = [[n, k], [n]]
    if p["after"] == "residual":
        return Computed(
            lambda x, y, w, b: F.linear(x, w, b) + y, [[m, k], [m, n]], held, lambda x, y, w, b: x @ w.T + b + y
        )
    torch_after, numpy_after = AFTER[p["after"]]
    return Computed(
        lambda x, w, b: torch_after(F.linear(x, w, b)), [[m, k]], held, lambda x, w, b: numpy_after(x @ w.T + b)
    )


def numpy_softmax(x: Array, axis: int) -> Array:
    """Softmax, in as few passes as NumPy can."""
    y = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(y / y.sum(axis, keepdims=True))


def attention(p: dict[str, Any]) -> Computed:
    """Attention; heads of a group share keys and values."""
    groups, shared, d = p["groups"], p["heads"] // p["groups"], p["d"]
    allowed = np.tril(np.ones((p["rows"], p["keys"]), bool))

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if shared > 1:
            k, v = (
                each[:, :, None].expand(1, groups, shared, p["keys"], d).reshape(1, p["heads"], p["keys"], d)
                for each in (k, v)
            )
        return F.scaled_dot_product_attention(q, k, v, is_causal=bool(p["causal"]))

    def numpy(q: Array, k: Array, v: Array) -> Array:
        scores = q.reshape(groups, shared, p["rows"], d) @ k[0][:, None].swapaxes(-1, -2) * np.float32(d**-0.5)
        if p["causal"]:
            scores = np.where(allowed, scores, np.float32(-np.inf))
        return np.asarray((numpy_softmax(scores, -1) @ v[0][:, None]).reshape(q.shape))

    pair = [1, groups, p["keys"], d]
    return Computed(attend, [[1, p["heads"], p["rows"], d], pair, pair], [], numpy)


def rows(p: dict[str, Any]) -> Computed:
    """Softmax."""
    axis = p["axis"]
    return Computed(lambda x: F.softmax(x, axis), [p["shape"]], [], lambda x: numpy_softmax(x, axis))


def norm(p: dict[str, Any]) -> Computed:
    """Normalisations, each with a factor and what is added, but the mean square."""
    how, dims = p["how"], p["shape"]
    if how == "rms":
        return Computed(
            lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPSILON) * w,
            [dims],
            [dims[-1:]],
            lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPSILON)) * w,
        )
    if how == "layer":
        return Computed(lambda x, w, b: F.layer_norm(x, dims[-1:], w, b), [dims], [dims[-1:]] * 2, numpy_layer_norm)
    channels = [dims[1:2]] * 2
    if how == "batch":
        return Computed(
            lambda x, w, b, mean, spread: F.batch_norm(x, mean, spread * spread, w, b), [dims], channels * 2
        )
    groups = p.get("groups", dims[1])
    return Computed(lambda x, w, b: F.group_norm(x, groups, w, b), [dims], channels)


def numpy_layer_norm(x: Array, w: Array, b: Array) -> Array:
    """Layer norm over the last axis."""
    y = x - x.mean(-1, keepdims=True)
    return np.asarray(y / np.sqrt((y * y).mean(-1, keepdims=True) + np.float32(EPSILON)) * w + b)


UNARY: Mapping[str, tuple[Function, Function]] = {
    **AFTER,
    "exp": (lambda x: torch.exp(-x.abs()), lambda x: np.exp(-np.abs(x))),
    "tanh": (torch.tanh, np.tanh),
    "square": (lambda x: x * x, lambda x: x * x),
    "abs": (torch.abs, np.abs),
    "sqrt": (lambda x: torch.sqrt(x.abs()), lambda x: np.sqrt(np.abs(x))),
    "clip": (lambda x: torch.clamp(x, -0.5, 0.5), lambda x: np.clip(x, np.float32(-0.5), np.float32(0.5))),
}
BINARY: Mapping[str, tuple[Function, Function]] = {
    "add": (torch.add, np.add),
    "mul": (torch.mul, np.multiply),
    "max": (torch.maximum, np.maximum),
}


def elements(p: dict[str, Any]) -> Computed:
    """Chains of element-wise ops."""
    dims = p["shape"]
    others = {"same": dims, "row": dims[-1:], "column": [dims[0], *[1] * (len(dims) - 1)]}

    def chain(which: int) -> Function:
        def run(x: Any, y: Any = None) -> Any:  # noqa: ANN401 - of either library
            for op in p["ops"]:
                x = BINARY[op][which](x, y) if op in BINARY else UNARY[op][which](x)
            return x

        return run

    given = [dims, others[p["other"]]] if any(op in BINARY for op in p["ops"]) else [dims]
    return Computed(chain(0), given, [], chain(1))


def reduction(p: dict[str, Any]) -> Computed:
    """Reductions."""
    axes = tuple(p["axes"])
    ways: dict[str, tuple[Function, Function]] = {
        "sum": (lambda x: x.sum(axes), lambda x: x.sum(axes)),
        "mean": (lambda x: x.mean(axes), lambda x: x.mean(axes)),
        "max": (lambda x: x.amax(axes), lambda x: x.max(axes)),
        "min": (lambda x: x.amin(axes), lambda x: x.min(axes)),
        "var": (lambda x: x.var(axes, unbiased=False), lambda x: x.var(axes)),
        "norm": (lambda x: (x * x).sum(axes).sqrt(), lambda x: np.sqrt((x * x).sum(axes))),
        "argmax": (lambda x: x.argmax(axes[0]), lambda x: x.argmax(axes[0])),
    }
    torch_way, numpy_way = ways[p["how"]]
    return Computed(torch_way, [p["shape"]], [], numpy_way)


def transpose(p: dict[str, Any]) -> Computed:
    """Transposes."""
    order = tuple(p["order"])
    return Computed(
        lambda x: x.permute(order).contiguous(), [p["shape"]], [], lambda x: np.ascontiguousarray(x.transpose(order))
    )


def copy(p: dict[str, Any]) -> Computed:
    """Copies."""
    dims, axis = p["shape"], p["axis"]
    before, after = axis, len(dims) - 1 - axis
    margin = [(0, 0)] * before + [(1, 1)] + [(0, 0)] * after
    part, steps = ((slice(None),) * before + (each,) for each in (slice(1, -1), slice(None, None, 2)))
    if p["how"] == "concat":
        return Computed(
            lambda x, y: torch.cat([x, y], axis), [dims, dims], [], lambda x, y: np.concatenate([x, y], axis)
        )
    times = [1] * before + [3] + [1] * after
    ways: dict[str, tuple[Function, Function]] = {
        "slice": (lambda x: x[part].clone(), lambda x: x[part].copy()),
        "stride": (lambda x: x[steps].clone(), lambda x: x[steps].copy()),
        "pad": (lambda x: F.pad(x, [0, 0] * after + [1, 1]), lambda x: np.pad(x, margin)),
        "repeat": (lambda x: x.repeat(times), lambda x: np.tile(x, times)),
    }
    torch_way, numpy_way = ways[p["how"]]
    return Computed(torch_way, [dims], [], numpy_way)


def convolution(p: dict[str, Any]) -> Computed:
    """Convolutions, with a bias where something follows."""
    rank = len(p["sides"])
    convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    after = AFTER[p["after"]][0]
    settings = (p["stride"], p["pad"], p["dilation"], p["groups"])
    held = [[p["made"], p["given"] // p["groups"], *[p["kernel"]] * rank]]
    if p["after"] != "nothing":
        held.append([p["made"]])
    return Computed(
        lambda x, w, b=None: after(convolve(x, w, b, *settings)), [[p["batch"], p["given"], *p["sides"]]], held
    )


def transposed(p: dict[str, Any]) -> Computed:
    """Transposed convolutions."""
    rank = len(p["sides"])
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    held = [[p["given"], p["made"], *[p["kernel"]] * rank], [p["made"]]]
    return Computed(lambda x, w, b: convolve(x, w, b, p["stride"], p["pad"]), [[1, p["given"], *p["sides"]]], held)


def pool(p: dict[str, Any]) -> Computed:
    """Pools."""
    ways = {"max": (F.max_pool1d, F.max_pool2d, F.max_pool3d), "average": (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)}
    way = ways[p["how"]][len(p["sides"]) - 1]
    return Computed(lambda x: way(x, p["kernel"], p["stride"], p["pad"]), [[1, p["channels"], *p["sides"]]])


def resize(p: dict[str, Any]) -> Computed:
    """Images made larger."""
    corners = {} if p["how"] == "nearest" else {"align_corners": False}
    return Computed(
        lambda x: F.interpolate(x, scale_factor=float(p["times"]), mode=p["how"], **corners),
        [[1, p["channels"], *p["sides"]]],
    )


def gather(p: dict[str, Any]) -> Computed:
    """Rows of a table, or indices along another axis."""
    axis = p["axis"]
    return Computed(
        lambda ids, table: table.index_select(axis, ids),
        [[p["count"]]],
        [p["shape"]],
        lambda ids, table: table.take(ids, axis),
        below=p["shape"][axis],
    )


def scan(p: dict[str, Any]) -> Computed:
    """Running sums."""
    axis = p["axis"]
    return Computed(lambda x: x.cumsum(axis), [p["shape"]], [], lambda x: x.cumsum(axis))


KINDS: Mapping[str, Callable[[dict[str, Any]], Computed]] = {
    "matmul": matmul,
    "batch_matmul": matmul,
    "linear": linear,
    "attention": attention,
    "softmax": rows,
    "norm": norm,
    "elements": elements,
    "reduction": reduction,
    "transpose": transpose,
    "copy": copy,
    "conv2d": convolution,
    "conv1d": convolution,
    "conv3d": convolution,
    "transposed": transposed,
    "pool": pool,
    "resize": resize,
    "gather": gather,
    "scan": scan,
}
