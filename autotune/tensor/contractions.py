"""Lower matrix products and convolutions to named linalg ops on zero-filled outputs; unit dimensions are kept."""

from dataclasses import replace
from math import prod

from autotune.tensor.graph import Node
from autotune.tensor.scalars import constant, scalar
from autotune.tensor.shapes import Shape
from autotune.tensor.text import LoopBody, Writer, affine_map
from autotune.tensor.views import Stored, View, loops_of, seen, squeezed


def matmul(writer: Writer, node: Node, a: View | None, b: View | None) -> View:
    """``linalg.matmul``, or ``linalg.batch_matmul`` if B has batch dimensions."""
    zero = constant(writer.emit, 0, node.dtype)
    *lead, m, n = node.shape
    element = "f32" if zero_is_real(node) else str(node.dtype).replace("int", "i")
    if a is None or b is None:  # an operand without elements: the sum is empty
        return natural(writer, node, writer.filled(squeezed(node.shape), element, zero))
    k = a.shape[-1]
    left: Shape
    right: Shape
    dims: tuple[Shape, Shape, Shape]
    shape: Shape
    if prod(b.shape[:-2]) == 1:
        rows = prod(a.shape[:-2]) * m
        left, right = (rows, k), (k, n)
        a = a if prod(a.shape[:-2]) > 1 else seen_as(a, (m, k))
        b = seen_as(b, (k, n))
        op, dims, shape = "matmul", ((0, 2), (2, 1), (0, 1)), (rows, n)
    else:
        batch = prod(lead)
        left, right = (batch, m, k), (batch, k, n)
        a, b = repeated(a, (*lead, m, k)), repeated(b, (*lead, k, n))
        if 1 in (m, n):
            return row_sums(writer, node, a, b, element)
        op, dims, shape = "batch_matmul", ((0, 1, 3), (0, 3, 2), (0, 1, 2)), (batch, m, n)
    first, transposed_a = operand(writer, a, left, element, turn=prod(a.shape[:-2]) == 1)
    second, transposed_b = operand(writer, b, right, element, turn=True)
    layouts = [swapped(dims[0]) if transposed_a else dims[0], swapped(dims[1]) if transposed_b else dims[1], dims[2]]
    maps = f" indexing_maps = [{', '.join(affine_map(len(right) + 1, each) for each in layouts)}]"
    into = writer.filled(shape, element, zero)
    clause = maps if transposed_a or transposed_b else ""
    text = (
        f"linalg.{op}{clause} ins({first.name}, {second.name} : {first.type}, {second.type}) outs({into.name} : TYPE)"
    )
    return natural(writer, node, writer.define(f"{text} -> TYPE", shape, element))


def row_sums(writer: Writer, node: Node, a: View, b: View, element: str) -> View:
    """Lower a batch of matrix-vector products (`m` or `n` is 1) to a ``linalg.generic`` reduction."""
    *lead, m, n = node.shape
    inner = len(lead) + 2
    loops, body = loops_of((*lead, m, n, a.shape[-1])), LoopBody()
    a, b = (x if isinstance(x.source, Stored) else seen(x.node, writer.stored(x), x.shape) for x in (a, b))
    left = body.element(a, [*loops[: inner - 1], loops[inner]])
    right = body.element(b, [*loops[: inner - 2], loops[inner], loops[inner - 1]])
    product = scalar(body.emit, Node("multiply", (), node.dtype), left, right)
    into = writer.filled(squeezed(node.shape), element, constant(writer.emit, 0, node.dtype))
    result = scalar(body.emit, Node("add", (), node.dtype), "%acc", product)
    return seen(node, writer.generic(body, result, into, len([loop for loop in loops if loop is not None])))


def zero_is_real(node: Node) -> bool:
    """Return whether a node computes with real numbers."""
    return node.dtype.kind not in "iu"


def swapped(dims: Shape) -> Shape:
    """Swap the last two loops of an indexing map, for a matrix that is stored transposed."""
    return (*dims[:-2], dims[-1], dims[-2])


def seen_as(x: View, shape: Shape) -> View:
    """Drop leading dimensions of size 1 from a view, to the given shape."""
    more = len(x.shape) - len(shape)
    return replace(x, shape=shape, dims=tuple(None if d is None else d - more for d in x.dims))


def repeated(x: View, shape: Shape) -> View:
    """Broadcast a view along leading dimensions to the given shape."""
    more = len(shape) - len(x.shape)
    return replace(x, shape=shape, dims=tuple(None if d is None else d + more for d in x.dims))


def operand(writer: Writer, x: View, shape: Shape, element: str, *, turn: bool) -> tuple[Stored, bool]:
    """Store a matrix, or a batch of matrices; also return whether it is stored transposed.

    A transposed view of a matrix is passed in its memory layout, with a transposed indexing map, instead of copying it.

    Args:
        writer: Writer that operations are appended to.
        x: View of the matrix.
        shape: Shape of the matrix, with one batch dimension at most.
        element: Element type of the computation.
        turn: Whether the matrix may be stored transposed.
    """
    rows, columns = len(x.shape) - 2, len(x.shape) - 1
    dims = [d for d in x.dims if d is not None]
    if turn and dims and dims[-1] == rows and columns in dims:
        order = [*range(rows), columns, rows]
        transposed = replace(
            x,
            shape=tuple(x.shape[d] for d in order),
            dims=tuple(None if d is None else order.index(d) for d in x.dims),
        )
        return writer.shaped(writer.stored(transposed, element), (*shape[:-2], shape[-1], shape[-2])), True
    return writer.shaped(writer.stored(x, element), shape), False


def natural(writer: Writer, node: Node, stored: Stored) -> View:
    """Return the view of a result, dropping its dimensions of size 1."""
    return seen(node, writer.shaped(stored, squeezed(node.shape)))


def conv2d(writer: Writer, node: Node, x: View | None, kernel: View | None) -> View:
    """Lower a convolution in NCHW layout to the plain, depthwise or grouped named op."""
    steps, zeros, apart, groups = node.attributes
    zero = constant(writer.emit, 0, node.dtype)
    if x is None or kernel is None:  # no channels
        return natural(writer, node, writer.filled(squeezed(node.shape), "f32", zero))
    image = padded(writer, writer.shaped(writer.stored(x, "f32"), x.shape), zeros, zero)
    filters = writer.shaped(writer.stored(kernel, "f32"), kernel.shape)
    n, count, *spatial = node.shape
    channels, shape = x.shape[1], node.shape
    op = "conv_2d_nchw_fchw"
    if groups > 1 and groups == channels == count:
        op = "depthwise_conv_2d_nchw_chw"
        filters = writer.shaped(filters, (channels, *kernel.shape[2:]))
    elif groups > 1:
        op, shape = "conv_2d_ngchw_gfchw", (n, groups, count // groups, *spatial)
        image = writer.shaped(image, (n, groups, channels // groups, *image.shape[2:]))
        filters = writer.shaped(filters, (groups, count // groups, *kernel.shape[1:]))
    into = writer.filled(shape, "f32", zero)
    windows = f"{{dilations = {pair(apart)}, strides = {pair(steps)}}}"
    reads = f"ins({image.name}, {filters.name} : {image.type}, {filters.type}) outs({into.name} : TYPE)"
    return natural(writer, node, writer.define(f"linalg.{op} {windows} {reads} -> TYPE", shape, "f32"))


def pair(numbers: tuple[int, int]) -> str:
    """Format two integers as a dense attribute."""
    return f"dense<{list(numbers)}> : tensor<2xi64>"


def padded(writer: Writer, image: Stored, zeros: tuple[int, int], zero: str) -> Stored:
    """Emit the zero padding of images."""
    if not any(zeros):
        return image
    padding = [0, 0, *zeros]
    shape = tuple(size + 2 * more for size, more in zip(image.shape, padding, strict=True))
    padded_image = writer.define(f"tensor.pad {image.name} low{padding} high{padding} {{", shape, "f32")
    writer.lines += ["^bb0(%n: index, %c: index, %i: index, %j: index):", f"  tensor.yield {zero} : f32"]
    writer.lines += [f"}} : {image.type} to {padded_image.type}"]
    return padded_image
