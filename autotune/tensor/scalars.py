"""Scalar operations as lines of MLIR, for the body of a ``linalg.generic``.

In a body, booleans are i1 and bfloat16 is f32; in memory they are i8 and bf16. Elements are converted when they are
read and written.
"""

import math
from collections.abc import Callable

import numpy as np

from autotune.core.errors import TensorError
from autotune.tensor.dtypes import DType, bool, is_float, is_integer
from autotune.tensor.elementwise import REAL
from autotune.tensor.graph import Node

FLOAT = {name: f"math.{name}" for name in REAL} | {
    "add": "arith.addf",
    "subtract": "arith.subf",
    "multiply": "arith.mulf",
    "divide": "arith.divf",
    "maximum": "arith.maximumf",
    "minimum": "arith.minimumf",
    "remainder_toward_zero": "arith.remf",
    "negative": "arith.negf",
    "absolute": "math.absf",
    "power": "math.powf",
    "atan2": "math.atan2",
    "copysign": "math.copysign",
    "floor_real": "math.floor",
    "ceil_real": "math.ceil",
    "trunc_real": "math.trunc",
    "round_real": "math.roundeven",
}
WHOLE = {
    "add": "arith.addi",
    "subtract": "arith.subi",
    "multiply": "arith.muli",
    "divide_toward_zero": "arith.divsi",
    "maximum": "arith.maxsi",
    "minimum": "arith.minsi",
    "shift_left": "arith.shli",
    "shift_right": "arith.shrsi",
    "bitwise_and": "arith.andi",
    "bitwise_or": "arith.ori",
    "bitwise_xor": "arith.xori",
}
BOOLEAN = {
    "logical_and": "arith.andi",
    "logical_or": "arith.ori",
    "logical_xor": "arith.xori",
    "bitwise_and": "arith.andi",
    "bitwise_or": "arith.ori",
    "bitwise_xor": "arith.xori",
}
ORDERS = {
    "equal": ("oeq", "eq"),
    "not_equal": ("une", "ne"),
    "less": ("olt", "slt"),
    "less_equal": ("ole", "sle"),
    "greater": ("ogt", "sgt"),
    "greater_equal": ("oge", "sge"),
}
FOLDS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
FOLDS |= {"all": "logical_and", "any": "logical_or"}
Emit = Callable[[str], str]  # appends ``%fresh = TEXT`` and returns the fresh name


def body_type(dtype: DType) -> str:
    """Return the MLIR type of an element in a body."""
    return "f32" if is_float(dtype) else "i1" if dtype == bool else "i64" if dtype.itemsize == 8 else "i32"


def constant(emit: Emit, value: float, dtype: DType) -> str:
    """Emit a constant."""
    element_type = body_type(dtype)
    if element_type == "i1":
        return emit(f"arith.constant {'true' if value else 'false'}")
    if element_type != "f32":
        return emit(f"arith.constant {int(value)} : {element_type}")
    single = np.float32(value)
    text = f"{single:.9e}" if math.isfinite(single) else f"0x{single.view(np.uint32):08X}"
    return emit(f"arith.constant {text} : f32")


def scalar(emit: Emit, node: Node, *elements: str) -> str:
    """Emit the operation of a node on one element of each operand.

    Raises:
        TensorError: The operation is not defined for the element type.
    """
    operand = node.inputs[-1].dtype if node.inputs else node.dtype
    mlir = body_type(operand)
    names = ", ".join(elements)
    if node.op == "where":
        return emit(f"arith.select {names} : {mlir}")
    if node.op == "cast":
        return cast(emit, elements[0], operand, node.dtype)
    if node.op in ORDERS:
        real, whole = ORDERS[node.op]
        return emit(f"arith.cmpf {real}, {names} : f32" if mlir == "f32" else f"arith.cmpi {whole}, {names} : {mlir}")
    if node.op == "negative" and is_integer(operand):
        return emit(f"arith.subi {constant(emit, 0, operand)}, {names} : {mlir}")
    table = FLOAT if mlir == "f32" else BOOLEAN if mlir == "i1" else WHOLE
    if node.op not in table:
        raise TensorError(f"an operation must be defined for its elements, {node.op} of {operand.name} is not")
    return emit(f"{table[node.op]} {names} : {mlir}")


def cast(emit: Emit, element: str, source: DType, target: DType) -> str:
    """Convert an element to another type."""
    old, new = body_type(source), body_type(target)
    if target == bool:
        compare = "arith.cmpf une" if old == "f32" else "arith.cmpi ne"
        return emit(f"{compare}, {element}, {constant(emit, 0, source)} : {old}")
    if old == new:
        return narrowed(emit, element) if is_float(target) and target.itemsize < source.itemsize else element
    if new == "f32":
        wide = emit(f"arith.sitofp {element} : {old} to f32")
        return narrowed(emit, wide) if target.itemsize == 2 else wide
    op = {"f32": "arith.fptosi", "i1": "arith.extui", "i32": "arith.extsi", "i64": "arith.trunci"}[old]
    return emit(f"{op} {element} : {old} to {new}")


def narrowed(emit: Emit, element: str) -> str:
    """Round an f32 to bfloat16 precision."""
    return emit(f"arith.extf {rounded(emit, element)} : bf16 to f32")


def rounded(emit: Emit, element: str) -> str:
    """Convert an f32 to bf16, rounding to nearest even, by integer arithmetic.

    On targets without the instruction, ``arith.truncf`` becomes a call of a runtime routine that not all systems have.
    """
    word, half = "i32", "i16"
    bits = emit(f"arith.bitcast {element} : f32 to {word}")
    shift_width, one, rounding_bias, quiet_nan = (emit(f"arith.constant {n} : {word}") for n in (16, 1, 0x7FFF, 0x7FC0))
    upper = emit(f"arith.shrui {bits}, {shift_width} : {word}")
    odd = emit(f"arith.andi {upper}, {one} : {word}")
    bias = emit(f"arith.addi {odd}, {rounding_bias} : {word}")
    total = emit(f"arith.addi {bits}, {bias} : {word}")
    nearest = emit(f"arith.shrui {total}, {shift_width} : {word}")
    undefined = emit(f"arith.cmpf uno, {element}, {element} : f32")
    upper_half = emit(f"arith.select {undefined}, {quiet_nan}, {nearest} : {word}")
    bits_of_result = emit(f"arith.trunci {upper_half} : {word} to {half}")
    return emit(f"arith.bitcast {bits_of_result} : {half} to bf16")


def read(emit: Emit, element: str, stored: str) -> str:
    """Convert an element from its storage type to its type in a body."""
    if stored == "bf16":
        return emit(f"arith.extf {element} : bf16 to f32")
    return emit(f"arith.cmpi ne, {element}, {emit('arith.constant 0 : i8')} : i8") if stored == "i8" else element


def written(emit: Emit, element: str, stored: str) -> str:
    """Convert an element from its type in a body to its storage type."""
    if stored == "bf16":
        return rounded(emit, element)
    return emit(f"arith.extui {element} : i1 to i8") if stored == "i8" else element


def first(kind: str, dtype: DType) -> float:
    """Return the neutral element of a reduction."""
    if kind in ("max", "largest"):
        return -math.inf if is_float(dtype) else int(np.iinfo(dtype).min)
    if kind == "min":
        return math.inf if is_float(dtype) else int(np.iinfo(dtype).max)
    return 1 if kind in ("prod", "all") else 0
