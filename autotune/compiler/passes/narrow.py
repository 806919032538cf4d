"""Rewrite contractions to reduced precision, with values packed in words, before a script: placeholder ops.

    %c = linalg.matmul ins(%a, %b)   ->   %w = linalg.generic {autotune.narrow = "int8"} ins(%a)      the rows of A
                                          %c = linalg.generic {autotune.narrow = "int8"} ins(%w, %words of B)

The second op has the loops of a matmul, with one word per iteration of k, and is tiled and fused like one. The bodies
are placeholders: after bufferization, `dots.py` generates the code of both.

If B is not a weight, a third op packs it at run time. Batched products, and groups that contain them, are first
rewritten to loops (`matrices.py`):

    %c = linalg.batch_matmul ins(%a, %b)   ->   for i:  %w = .. ins(%a[i]);  %v = .. {autotune.words_of_b} ins(%b[i])
                                                        %c[i] = .. ins(%w, %v)
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import bufferization, tensor

from autotune.compiler.ir.extents import static_shape
from autotune.compiler.ir.nests import dimensions, indexing_maps, structured_ops
from autotune.compiler.ir.values import fill_of
from autotune.compiler.normalise.emit import dims, generic, read_all
from autotune.compiler.panel_weight import WORD, pack_words
from autotune.compiler.passes.matrices import loop_over_matrices
from autotune.compiler.tasks.groups import find_groups
from autotune.core.errors import CompileError
from autotune.core.ops.op import Op
from autotune.core.payload import Array
from autotune.core.plugs.weight_form import Shape, WeightForm
from autotune.core.precision import Precision
from autotune.core.scripts.marks import NARROW, TAG, WEIGHT_OF, WORDS_OF_B

LINE = 16  # words of a cache line


@dataclass(frozen=True)
class Words(WeightForm):
    """Storage form of weights quantized per column and packed in words.

    Attributes:
        precision: Precision of the words.
    """

    precision: Precision
    element: str = WORD

    @property
    def name(self) -> str:
        """Name of the precision."""
        return self.precision.name

    @property
    def lacking(self) -> str:
        """Message on a missing CPU instruction; empty if there is none."""
        return self.precision.lacking

    def takes(self, op: ir.Operation) -> bool:
        """Return true: any contraction is supported."""
        return True

    def shape(self, weight: Shape) -> Shape:
        """Return the shape of the words, ``(..., words, n)``."""
        *lead, k, n = weight
        return (*lead, self.precision.words(k), n)

    def pack(self, weight: Array, stored: Shape, *, transposed: bool) -> Array:
        """Quantize and pack a weight."""
        return pack_words(self.precision, weight, stored, transposed=transposed)

    def replace(self, op: ir.Operation, kernel: ir.Value) -> None:
        """Replace a matmul into a filled C by the quantization of A's rows and a product of words."""
        if any(len(static_shape(operand)) != 2 for operand in op.operands):
            raise CompileError("transform", f"{self.name} must be of products of matrices, got another op, {op.name}")
        with ir.InsertionPoint(op), op.location:
            result = product(op.operands[0], op.operands[1], destination(op), self.precision)
        replace(op, result)


def narrow_in_call(function: ir.OpView, precisions: Mapping[str, Precision]) -> None:
    """Replace contractions by the quantization of A's rows, the packing of B and the product of words.

    Args:
        function: Entry function on tensors, with tags.
        precisions: Precision by tag.
    """
    if not precisions:
        return
    groups = find_groups(list(structured_ops(function.regions[0].blocks[0])))
    tagged_groups = [(group, tag) for group in groups if (tag := tag_of(group.ops[0])) in precisions]
    products = [[op for op in group.in_order if is_product(group.read[op])] for group, _ in tagged_groups]
    # collect all before replacing any: a group may read the result of another one
    for (group, tag), group_products in zip(tagged_groups, products, strict=True):
        for op in by_matrices(group.in_order, group_products) if lead_of(group_products[0]) else group_products:
            narrow_matrices(op, precisions[tag])


def tag_of(op: ir.Operation) -> str:
    """Return the tag of an op; empty if it has none."""
    return ir.StringAttr(op.attributes[TAG]).value if TAG in op.attributes else ""


def is_product(read: Op | None) -> bool:
    """Return whether an op is a contraction."""
    return read is not None and read.contraction is not None


def lead_of(product: ir.Operation) -> int:
    """Return the number of batch dimensions of a product."""
    return len(static_shape(product.results[0])) - 2


def by_matrices(ops: list[ir.Operation], products: list[ir.Operation]) -> list[ir.Operation]:
    """Rewrite a group to loops over its batch dimensions; return its products in them."""
    root = ops[-1]
    with ir.InsertionPoint(root), root.location:
        copy_of = loop_over_matrices(ops, lead_of(products[0]))
    copy_of[root].attributes[TAG] = root.attributes[TAG]
    copies = [copy_of[op] for op in products]
    for op in reversed(ops):
        op.erase()
    return copies


def narrow_matrices(op: ir.Operation, precision: Precision) -> None:
    """Replace one matmul, whose B is packed at run time."""
    _, of_b, of_c = (dimensions(amap) for amap in indexing_maps(op))
    with ir.InsertionPoint(op), op.location:
        words = words_of(op.operands[1], precision, transposed=of_b[-1] != of_c[-1])
        result = product(op.operands[0], words, destination(op), precision)
    replace(op, result)


def product(a: ir.Value, words: ir.Value, into: ir.Value, precision: Precision) -> ir.Value:
    """Build the quantization of A and its product with words of B, at the insertion point."""
    (rows, _), (count, _) = static_shape(a), static_shape(words)
    m, n, k = dims(3)
    room = empty_rows(rows, count, ir.IntegerType.get_signless(32), precision)
    rounded = stand_in([a], room, [[m, k], [m, n]], precision)
    return stand_in([rounded, words], into, [[m, k], [k, n], [m, n]], precision)


def words_of(b: ir.Value, precision: Precision, *, transposed: bool) -> ir.Value:
    """Build the op that packs B (k, n), or (n, k) if `transposed`, in words."""
    columns, k = static_shape(b) if transposed else static_shape(b)[::-1]
    word, column, value = dims(3)
    into = tensor.empty([precision.words(k), columns], ir.IntegerType.get_signless(32))
    layout = [column, value] if transposed else [value, column]
    words = stand_in([b], into, [layout, [word, column]], precision)
    words.owner.attributes[WORDS_OF_B] = ir.StringAttr.get("nk" if transposed else "kn")
    return words


def replace(op: ir.Operation, made: ir.Value) -> None:
    """Replace an op by a value, whose defining op takes its tags."""
    for name in (TAG, WEIGHT_OF):
        if name in op.attributes:
            made.owner.attributes[name] = op.attributes[name]
    op.results[0].replace_all_uses_with(made)
    op.erase()


def destination(op: ir.Operation) -> ir.Value:
    """Return the destination of a product: the tensor that its C was filled into, or a new one."""
    with ir.InsertionPoint(op), op.location:
        shape = static_shape(op.results[0])
        return filled(op.operands[2]) or tensor.empty(shape, op.results[0].type.element_type)


def empty_rows(rows: int, words: int, word: ir.Type, precision: Precision) -> ir.Value:
    """Build the destination of A's words; for tiles, rows are an odd number of cache lines apart, to use more sets."""
    lines, remainder = divmod(words, LINE)
    return empty_with_room([rows, words], [0, 0 if not precision.by_tiles or remainder or lines % 2 else LINE], word)


def empty_with_room(shape: list[int], room: list[int], element: ir.Type) -> ir.Value:
    """Build an empty tensor; with padding along some dimensions, it is a slice of a larger allocation.

    An allocation is needed, as scripts that shrink empty tensors would fold a slice of an empty tensor to a smaller
    one.
    """
    if not any(room):
        return tensor.empty(shape, element)
    padded_type = ir.RankedTensorType.get([size + more for size, more in zip(shape, room, strict=True)], element)
    padded = bufferization.AllocTensorOp(padded_type, []).result
    slice_type = ir.RankedTensorType.get(shape, element)
    return tensor.ExtractSliceOp(slice_type, padded, [], [], [], [0] * len(shape), shape, [1] * len(shape)).result


def filled(value: ir.Value) -> ir.Value | None:
    """Return the destination of the fill that defines a value; `None` if it is not filled."""
    made_by = fill_of(value)
    return made_by.operands[1] if made_by is not None else None


def stand_in(
    inputs: list[ir.Value], into: ir.Value, layouts: list[list[ir.AffineExpr]], precision: Precision
) -> ir.Value:
    """Build a placeholder op over loops m, n and k that reads its inputs and writes every element."""
    maps = [ir.AffineMap.get(3, 0, layout) for layout in layouts]
    result = generic(inputs, into, maps, ["parallel", "parallel", "reduction"], read_all)
    result.owner.attributes[NARROW] = ir.StringAttr.get(precision.name)
    return result
