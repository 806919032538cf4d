"""Sum element-wise products of i8 values and constant weights in pairs in i16.

    i32(x) * a + i32(y) * b + ..   ->   i32(i16(x) * i16(a) + i16(y) * i16(b)) + ..

A vector holds twice as many elements of 16 bits. The sum of two products does not overflow, as 128 (127 + 127) < 2^15,
if weights are constant and none is -128. This applies to depthwise convolutions of quantised models, whose channels
have their own weights at each tap of a window.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from mlir import ir
from mlir.dialects import arith, tensor
from numpy.typing import NDArray

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import indexing_maps
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.emit import generic

MOST = 127  # largest magnitude of a weight
FITS = "#arith.overflow<nsw>"
ADD, MULTIPLY, WIDEN = "arith.addi", "arith.muli", "arith.extsi"


@dataclass(frozen=True)
class ByteProduct:
    """Product of an i8 tensor and a weight.

    Attributes:
        bytes: Tensor of i8.
        read: Indexing map of `bytes`.
        weight: Weight, a constant tensor of i32.
        weighed: Indexing map of the weight.
    """

    bytes: ir.Value
    read: ir.AffineMap
    weight: ir.Value
    weighed: ir.AffineMap


def sum_pairs_of_products(module: ir.Module) -> None:
    """Sum products of i8 tensors and constant weights in pairs, in place."""
    changed = False
    for op in every_op(module):
        if not computes(op, ADD) or any(computes(use.owner.operation, ADD) for use in op.results[0].uses):
            continue
        addends = list(addends_of(op))
        products = [product for each in addends if (product := product_of(each)) is not None]
        if len(products) > 1:
            remaining = [each for each in addends if product_of(each) is None]
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(write_sum(op, products, remaining))
            changed = True
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def computes(op: ir.Operation, name: str) -> bool:
    """Return whether an operation is element-wise with i32 results and its body is one given scalar operation."""
    if op.name != "linalg.generic" or len(op.results) != 1 or "reduction" in str(op.attributes["iterator_types"]):
        return False
    result_type, body = op.results[0].type, [inner.operation for inner in op.regions[0].blocks[0].operations]
    has_one_op = len(body) == 2 and body[0].name == name and body[1].operands[0] == body[0].results[0]
    arguments = list(op.regions[0].blocks[0].arguments)[:-1]
    is_identity = indexing_maps(op)[-1] == ir.AffineMap.get_identity(len(result_type.shape))
    return has_one_op and is_identity and str(result_type.element_type) == "i32" and list(body[0].operands) == arguments


def addends_of(op: ir.Operation) -> Iterator[tuple[ir.Value, ir.AffineMap]]:
    """Yield the operands of a sum, with indexing maps; single-use sums among them are flattened."""
    for value, amap in zip(list(op.operands)[:-1], indexing_maps(op), strict=False):
        producer = maker(value)
        is_nested = producer is not None and len(list(value.uses)) == 1 and computes(producer, ADD)
        if producer is not None and is_nested and amap == indexing_maps(op)[-1]:
            yield from addends_of(producer)
        else:
            yield value, amap


def product_of(addend: tuple[ir.Value, ir.AffineMap]) -> ByteProduct | None:
    """Match an addend that is a product of widened i8 and a constant weight; return `None` if it does not match."""
    value, amap = addend
    producer = maker(value)
    if producer is None or not computes(producer, MULTIPLY) or amap != indexing_maps(producer)[-1]:
        return None
    (wide, weight), (first, second, _) = list(producer.operands)[:2], indexing_maps(producer)
    widening = maker(wide)
    if widening is None or not computes(widening, WIDEN):
        return None
    input_map, output_map = indexing_maps(widening)
    if output_map not in (input_map, first):
        return None
    is_known = str(widening.operands[0].type.element_type) == "i8" and is_small(weight)
    return (
        ByteProduct(widening.operands[0], first if input_map == output_map else input_map, weight, second)
        if is_known
        else None
    )


def is_small(weight: ir.Value) -> bool:
    """Return whether a tensor is constant and the magnitude of all its elements is at most 127."""
    producer = maker(weight)
    is_known = producer is not None and producer.name == "arith.constant"
    return is_known and bool(np.abs(numbers_of(weight)).max(initial=0) <= MOST)


def numbers_of(constant: ir.Value) -> NDArray[np.int64]:
    """Return the elements of a constant tensor."""
    elements = np.array(ir.DenseIntElementsAttr(constant.owner.attributes["value"]), np.int64)
    return np.broadcast_to(elements, constant.type.shape)


def write_sum(op: ir.Operation, products: list[ByteProduct], others: list[tuple[ir.Value, ir.AffineMap]]) -> ir.Value:
    """Build the sum of products, in pairs, and of the other addends."""
    count, result_type = len(products), op.results[0].type
    i16, i32 = ir.IntegerType.get_signless(16), result_type.element_type
    inputs = [*(each.bytes for each in products), *(as_bytes(each.weight) for each in products)]
    maps = [*(each.read for each in products), *(each.weighed for each in products)]
    inputs += [value for value, _ in others]
    maps += [amap for _, amap in others]

    def write(*elements: ir.Value) -> ir.Value:
        pairs = zip(elements[:count], elements[count : 2 * count], strict=True)
        multiplied = [arith.muli(*(arith.extsi(i16, each) for each in pair)) for pair in pairs]
        sums = [reduce(add_exactly, multiplied[at : at + 2]) for at in range(0, count, 2)]
        return reduce(arith.addi, [*(arith.extsi(i32, each) for each in sums), *elements[2 * count : -1]])

    into = tensor.empty(result_type.shape, i32)
    return generic(inputs, into, [*maps, indexing_maps(op)[-1]], ["parallel"] * len(result_type.shape), write)


def add_exactly(first: ir.Value, second: ir.Value) -> ir.Value:
    """Build an addition that does not overflow, with the flag ``nsw``."""
    return arith.addi(first, second, overflow_flags=ir.Attribute.parse(FITS))


def as_bytes(weight: ir.Value) -> ir.Value:
    """Build a constant weight as i8."""
    byte_type = ir.RankedTensorType.get(weight.type.shape, ir.IntegerType.get_signless(8))
    return arith.constant(byte_type, ir.DenseElementsAttr.get(numbers_of(weight).astype(np.int8), type=byte_type))
