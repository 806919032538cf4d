"""Native functions of patterns: constraints on bodies, layouts and constants, and rewrites of operations with regions.

Users' files refer to them by name, so that names and meanings are stable.
"""

import numpy as np
from mlir import ir
from mlir.dialects import linalg

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import maker
from autotune.contrib.rules.batch_norm import folds_into, write_folded
from autotune.contrib.rules.bodies import (
    beside,
    compares_indices,
    computes_by_element,
    is_row_maximum,
    is_used_once,
    known_number,
    number_of,
    shifted,
    takes_off_rows,
    undoes,
)
from autotune.contrib.rules.signature import Native
from autotune.contrib.rules.writing import combined, read_instead

OP, VALUE, ATTRIBUTE = "operation", "value", "attribute"
MOST_ELEMENTS = 1 << 24  # of a constant whose elements are inspected


def is_number(attribute: ir.Attribute, number: ir.Attribute) -> bool:
    """Return whether a constant is the given number, or a splat of it."""
    return number_of(attribute) == float(ir.FloatAttr(number).value)


def is_zeros(value: ir.Value) -> bool:
    """Return whether a tensor is filled with zeros."""
    return known_number(value) == 0.0


def is_identity(value: ir.Value) -> bool:
    """Return whether a value is an identity matrix: a constant, or computed from indices."""
    made_by = maker(value)
    if made_by is not None and made_by.name == "linalg.generic":
        return compares_indices(made_by)
    if made_by is None or made_by.name != "arith.constant":
        return False
    attribute, kind = made_by.attributes["value"], value.type
    shaped = isinstance(kind, ir.RankedTensorType) and len(kind.shape) == 2 and kind.shape[0] == kind.shape[1]
    if not shaped or kind.shape[0] ** 2 > MOST_ELEMENTS or not isinstance(attribute, ir.DenseFPElementsAttr):
        return False
    matrix = (
        np.array([float(attribute[index]) for index in range(len(attribute))])
        if str(kind.element_type) == "bf16"
        else attribute
    )
    return bool(np.array_equal(np.array(matrix).reshape(kind.shape), np.eye(kind.shape[0])))


def is_read_by_rows(op: ir.Operation, number: ir.Attribute) -> bool:
    """Return whether a product reads an operand as it is stored, (m, k) or (k, n), and writes (m, n)."""
    position = ir.IntegerAttr(number).value
    maps = [dimensions(amap) for amap in indexing_maps(op)]
    return position in (0, 1) and maps[2] == [0, 1] and maps[position] == ([0, 2], [2, 1])[position]


def are_alike(op: ir.Operation, other: ir.Operation) -> bool:
    """Return whether two contractions are equal except for their operands."""
    product = all(each.name.startswith("linalg.") and linalg.isa_contraction_op(each) for each in (op, other))
    maps, others = map(str, indexing_maps(op)), map(str, indexing_maps(other))
    types = [v.type for v in op.operands] == [v.type for v in other.operands]
    return product and op.name == other.name and types and list(maps) == list(others)


def common_factor(op: ir.Operation, other: ir.Operation) -> tuple[ir.Value, ir.Value, ir.Value] | None:
    """Return the common operand of two products and the other operand of each; `None` if there is none."""
    for mine in (0, 1):
        for theirs in (0, 1):
            if op.operands[mine] == other.operands[theirs]:
                return op.operands[mine], op.operands[1 - mine], other.operands[1 - theirs]
    return None


CONDITIONS = {
    native.name: native
    for native in (
        Native("is_number", (ATTRIBUTE, ATTRIBUTE), (), is_number, "a constant is this number everywhere"),
        Native("is_zeros", (VALUE,), (), is_zeros, "a tensor is filled with zeros"),
        Native("is_identity", (VALUE,), (), is_identity, "a constant matrix is the identity"),
        Native("is_used_once", (OP,), (), is_used_once, "one op alone reads its result"),
        Native("is_read_by_rows", (OP, ATTRIBUTE), (), is_read_by_rows, "a product reads this operand as stored"),
        Native("are_alike", (OP, OP), (), are_alike, "two products differ in operands alone"),
        Native("by_element", (OP, ATTRIBUTE), (), computes_by_element, "one operation on elements of equal tensors"),
        Native("beside", (OP, ATTRIBUTE, ATTRIBUTE), (VALUE,), beside, "what an operation has beside this number"),
        Native("undoes", (OP, OP), (VALUE,), undoes, "what one op moves and the other moves back"),
        Native("shifted", (OP,), (VALUE,), shifted, "what is shifted, each row by one number"),
        Native("row_maximum", (OP,), (), is_row_maximum, "the maximum of every row"),
        Native("takes_off_rows", (OP,), (), takes_off_rows, "takes its own number from every row"),
        Native("common_factor", (OP, OP), (VALUE, VALUE, VALUE), common_factor, "the common factor, and the others"),
        Native(
            "folds_into", (OP,), (VALUE,), folds_into, "the convolution of constants that an op of channels folds into"
        ),
    )
}
WRITERS = {
    native.name: native
    for native in (
        Native("read_instead", (OP, ATTRIBUTE, VALUE), (OP,), read_instead, "a copy with another operand"),
        Native(
            "combined", (ATTRIBUTE, VALUE, VALUE), (VALUE,), combined, "one operation on the elements of two tensors"
        ),
        Native("folded", (OP, VALUE), (OP,), write_folded, "a convolution with other kernel and bias"),
    )
}
