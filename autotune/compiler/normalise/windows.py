"""Windows of a convolution, and the product that it is over all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.normalise.emit import dims, filled, flat, generic, permuted
from autotune.compiler.values import maker

KERNEL = (2, 3, 1, 0)  # of (f, c, i, j): its order in (i, j, c, f)
KERNEL_BACK = (3, 2, 0, 1)


@dataclass(frozen=True)
class Window:
    """Steps of an op with windows of two dimensions.

    Attributes:
        strides: Places between one window and the next, down and across.
        dilations: Places between neighbours in a window, down and across.
    """

    strides: tuple[int, int]
    dilations: tuple[int, int]

    @staticmethod
    def attribute(values: Sequence[int]) -> ir.Attribute:
        """Strides, or dilations, as an attribute of a structured op."""
        return ir.Attribute.parse(f"dense<[{values[0]}, {values[1]}]> : tensor<2xi64>")


def window_of(op: ir.Operation) -> Window:
    """Steps of a named convolution or pool."""
    return Window(pair_of(op, "strides"), pair_of(op, "dilations"))


def pair_of(op: ir.Operation, name: str) -> tuple[int, int]:
    """Two numbers that an op has as an attribute; 1 each where it has none."""
    if name not in op.attributes:
        return 1, 1
    held = ir.DenseIntElementsAttr(op.attributes[name])
    return int(held[0]), int(held[1])


def conv_as_product(x: ir.Value, kernel: ir.Value, window: Window, shape: Sequence[int]) -> ir.Value:
    """A convolution as a product of its patches with its kernel, from zero: (places, f).

    Args:
        x: Input (n, h, w, c).
        kernel: Kernel (f, c, i, j).
        window: Steps of the windows.
        shape: Shape of the result, (n, h, w, f).
    """
    f, _, down, across = kernel.type.shape
    patches = read_patches(x, (down, across), window, shape)
    columns = flat(last_of(kernel), ((0, 1, 2), (3,)))
    element = x.type.element_type
    zero = arith.constant(element, 0.0)
    zeros = filled([shape[0] * shape[1] * shape[2], f], element, zero)
    return linalg.matmul(patches, columns, outs=[zeros])


def last_of(kernel: ir.Value) -> ir.Value:
    """A kernel (f, c, i, j) as (i, j, c, f); where it was made of such, that."""
    made_by = maker(kernel)
    turned = made_by if made_by is not None and made_by.name == "linalg.transpose" else None
    if turned is not None and tuple(ir.DenseI64ArrayAttr(turned.attributes["permutation"])) == KERNEL_BACK:
        return turned.operands[0]
    return permuted(kernel, KERNEL)


def read_patches(x: ir.Value, sizes: tuple[int, int], window: Window, shape: Sequence[int]) -> ir.Value:
    """What each window of an input (n, h, w, c) reads, a row each: (n h w, i j c).

    The columns of a window are neighbours in memory, with their channels: they are read as one run, unless dilated.
    """
    (down, across), (step, stride), (gap, spread) = sizes, window.strides, window.dilations
    n, rows, columns, _ = shape
    channels = x.type.shape[3]
    if (down, across, step, stride) == (1, 1, 1, 1):
        return flat(x, ((0, 1, 2), (3,)))
    element, places = x.type.element_type, ((0, 1, 2), (3, 4))
    if spread == 1 or across == 1:
        d = dims(5)
        line = flat(x, ((0,), (1,), (2, 3)))
        into = tensor.empty([n, rows, columns, down, across * channels], element)
        read = ir.AffineMap.get(5, 0, [d[0], d[1] * step + d[3] * gap, d[2] * (stride * channels) + d[4]])
        patches = generic([line], into, [read, ir.AffineMap.get_identity(5)], ["parallel"] * 5)
        return flat(patches, places)
    d = dims(6)
    into = tensor.empty([n, rows, columns, down, across, channels], element)
    read = ir.AffineMap.get(6, 0, [d[0], d[1] * step + d[3] * gap, d[2] * stride + d[4] * spread, d[5]])
    patches = generic([x], into, [read, ir.AffineMap.get_identity(6)], ["parallel"] * 6)
    return flat(patches, ((0, 1, 2), (3, 4, 5)))
