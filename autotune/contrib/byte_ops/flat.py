"""Vectors of any shape in parts of one length: flattened, cut, padded with zeros, and joined again."""

from collections.abc import Callable
from math import prod

from mlir import ir
from mlir.dialects import vector

from autotune.compiler.ir.values import splat_of
from autotune.compiler.passes.rounding import first_of, vector_of, widened


def flat(value: ir.Value) -> ir.Value:
    """Reshape a vector to one dimension."""
    vector_type = ir.VectorType(value.type)
    return vector.shape_cast(vector_of(prod(vector_type.shape), str(vector_type.element_type)), value)


def cut(source: ir.Value, length: int) -> list[ir.Value]:
    """Cut a flat vector into vectors of a length; the last is padded with zeros."""
    vector_type = ir.VectorType(source.type)
    (count,) = vector_type.shape
    parts = []
    for start in range(0, count, length):
        size = min(length, count - start)
        part_type = vector_of(size, str(vector_type.element_type))
        parts.append(widened(vector.extract_strided_slice(part_type, source, [start], [size], [1]), length))
    return parts


def in_parts(write: Callable[..., ir.Value], length: int, vector_type: ir.Type, *operands: ir.Value) -> ir.Value:
    """Apply code of vectors of a length to vectors of any shape.

    Args:
        write: Builder of the code; gets a part of each operand.
        length: Elements of a part.
        vector_type: Vector type of the result.
        operands: Vectors of the shape of the result.
    """
    result_type = ir.VectorType(vector_type)
    count = prod(result_type.shape)
    result = splat_of(vector_of(count, str(result_type.element_type)), 0)
    pieces = zip(*(cut(flat(each), length) for each in operands), strict=True)
    for number, parts in enumerate(pieces):
        start = number * length
        part = first_of(write(*parts), min(length, count - start))
        result = vector.insert_strided_slice(part, result, [start], [1])
    return vector.shape_cast(result_type, result)
