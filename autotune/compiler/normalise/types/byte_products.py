"""Sums of products of bytes and known weights, element by element: two products are summed in 16 bits.

    i32(x) * a + i32(y) * b + ..   ->   i32(i16(x) * i16(a) + i16(y) * i16(b)) + ..

A vector holds twice as many numbers of 16 bits, and multiplies them in half the time. The sum of two products fits, as
128 (127 + 127) < 2^15: weights must be known, and none may be -128. So depthwise convolutions of quantised models are
computed, whose channels have weights of their own at each tap of a window.
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

MOST = 127  # of a weight
FITS = "#arith.overflow<nsw>"
ADD, MULTIPLY, WIDEN = "arith.addi", "arith.muli", "arith.extsi"


@dataclass(frozen=True)
class ByteProduct:
    """A product of bytes and a weight.

    Attributes:
        bytes: The bytes.
        read: Map from loops to the element that is read of them.
        weight: The weight, in 32 bits.
        weighed: Map from loops to the element that is read of that.
    """

    bytes: ir.Value
    read: ir.AffineMap
    weight: ir.Value
    weighed: ir.AffineMap


def sum_pairs_of_products(module: ir.Module) -> None:
    """Sum products of bytes by known weights in pairs, in place."""
    changed = False
    for op in every_op(module):
        if not computes(op, ADD) or any(computes(use.owner.operation, ADD) for use in op.results[0].uses):
            continue
        addends = list(addends_of(op))
        products = [found for each in addends if (found := product_of(each)) is not None]
        if len(products) > 1:
            others = [each for each in addends if product_of(each) is None]
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(write_sum(op, products, others))
            changed = True
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def computes(op: ir.Operation, name: str) -> bool:
    """Tell whether an op is element-wise, and one operation of an element of 32 bits for each element."""
    if op.name != "linalg.generic" or len(op.results) != 1 or "reduction" in str(op.attributes["iterator_types"]):
        return False
    kind, body = op.results[0].type, [inner.operation for inner in op.regions[0].blocks[0].operations]
    plain = len(body) == 2 and body[0].name == name and body[1].operands[0] == body[0].results[0]
    given = list(op.regions[0].blocks[0].arguments)[:-1]
    whole = indexing_maps(op)[-1] == ir.AffineMap.get_identity(len(kind.shape))
    return plain and whole and str(kind.element_type) == "i32" and list(body[0].operands) == given


def addends_of(op: ir.Operation) -> Iterator[tuple[ir.Value, ir.AffineMap]]:
    """What an op adds, and what ops before it add that it alone reads."""
    for value, amap in zip(list(op.operands)[:-1], indexing_maps(op), strict=False):
        made_by = maker(value)
        alone = made_by is not None and len(list(value.uses)) == 1 and computes(made_by, ADD)
        if made_by is not None and alone and amap == indexing_maps(op)[-1]:
            yield from addends_of(made_by)
        else:
            yield value, amap


def product_of(addend: tuple[ir.Value, ir.AffineMap]) -> ByteProduct | None:
    """The product that an addend is; `None` if it is none of bytes by a known weight, or is read otherwise."""
    value, amap = addend
    made_by = maker(value)
    if made_by is None or not computes(made_by, MULTIPLY) or amap != indexing_maps(made_by)[-1]:
        return None
    (wide, weight), (first, second, _) = list(made_by.operands)[:2], indexing_maps(made_by)
    widening = maker(wide)
    if widening is None or not computes(widening, WIDEN):
        return None
    given, made = indexing_maps(widening)
    if made not in (given, first):
        return None
    is_known = str(widening.operands[0].type.element_type) == "i8" and is_small(weight)
    return ByteProduct(widening.operands[0], first if given == made else given, weight, second) if is_known else None


def is_small(weight: ir.Value) -> bool:
    """Tell whether a tensor is known, and all its numbers are those of a sign and 7 bits."""
    made_by = maker(weight)
    known = made_by is not None and made_by.name == "arith.constant"
    return known and bool(np.abs(numbers_of(weight)).max(initial=0) <= MOST)


def numbers_of(constant: ir.Value) -> NDArray[np.int64]:
    """The numbers that a known tensor holds."""
    held = np.array(ir.DenseIntElementsAttr(constant.owner.attributes["value"]), np.int64)
    return np.broadcast_to(held, constant.type.shape)


def write_sum(op: ir.Operation, products: list[ByteProduct], others: list[tuple[ir.Value, ir.AffineMap]]) -> ir.Value:
    """The sum of products, and of what else is added."""
    count, kind = len(products), op.results[0].type
    half, whole = ir.IntegerType.get_signless(16), kind.element_type
    inputs = [*(each.bytes for each in products), *(as_bytes(each.weight) for each in products)]
    maps = [*(each.read for each in products), *(each.weighed for each in products)]
    inputs += [value for value, _ in others]
    maps += [amap for _, amap in others]

    def write(*elements: ir.Value) -> ir.Value:
        pairs = zip(elements[:count], elements[count : 2 * count], strict=True)
        found = [arith.muli(*(arith.extsi(half, each) for each in pair)) for pair in pairs]
        sums = [reduce(add_exactly, found[at : at + 2]) for at in range(0, count, 2)]
        return reduce(arith.addi, [*(arith.extsi(whole, each) for each in sums), *elements[2 * count : -1]])

    into = tensor.empty(kind.shape, whole)
    return generic(inputs, into, [*maps, indexing_maps(op)[-1]], ["parallel"] * len(kind.shape), write)


def add_exactly(first: ir.Value, second: ir.Value) -> ir.Value:
    """A sum that fits its type, which says so."""
    return arith.addi(first, second, overflow_flags=ir.Attribute.parse(FITS))


def as_bytes(weight: ir.Value) -> ir.Value:
    """A known weight in bytes."""
    kind = ir.RankedTensorType.get(weight.type.shape, ir.IntegerType.get_signless(8))
    return arith.constant(kind, ir.DenseElementsAttr.get(numbers_of(weight).astype(np.int8), type=kind))
