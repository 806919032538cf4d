"""Vectors that are not full, numbers in f32, and lines that will be written."""

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.ir.values import splat_of
from autotune.compiler.passes.prefetch import TO_L1
from autotune.compiler.passes.rounding import vector_of


def load_first(source: ir.Value, indices: list[ir.Value], count: int, whole: int) -> ir.Value:
    """A vector of which the first elements are loaded, and the others are zero."""
    element = str(ir.MemRefType(source.type).element_type)
    part = vector.load(vector_of(count, element), source, indices)
    if count == whole:
        return part
    return vector.insert_strided_slice(part, splat_of(vector_of(whole, element), 0), [0], [1])


def in_f32(values: ir.Value) -> ir.Value:
    """A number or a vector, of floats or of bytes with a sign, in f32."""
    is_vector = isinstance(values.type, ir.VectorType)
    element = ir.VectorType(values.type).element_type if is_vector else values.type
    wanted = vector_of(ir.VectorType(values.type).shape[0], "f32") if is_vector else ir.F32Type.get()
    if str(element) == "f32":
        return values
    return (arith.sitofp if isinstance(element, ir.IntegerType) else arith.extf)(wanted, values)


def fetch_for_writing(buffer: ir.Value, indices: list[ir.Value]) -> None:
    """Fetch a line that is written later."""
    memref.prefetch(buffer, indices, is_write=True, locality_hint=TO_L1, is_data_cache=True)
