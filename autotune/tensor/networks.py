"""Operations of networks: products of matrices, convolution, softmax, layer norm, activations."""

import math
from collections.abc import Sequence

from autotune.core.errors import TensorError, TensorTypeError
from autotune.tensor.dtypes import bool, is_float, promote
from autotune.tensor.elementwise import astype
from autotune.tensor.graph import Node, operation
from autotune.tensor.manipulation import expand_dims, permute_dims, reshape, squeeze
from autotune.tensor.reductions import fold, mean, sum
from autotune.tensor.shapes import axis_of, broadcast
from autotune.tensor.tensor import Tensor, as_tensor, operands, operate

ROOT = math.sqrt(2 / math.pi)


@operation
def matmul(x1: object, x2: object, /) -> Tensor:
    """Products of matrices along the last two axes, ``(..., M, K) x (..., K, N)``; a vector is a row or a column."""
    a, b = operands("matmul", x1, x2)
    dtype = promote("matmul", a.dtype, b.dtype)
    if dtype == bool:
        raise TensorTypeError("operands of matmul must be numbers, they are bool; use astype")
    shapes = f"{a.shape} and {b.shape}"
    if not (a.ndim and b.ndim):
        raise TensorError(f"operands of matmul must have 1 dimension or more, shapes are {shapes}; use *")
    row, column = a.ndim == 1, b.ndim == 1
    a, b = expand_dims(a, axis=0) if row else a, expand_dims(b, axis=1) if column else b
    if a.shape[-1] != b.shape[-2]:
        raise TensorError(f"matmul must sum over equal sizes, shapes are {shapes}: {a.shape[-1]} and {b.shape[-2]}")
    lead = broadcast("matmul", a.shape[:-2], b.shape[:-2])
    shape = (*lead, a.shape[-2], b.shape[-1])
    product = Tensor(Node("matmul", shape, dtype, (astype(a, dtype).node, astype(b, dtype).node)))
    product = squeeze(product, -2) if row else product
    return squeeze(product, -1) if column else product


@operation
def vecdot(x1: object, x2: object, /, *, axis: int = -1) -> Tensor:
    """Sums of products along an axis, which is counted from the end.

    Raises:
        TensorTypeError: Operands are boolean.
        TensorError: Sizes along the axis differ.
    """
    a, b = operands("vecdot", x1, x2)
    dtype = promote("vecdot", a.dtype, b.dtype)
    if dtype == bool:
        raise TensorTypeError("operands of vecdot must be numbers, they are bool; use astype")
    sizes = [x.shape[axis_of("vecdot", axis, x.ndim)] for x in (a, b)]
    if sizes[0] != sizes[1]:
        raise TensorError(f"vecdot must sum over equal sizes, they are {sizes[0]} and {sizes[1]} along axis {axis}")
    return sum(a * b, axis if axis < 0 else axis - max(a.ndim, b.ndim), dtype=dtype)


@operation
def tensordot(x1: object, x2: object, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Products of elements, summed over pairs of axes, as one product of matrices.

    Args:
        x1: The left tensor.
        x2: The right one.
        axes: Axes that are summed over, of the left and of the right; or how many, the last and the first.

    Raises:
        TensorError: Axes are not as many, or not as large.
    """
    a, b = operands("tensordot", x1, x2)
    both = (range(a.ndim - axes, a.ndim), range(axes)) if isinstance(axes, int) else axes
    left, right = ([axis_of("tensordot", axis, x.ndim) for axis in each] for x, each in zip((a, b), both, strict=True))
    if [a.shape[axis] for axis in left] != [b.shape[axis] for axis in right]:
        raise TensorError(f"tensordot must sum over equal sizes, shapes are {a.shape} and {b.shape}, axes {axes}")
    outer, inner = ([d for d in range(x.ndim) if d not in each] for x, each in ((a, left), (b, right)))
    rows, columns = [a.shape[d] for d in outer], [b.shape[d] for d in inner]
    summed = math.prod(a.shape[axis] for axis in left)
    matrix = reshape(permute_dims(a, [*outer, *left]), (math.prod(rows), summed))
    other = reshape(permute_dims(b, [*right, *inner]), (summed, math.prod(columns)))
    return reshape(matmul(matrix, other), (*rows, *columns))


@operation
def conv2d(
    x: object,
    weight: object,
    bias: object = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of images.

    Args:
        x: Images ``(N, C, H, W)``.
        weight: Filters ``(F, C / groups, KH, KW)``.
        bias: A number for each filter, ``(F,)``; `None` for none.
        stride: Positions from one window to the next, down and right.
        padding: Zeros on both sides, above and below, left and right.
        dilation: Positions from one element of a window to the next.
        groups: Parts that channels are split into; each filter reads one.

    Raises:
        TensorError: Shapes do not go together, or no window fits.
    """
    image, kernel = operands("conv2d", x, weight)
    dtype = promote("conv2d", image.dtype, kernel.dtype)
    shapes = f"{image.shape} and {kernel.shape}"
    if not is_float(dtype):
        raise TensorTypeError(f"operands of conv2d must be real, they are {dtype.name}; use astype")
    if image.ndim != 4 or kernel.ndim != 4:
        raise TensorError(f"conv2d must have images (N, C, H, W) and filters (F, C, KH, KW), shapes are {shapes}")
    (n, channels, *spatial), (filters, inner, *sides) = image.shape, kernel.shape
    if groups < 1 or channels != inner * groups or filters % groups:
        raise TensorError(f"conv2d must have as many channels as filters read, in {groups} groups: shapes are {shapes}")
    steps, zeros, apart = pair("stride", stride), pair("padding", padding), pair("dilation", dilation)
    sizes = [(size + 2 * zeros[d] - apart[d] * (sides[d] - 1) - 1) // steps[d] + 1 for d, size in enumerate(spatial)]
    if min(sizes) < 1 or min(sides) < 1:
        raise TensorError(f"a window of conv2d must fit the image, shapes are {shapes}, padding {zeros}; add padding")
    inputs = (astype(image, dtype).node, astype(kernel, dtype).node)
    found = Tensor(Node("conv2d", (n, filters, *sizes), dtype, inputs, attributes=(steps, zeros, apart, groups)))
    if bias is None:
        return found
    more = as_tensor("conv2d", bias)
    if more.shape != (filters,):
        raise TensorError(f"bias of conv2d must have shape {(filters,)}, it has {more.shape}")
    return found + reshape(more, (filters, 1, 1))


def pair(name: str, value: object) -> tuple[int, int]:
    """A number for each of two dimensions.

    Raises:
        TensorTypeError: What is given is neither a whole number nor two.
        TensorError: A number is too small.
    """
    both = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2 or not all(isinstance(each, int) for each in both):
        raise TensorTypeError(f"{name} of conv2d must be a whole number or two, got {value!r}")
    least = 0 if name == "padding" else 1
    if min(both) < least:
        raise TensorError(f"{name} of conv2d must be {least} or more, got {value}")
    return both[0], both[1]


@operation
def softmax(x: object, *, axis: int = -1) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along an axis; not defined where there is NaN."""
    given = real("softmax", x)
    dim = axis_of("softmax", axis, given.ndim)
    power = operate("exp", given - fold("largest", given, dim, keepdims=True))
    return power / fold("sum", power, dim, keepdims=True)


@operation
def layer_norm(x: object, gain: object = None, bias: object = None, *, epsilon: float = 1e-5) -> Tensor:
    """``(x - mean) / sqrt(variance + epsilon) * gain + bias`` along the last axis (Ba et al., 2016).

    Args:
        x: Tensor ``(..., C)``.
        gain: Factors ``(C,)``; `None` for none.
        bias: Summands ``(C,)``; `None` for none.
        epsilon: Number that keeps the root from 0.
    """
    given = real("layer_norm", x)
    axis_of("layer_norm", -1, given.ndim)
    for name, part in (("gain", gain), ("bias", bias)):
        if part is not None and as_tensor("layer_norm", part).shape != given.shape[-1:]:
            found = as_tensor("layer_norm", part).shape
            raise TensorError(f"{name} of layer_norm must have shape {given.shape[-1:]}, it has {found}")
    middle = mean(given, -1, keepdims=True)
    spread = mean(operate("square", given - middle), -1, keepdims=True)
    normal = (given - middle) * operate("rsqrt", spread + epsilon)  # taken off again: a row is not stored for it
    scaled = normal if gain is None else normal * gain
    return scaled if bias is None else scaled + bias


@operation
def gelu(x: object) -> Tensor:
    """``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``, as GPT-2 has it (Hendrycks and Gimpel, 2016)."""
    given = real("gelu", x)
    angle = ROOT * (given + 0.044715 * (given * given * given))
    return (0.5 * given) * (1.0 + operate("tanh", angle))


@operation
def relu(x: object) -> Tensor:
    """``max(x, 0)``."""
    return operate("maximum", real("relu", x), 0)


@operation
def sigmoid(x: object) -> Tensor:
    """``1 / (1 + exp(-x))``."""
    return 1.0 / (1.0 + operate("exp", -real("sigmoid", x)))


@operation
def silu(x: object) -> Tensor:
    """``x / (1 + exp(-x))``."""
    given = real("silu", x)
    return given / (1.0 + operate("exp", -given))


def real(what: str, x: object) -> Tensor:
    """An operand of real numbers.

    Raises:
        TensorTypeError: The operand is not real.
    """
    given = as_tensor(what, x)
    if not is_float(given.dtype):
        raise TensorTypeError(f"operands of {what} must be real, they are {given.dtype.name}; use astype")
    return given
