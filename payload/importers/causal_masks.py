"""Replacement of constant causal masks by computations on indices; runs in the converter's process only.

    mask[.., i, j]   ->   j <= i ? seen : hidden

Exporters store a mask as a constant for the sizes of the example. Computed from indices, it has the same bits, and
schedules can skip the masked elements (`autotune.compiler.tasks.causal`).
"""

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.payload import MASKED, Array
from payload.importers.torch_ops import ops_named

if TYPE_CHECKING:
    from torch_mlir.ir import Module, Operation, Value

LEAST = 2  # minimum number of rows and columns of a mask
ULE, UGT = 7, 8  # unsigned predicates of arith.cmpi


def compute_masks(module: "Module", constants: Mapping[int, Array]) -> None:
    """Make ``linalg.generic`` ops compute the causal masks that they read, in place.

    Args:
        module: Module to change, in its context.
        constants: Values of constant arguments, by argument number.
    """
    masks: dict[Value, tuple[Any, Any] | None] = {}
    for op in ops_named(module.operation, "linalg.generic"):
        for number, value in enumerate(list(op.operands)[: len(op.operands) - len(op.results)]):
            if value not in masks:
                array = values_of(value, constants)
                masks[value] = None if array is None else ends_of(array)
            ends = masks[value]
            if ends is not None:
                compute_mask(op, number, *ends)


def values_of(value: "Value", constants: Mapping[int, Array]) -> Array | None:
    """Return the elements of a tensor that is a weight or a constant; `None` for any other."""
    from torch_mlir.ir import BlockArgument, DenseElementsAttr  # noqa: PLC0415

    if isinstance(value, BlockArgument):
        return constants.get(value.arg_number) if value.owner.owner.operation.name == "func.func" else None
    attribute = value.owner.attributes["value"] if value.owner.name == "arith.constant" else None
    if not isinstance(attribute, DenseElementsAttr) or attribute.is_splat:
        return None
    return np.array(attribute).reshape(attribute.type.shape)


def ends_of(array: Array) -> tuple[Any, Any] | None:
    """Return the values of a causal mask up to and beyond the diagonal: booleans, or summands of scores.

    Return `None` for any other array. For most weights only two elements are read.

    Example:
        >>> ends_of(np.array([[True, False, False], [True, True, False]]))
        (True, False)
    """
    if array.ndim < 2 or min(array.shape[-2:]) < LEAST or prod(array.shape[:-2]) != 1:
        return None
    rows, columns = array.shape[-2:]
    matrix = array.reshape(rows, columns)
    seen, hidden = matrix[0, 0], matrix[0, -1]
    is_mask = seen != hidden if matrix.dtype.kind == "b" else seen == 0 and hidden <= MASKED
    if not is_mask or not np.array_equal(matrix, np.where(np.tri(rows, columns, dtype=bool), seen, hidden)):
        return None
    return seen.item(), hidden.item()


def compute_mask(op: "Operation", number: int, seen: float, hidden: float) -> None:
    """Compute the elements of a mask operand from indices, if the op reads them by plain dimensions."""
    from torch_mlir.ir import (  # noqa: PLC0415
        AffineDimExpr,
        FloatAttr,
        IndexType,
        InsertionPoint,
        IntegerAttr,
        IntegerType,
        Operation,
    )

    results = list(op.attributes["indexing_maps"][number].value.results)[-2:]
    if not all(isinstance(each, AffineDimExpr) for each in results):
        return
    element, long = op.regions[0].blocks[0].arguments[number], IntegerType.get_signless(64)
    with InsertionPoint.at_block_begin(op.regions[0].blocks[0]), op.location:
        row, column = (
            Operation.create(
                "linalg.index", [IndexType.get()], attributes={"dim": IntegerAttr.get(long, each.position)}
            )
            for each in results
        )
        order = {"predicate": IntegerAttr.get(long, UGT if seen is False else ULE)}
        mask = Operation.create("arith.cmpi", [IntegerType.get_signless(1)], [column.result, row.result], order)
        if not isinstance(seen, bool):
            ends = (
                Operation.create(
                    "arith.constant", [element.type], attributes={"value": FloatAttr.get(element.type, end)}
                )
                for end in (seen, hidden)
            )
            mask = Operation.create("arith.select", [element.type], [mask.result, *(each.result for each in ends)])
        element.replace_all_uses_with(mask.result)
