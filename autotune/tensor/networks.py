"""Operations of neural networks: matrix products, convolution, softmax, layer norm, activations."""

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
    """Batched matrix product over the last two axes, ``(..., M, K) x (..., K, N)``; a vector is a row or a column."""
    a, b = operands("matmul", x1, x2)
    dtype = promote("matmul", a.dtype, b.dtype)
    if dtype == bool:
        raise TensorTypeError("operands of matmul must be numbers, they are bool; use astype")
    shapes = f"{a.shape} and {b.shape}"
    if not (a.ndim and b.ndim):
        raise TensorError(f"operands of matmul must have 1 dimension or more, shapes are {shapes}; use *")
    is_row, is_column = a.ndim == 1, b.ndim == 1
    a, b = expand_dims(a, axis=0) if is_row else a, expand_dims(b, axis=1) if is_column else b
    if a.shape[-1] != b.shape[-2]:
        raise TensorError(f"matmul must sum over equal sizes, shapes are {shapes}: {a.shape[-1]} and {b.shape[-2]}")
    lead = broadcast("matmul", a.shape[:-2], b.shape[:-2])
    shape = (*lead, a.shape[-2], b.shape[-1])
    product = Tensor(Node("matmul", shape, dtype, (astype(a, dtype).node, astype(b, dtype).node)))
    product = squeeze(product, -2) if is_row else product
    return squeeze(product, -1) if is_column else product


@operation
def vecdot(x1: object, x2: object, /, *, axis: int = -1) -> Tensor:
    """Dot products along an axis of the broadcast operands.

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
    """Contract pairs of axes of two tensors, as one matrix product.

    Args:
        x1: Left tensor.
        x2: Right tensor.
        axes: Contracted axes of the left and of the right tensor; or their number, the last of the left and the first
            of the right.

    Raises:
        TensorError: The numbers of axes, or their sizes, differ.
    """
    a, b = operands("tensordot", x1, x2)
    both = (range(a.ndim - axes, a.ndim), range(axes)) if isinstance(axes, int) else axes
    left, right = ([axis_of("tensordot", axis, x.ndim) for axis in each] for x, each in zip((a, b), both, strict=True))
    if [a.shape[axis] for axis in left] != [b.shape[axis] for axis in right]:
        raise TensorError(f"tensordot must sum over equal sizes, shapes are {a.shape} and {b.shape}, axes {axes}")
    outer, inner = ([d for d in range(x.ndim) if d not in each] for x, each in ((a, left), (b, right)))
    rows, columns = [a.shape[d] for d in outer], [b.shape[d] for d in inner]
    summed = math.prod(a.shape[axis] for axis in left)
    left_matrix = reshape(permute_dims(a, [*outer, *left]), (math.prod(rows), summed))
    right_matrix = reshape(permute_dims(b, [*right, *inner]), (summed, math.prod(columns)))
    return reshape(matmul(left_matrix, right_matrix), (*rows, *columns))


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
    """2-D convolution in NCHW layout.

    Args:
        x: Images ``(N, C, H, W)``.
        weight: Filters ``(F, C / groups, KH, KW)``.
        bias: Bias of each filter, ``(F,)``; `None` for none.
        stride: Stride of the window, vertical and horizontal.
        padding: Zeros added on both sides, vertical and horizontal.
        dilation: Spacing between elements of the window, vertical and horizontal.
        groups: Number of groups that the channels are split into; each filter reads one.

    Raises:
        TensorError: Shapes do not match, or the window does not fit the padded image.
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
    result = Tensor(Node("conv2d", (n, filters, *sizes), dtype, inputs, attributes=(steps, zeros, apart, groups)))
    if bias is None:
        return result
    bias_tensor = as_tensor("conv2d", bias)
    if bias_tensor.shape != (filters,):
        raise TensorError(f"bias of conv2d must have shape {(filters,)}, it has {bias_tensor.shape}")
    return result + reshape(bias_tensor, (filters, 1, 1))


def pair(name: str, value: object) -> tuple[int, int]:
    """Return an option of `conv2d` as one integer for each of the two spatial dimensions.

    Raises:
        TensorTypeError: The value is neither an integer nor a pair of integers.
        TensorError: An integer is too small.
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
    """``exp(x - max) / sum(exp(x - max))`` along an axis; undefined for NaN."""
    values = real("softmax", x)
    dim = axis_of("softmax", axis, values.ndim)
    exponentials = operate("exp", values - fold("largest", values, dim, keepdims=True))
    return exponentials / fold("sum", exponentials, dim, keepdims=True)


@operation
def layer_norm(x: object, gain: object = None, bias: object = None, *, epsilon: float = 1e-5) -> Tensor:
    """``(x - mean) / sqrt(variance + epsilon) * gain + bias`` along the last axis (Ba et al., 2016).

    Args:
        x: Tensor ``(..., C)``.
        gain: Scale ``(C,)``; `None` for none.
        bias: Shift ``(C,)``; `None` for none.
        epsilon: Number added to the variance, to avoid division by zero.
    """
    values = real("layer_norm", x)
    axis_of("layer_norm", -1, values.ndim)
    for name, part in (("gain", gain), ("bias", bias)):
        if part is not None and as_tensor("layer_norm", part).shape != values.shape[-1:]:
            actual = as_tensor("layer_norm", part).shape
            raise TensorError(f"{name} of layer_norm must have shape {values.shape[-1:]}, it has {actual}")
    centre = mean(values, -1, keepdims=True)
    spread = mean(operate("square", values - centre), -1, keepdims=True)
    normal = (values - centre) * operate("rsqrt", spread + epsilon)  # subtracted again, not stored
    scaled = normal if gain is None else normal * gain
    return scaled if bias is None else scaled + bias


@operation
def gelu(x: object) -> Tensor:
    """``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``, as in GPT-2 (Hendrycks and Gimpel, 2016)."""
    values = real("gelu", x)
    angle = ROOT * (values + 0.044715 * (values * values * values))
    return (0.5 * values) * (1.0 + operate("tanh", angle))


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
    values = real("silu", x)
    return values / (1.0 + operate("exp", -values))


def real(name: str, x: object) -> Tensor:
    """Convert an operand to a tensor of real numbers.

    Raises:
        TensorTypeError: The operand is not real.
    """
    operand = as_tensor(name, x)
    if not is_float(operand.dtype):
        raise TensorTypeError(f"operands of {name} must be real, they are {operand.dtype.name}; use astype")
    return operand
