"""Windows of convolutions and pools, and convolutions with channels last."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.normalise.emit import permuted
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


def convolve(x: ir.Value, kernel: ir.Value, window: Window, start: ir.Value) -> ir.Value:
    """A convolution of (n, h, w, c) with a kernel (f, c, i, j), added to what it starts from: (n, h, w, f)."""
    steps = {"strides": window.attribute(window.strides), "dilations": window.attribute(window.dilations)}
    return linalg.conv_2d_nhwc_hwcf(x, last_of(kernel), outs=[start], **steps)


def last_of(kernel: ir.Value) -> ir.Value:
    """A kernel (f, c, i, j) as (i, j, c, f); where it was made of such, that."""
    made_by = maker(kernel)
    turned = made_by if made_by is not None and made_by.name == "linalg.transpose" else None
    if turned is not None and tuple(ir.DenseI64ArrayAttr(turned.attributes["permutation"])) == KERNEL_BACK:
        return turned.operands[0]
    return permuted(kernel, KERNEL)
