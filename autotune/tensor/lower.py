"""Lower the nodes of a graph to linalg on tensors, with one rule for each operation."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from autotune.tensor.contractions import conv2d, matmul
from autotune.tensor.graph import ARRAY, INPUT, Node
from autotune.tensor.scalars import FOLDS, constant, first, read, scalar, written
from autotune.tensor.text import LoopBody, Writer
from autotune.tensor.views import Formula, Stored, View, aligned, loops_of, seen, squeezed

DEEPEST = 20  # a formula nested deeper than this is stored
Rule = Callable[..., View]


def lower(writer: Writer, nodes: tuple[Node, ...], leaves: Mapping[Node, Stored]) -> dict[Node, View]:
    """Emit the operations of a graph and return the view of each node; nodes without elements are skipped.

    Args:
        writer: Writer that operations are appended to.
        nodes: Nodes, operands first.
        leaves: Stored values of the constant arrays and of the arguments.
    """
    views: dict[Node, View] = {}
    for node in nodes:
        if 0 in node.shape:
            continue
        if node.op in (ARRAY, INPUT):
            views[node] = seen(node, leaves[node])
        else:
            views[node] = RULES.get(node.op, each_element)(writer, node, *(views.get(each) for each in node.inputs))
    return views


def formula(node: Node, *operands: View) -> View:
    """Return a view of a node that is computed where it is read instead of being stored."""
    depth = 1 + max((v.source.depth for v in operands if isinstance(v.source, Formula)), default=0)
    return View(node, Formula(node, operands, depth), node.shape, tuple(range(len(node.shape))))


def leaf(_: Writer, node: Node) -> View:
    """Lower a constant (``full``) or an index (``iota``): nothing is emitted."""
    return formula(node)


def each_element(writer: Writer, node: Node, *operands: View) -> View:
    """Lower an elementwise operation: to a formula if all operands are shallow formulas, else to ``linalg.generic``."""
    result_view = formula(node, *operands)
    if all(isinstance(v.source, Formula) and v.source.depth < DEEPEST for v in operands):
        return result_view
    loops, body = loops_of(node.shape), LoopBody()
    elements = [body.element(view, aligned(view.shape, loops)) for view in operands]
    into = writer.empty(squeezed(node.shape), result_view.element)
    result = written(body.emit, scalar(body.emit, node, *elements), into.element)
    return seen(node, writer.generic(body, result, into, len(into.shape)))


def look(_: Writer, node: Node, x: View) -> View:
    """Lower a permutation, insertion or removal of axes: only the view changes."""
    (dims,) = node.attributes
    return replace(x, shape=node.shape, dims=tuple(None if d is None else dims[d] for d in x.dims))


def fold(writer: Writer, node: Node, x: View | None) -> View:
    """Lower a reduction along axes."""
    kind, axes = node.attributes
    start = Node("full", (), node.dtype, attributes=(first(kind, node.dtype),))
    if x is None:
        return View(node, Formula(start), node.shape, ())
    order = [d for d in range(len(x.shape)) if d not in axes]
    loops = loops_of(x.shape, [*order, *axes])
    count, body = len(squeezed(x.shape)), LoopBody()
    element = body.element(x, loops)
    covered = {loop for _, dims in body.inputs for loop in dims} | set(range(len(squeezed(node.shape))))
    if len(covered) < count:  # linalg infers the size of a loop from an operand that it indexes
        x, body = seen(x.node, writer.stored(x), x.shape), LoopBody()
        element = body.element(x, loops)
    initial_value = number(writer, first(kind, node.dtype), x)
    into = writer.filled(squeezed(node.shape), x.element, initial_value)
    so_far = read(body.emit, "%acc", into.element)
    if kind == "largest":
        result = body.emit(f"arith.maximumf {so_far}, {element} fastmath<nnan,nsz> : f32")
    else:
        result = scalar(body.emit, Node(FOLDS[kind], (), node.dtype), so_far, element)
    return seen(node, writer.generic(body, written(body.emit, result, into.element), into, count))


def number(writer: Writer, value: float, like: View) -> str:
    """Emit a constant of the element type that a view is stored with."""
    if like.element == "i8":
        return writer.emit(f"arith.constant {int(value)} : i8")
    return constant(writer.emit, value, like.node.dtype)


def reshape(writer: Writer, node: Node, x: View) -> View:
    """Lower a reshape, which keeps the row-major order of the elements."""
    return seen(node, writer.shaped(writer.stored(x), squeezed(node.shape)))


def part(writer: Writer, node: Node, x: View) -> View:
    """Lower a strided slice."""
    starts, steps = node.attributes
    source = x.source
    if isinstance(source, Formula):
        source = writer.stored(x)
        x = seen(x.node, source, x.shape)
    dims = [d for d in x.dims if d is not None]
    sizes = [node.shape[d] for d in dims]
    text = (
        f"tensor.extract_slice {source.name}{[starts[d] for d in dims]} {sizes} "
        f"{[steps[d] if node.shape[d] > 1 else 1 for d in dims]} : {source.type} to TYPE"
    )
    remaining_dims = tuple(d for d in dims if node.shape[d] != 1)
    cut = writer.define(text, tuple(node.shape[d] for d in remaining_dims), source.element) if dims else source
    return View(node, cut, node.shape, remaining_dims)


def concat(writer: Writer, node: Node, *parts: View | None) -> View:
    """Lower a concatenation along an axis to ``tensor.insert_slice``; operands without elements are skipped."""
    (axis,) = node.attributes
    nonempty = [operand for operand in parts if operand is not None]
    if len(nonempty) == 1:
        return nonempty[0]
    into = writer.empty(squeezed(node.shape), nonempty[0].element)
    start = 0
    for operand in nonempty:
        stored = writer.stored(operand, into.element)
        dims = [d for d, size in enumerate(node.shape) if size != 1]
        offsets = [start if d == axis else 0 for d in dims]
        sizes = [operand.shape[d] for d in dims]
        text = f"tensor.insert_slice {stored.name} into {into.name}{offsets} {sizes} {[1 for _ in dims]}"
        into = writer.define(f"{text} : {stored.type} into TYPE", into.shape, into.element)
        start += operand.shape[axis]
    return seen(node, into)


def take(writer: Writer, node: Node, x: View, indices: View) -> View:
    """Lower a gather along an axis."""
    (axis,) = node.attributes
    source, loops, body = writer.stored(x), loops_of(node.shape), LoopBody()
    index_rank = len(indices.shape)
    index_type = "i64" if indices.node.dtype.itemsize == 8 else "i32"
    index_element = body.element(indices, loops[axis : axis + index_rank])
    index = body.emit(f"arith.index_cast {index_element} : {index_type} to index")
    coordinates = []
    for d in (d for d, size in enumerate(x.shape) if size != 1):
        loop = None if d == axis else loops[d if d < axis else d + index_rank - 1]
        coordinates.append(index if loop is None else body.emit(f"linalg.index {loop} : index"))
    element = body.emit(f"tensor.extract {source.name}[{', '.join(coordinates)}] : {source.type}")
    into = writer.empty(squeezed(node.shape), x.element)
    result = written(body.emit, read(body.emit, element, source.element), into.element)
    return seen(node, writer.generic(body, result, into, len(into.shape)))


RULES: dict[str, Rule] = {
    "full": leaf,
    "iota": leaf,
    "view": look,
    "fold": fold,
    "reshape": reshape,
    "slice": part,
    "concat": concat,
    "take": take,
    "matmul": matmul,
    "conv2d": conv2d,
}
