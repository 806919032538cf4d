"""Loads of partial vectors, conversion to f32, and prefetches for writing."""

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.ir.values import splat_of
from autotune.compiler.passes.prefetch import TO_L1
from autotune.compiler.passes.rounding import vector_of


def load_first(source: ir.Value, indices: list[ir.Value], count: int, whole: int) -> ir.Value:
    """Load the first `count` elements of a vector of `whole` elements and pad with zeros."""
    element = str(ir.MemRefType(source.type).element_type)
    part = vector.load(vector_of(count, element), source, indices)
    if count == whole:
        return part
    return vector.insert_strided_slice(part, splat_of(vector_of(whole, element), 0), [0], [1])


def in_f32(values: ir.Value) -> ir.Value:
    """Convert a scalar or vector of floats or signed bytes to f32."""
    is_vector = isinstance(values.type, ir.VectorType)
    element = ir.VectorType(values.type).element_type if is_vector else values.type
    f32_type = vector_of(ir.VectorType(values.type).shape[0], "f32") if is_vector else ir.F32Type.get()
    if str(element) == "f32":
        return values
    return (arith.sitofp if isinstance(element, ir.IntegerType) else arith.extf)(f32_type, values)


def fetch_for_writing(buffer: ir.Value, indices: list[ir.Value]) -> None:
    """Prefetch a cache line for a later store."""
    memref.prefetch(buffer, indices, is_write=True, locality_hint=TO_L1, is_data_cache=True)
