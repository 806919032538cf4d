"""Products of operands rounded to words of several values: before a script, ops that stand for them.

    %c = linalg.matmul ins(%a, %b)   ->   %w = linalg.generic {autotune.narrow = "int8"} ins(%a)      the rows of A
                                          %c = linalg.generic {autotune.narrow = "int8"} ins(%w, %words of B)

The second has the loops of a matmul, with a word a step of k, and is tiled and fused as one. What the bodies compute
says nothing: when everything is on buffers, `dots.py` writes the code of both.

A B that is known in the call only is packed there, by a third op. Products of a batch, and groups with such, go into a
loop first (`matrices.py`):

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
    """Weights rounded by columns, in words of a precision.

    Attributes:
        precision: The precision.
    """

    precision: Precision
    element: str = WORD

    @property
    def name(self) -> str:
        """That of the precision."""
        return self.precision.name

    @property
    def lacking(self) -> str:
        """The instruction, where there is none."""
        return self.precision.lacking

    def takes(self, op: ir.Operation) -> bool:
        """Whatever is multiplied is rounded."""
        return True

    def shape(self, weight: Shape) -> Shape:
        """The shape of the words, ``(..., words, n)``."""
        *lead, k, n = weight
        return (*lead, self.precision.words(k), n)

    def pack(self, weight: Array, stored: Shape, *, transposed: bool) -> Array:
        """The words of a weight."""
        return pack_words(self.precision, weight, stored, transposed=transposed)

    def replace(self, op: ir.Operation, kernel: ir.Value) -> None:
        """Replace a product of A (m, k), whose C is only filled, by the rounding of A's rows and a product of words."""
        if any(len(static_shape(operand)) != 2 for operand in op.operands):
            raise CompileError("transform", f"{self.name} must be of products of matrices, got another op, {op.name}")
        with ir.InsertionPoint(op), op.location:
            made = product(op.operands[0], op.operands[1], destination(op), self.precision)
        replace(op, made)


def narrow_in_call(function: ir.OpView, precisions: Mapping[str, Precision]) -> None:
    """Replace products by the rounding of A's rows, the packing of B and the product of words.

    Args:
        function: The entry function, on tensors and tagged.
        precisions: Precision of every tag concerned.
    """
    if not precisions:
        return
    groups = find_groups(list(structured_ops(function.regions[0].blocks[0])))
    found = [(group, tag) for group in groups if (tag := tag_of(group.ops[0])) in precisions]
    products = [[op for op in group.in_order if is_product(group.read[op])] for group, _ in found]
    # all are known before any is replaced: ops are found by what they read, which may be what another group gives
    for (group, tag), mine in zip(found, products, strict=True):
        for op in by_matrices(group.in_order, mine) if lead_of(mine[0]) else mine:
            narrow_matrices(op, precisions[tag])


def tag_of(op: ir.Operation) -> str:
    """The tag of an op; empty if it has none."""
    return ir.StringAttr(op.attributes[TAG]).value if TAG in op.attributes else ""


def is_product(read: Op | None) -> bool:
    """Tell whether an op is a contraction."""
    return read is not None and read.contraction is not None


def lead_of(product: ir.Operation) -> int:
    """Leading dimensions of a product."""
    return len(static_shape(product.results[0])) - 2


def by_matrices(ops: list[ir.Operation], products: list[ir.Operation]) -> list[ir.Operation]:
    """The products of a group, which goes into loops over its leading dimensions."""
    root = ops[-1]
    with ir.InsertionPoint(root), root.location:
        made = loop_over_matrices(ops, lead_of(products[0]))
    made[root].attributes[TAG] = root.attributes[TAG]
    found = [made[op] for op in products]
    for op in reversed(ops):
        op.erase()
    return found


def narrow_matrices(op: ir.Operation, precision: Precision) -> None:
    """Replace one product of matrices."""
    _, of_b, of_c = (dimensions(amap) for amap in indexing_maps(op))
    with ir.InsertionPoint(op), op.location:
        words = words_of(op.operands[1], precision, transposed=of_b[-1] != of_c[-1])
        made = product(op.operands[0], words, destination(op), precision)
    replace(op, made)


def product(a: ir.Value, words: ir.Value, into: ir.Value, precision: Precision) -> ir.Value:
    """The product of A's rows and words of B, at the insertion point."""
    (rows, _), (count, _) = static_shape(a), static_shape(words)
    m, n, k = dims(3)
    room = empty_rows(rows, count, ir.IntegerType.get_signless(32), precision)
    rounded = stand_in([a], room, [[m, k], [m, n]], precision)
    return stand_in([rounded, words], into, [[m, k], [k, n], [m, n]], precision)


def words_of(b: ir.Value, precision: Precision, *, transposed: bool) -> ir.Value:
    """The words of B (k, n), or of one that is stored (n, k)."""
    columns, k = static_shape(b) if transposed else static_shape(b)[::-1]
    word, column, value = dims(3)
    into = tensor.empty([precision.words(k), columns], ir.IntegerType.get_signless(32))
    layout = [column, value] if transposed else [value, column]
    made = stand_in([b], into, [layout, [word, column]], precision)
    made.owner.attributes[WORDS_OF_B] = ir.StringAttr.get("nk" if transposed else "kn")
    return made


def replace(op: ir.Operation, made: ir.Value) -> None:
    """Let the readers of an op read what was made instead, which takes its tags."""
    for name in (TAG, WEIGHT_OF):
        if name in op.attributes:
            made.owner.attributes[name] = op.attributes[name]
    op.results[0].replace_all_uses_with(made)
    op.erase()


def destination(op: ir.Operation) -> ir.Value:
    """Where the result of a product goes, whose C was only filled."""
    with ir.InsertionPoint(op), op.location:
        shape = static_shape(op.results[0])
        return filled(op.operands[2]) or tensor.empty(shape, op.results[0].type.element_type)


def empty_rows(rows: int, words: int, word: ir.Type, precision: Precision) -> ir.Value:
    """Where the words of A go. Rows of a tile lie an odd number of cache lines apart, or they would share few sets."""
    lines, left = divmod(words, LINE)
    return empty_with_room([rows, words], [0, 0 if not precision.by_tiles or left or lines % 2 else LINE], word)


def empty_with_room(shape: list[int], room: list[int], element: ir.Type) -> ir.Value:
    """An empty tensor; where room is wanted behind it along some dimensions, a slice of a buffer that is larger.

    That is allocated: a slice of an empty tensor would become a smaller empty tensor wherever a script shrinks those of
    its ops.
    """
    if not any(room):
        return tensor.empty(shape, element)
    whole = ir.RankedTensorType.get([size + more for size, more in zip(shape, room, strict=True)], element)
    padded = bufferization.AllocTensorOp(whole, []).result
    kind = ir.RankedTensorType.get(shape, element)
    return tensor.ExtractSliceOp(kind, padded, [], [], [], [0] * len(shape), shape, [1] * len(shape)).result


def filled(value: ir.Value) -> ir.Value | None:
    """Where a value that is filled lies: the results of a script's payload know already where they are wanted."""
    made_by = fill_of(value)
    return made_by.operands[1] if made_by is not None else None


def stand_in(
    inputs: list[ir.Value], into: ir.Value, layouts: list[list[ir.AffineExpr]], precision: Precision
) -> ir.Value:
    """An op over loops m, n and k that reads its inputs and writes every element."""
    maps = [ir.AffineMap.get(3, 0, layout) for layout in layouts]
    made = generic(inputs, into, maps, ["parallel", "parallel", "reduction"], read_all)
    made.owner.attributes[NARROW] = ir.StringAttr.get(precision.name)
    return made
