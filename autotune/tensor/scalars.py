"""Operations on single elements, as lines of MLIR: what stands in the body of a ``linalg.generic``.

Booleans are i1 here, bfloat16 is f32; in memory they are bytes and 16 bits. So an element is converted where it is read
and where it is written.
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
Emit = Callable[[str], str]  # appends ``%fresh = TEXT`` and gives the fresh name


def body_type(dtype: DType) -> str:
    """The MLIR type that an element has in a body."""
    return "f32" if is_float(dtype) else "i1" if dtype == bool else "i64" if dtype.itemsize == 8 else "i32"


def constant(emit: Emit, value: float, dtype: DType) -> str:
    """A number."""
    kind = body_type(dtype)
    if kind == "i1":
        return emit(f"arith.constant {'true' if value else 'false'}")
    if kind != "f32":
        return emit(f"arith.constant {int(value)} : {kind}")
    single = np.float32(value)
    text = f"{single:.9e}" if math.isfinite(single) else f"0x{single.view(np.uint32):08X}"
    return emit(f"arith.constant {text} : f32")


def scalar(emit: Emit, node: Node, *elements: str) -> str:
    """The operation of a node on one element of each operand.

    Raises:
        TensorError: There is no such operation on such elements.
    """
    operand = node.inputs[-1].dtype if node.inputs else node.dtype
    kind = body_type(operand)
    names = ", ".join(elements)
    if node.op == "where":
        return emit(f"arith.select {names} : {kind}")
    if node.op == "cast":
        return cast(emit, elements[0], operand, node.dtype)
    if node.op in ORDERS:
        real, whole = ORDERS[node.op]
        return emit(f"arith.cmpf {real}, {names} : f32" if kind == "f32" else f"arith.cmpi {whole}, {names} : {kind}")
    if node.op == "negative" and is_integer(operand):
        return emit(f"arith.subi {constant(emit, 0, operand)}, {names} : {kind}")
    table = FLOAT if kind == "f32" else BOOLEAN if kind == "i1" else WHOLE
    if node.op not in table:
        raise TensorError(f"an operation must be defined for its elements, {node.op} of {operand.name} is not")
    return emit(f"{table[node.op]} {names} : {kind}")


def cast(emit: Emit, element: str, source: DType, target: DType) -> str:
    """An element as another type."""
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
    """A real number that bfloat16 has, as f32."""
    return emit(f"arith.extf {rounded(emit, element)} : bf16 to f32")


def rounded(emit: Emit, element: str) -> str:
    """The upper half of an f32, rounded to the nearest, of two as near to the even one: a bf16.

    Without the processor's help, ``arith.truncf`` is a routine that not all systems have.
    """
    word, half = "i32", "i16"
    bits = emit(f"arith.bitcast {element} : f32 to {word}")
    sixteen, one, most, quiet = (emit(f"arith.constant {n} : {word}") for n in (16, 1, 0x7FFF, 0x7FC0))
    upper = emit(f"arith.shrui {bits}, {sixteen} : {word}")
    odd = emit(f"arith.andi {upper}, {one} : {word}")
    more = emit(f"arith.addi {odd}, {most} : {word}")
    total = emit(f"arith.addi {bits}, {more} : {word}")
    nearest = emit(f"arith.shrui {total}, {sixteen} : {word}")
    undefined = emit(f"arith.cmpf uno, {element}, {element} : f32")
    chosen = emit(f"arith.select {undefined}, {quiet}, {nearest} : {word}")
    short = emit(f"arith.trunci {chosen} : {word} to {half}")
    return emit(f"arith.bitcast {short} : {half} to bf16")


def read(emit: Emit, element: str, stored: str) -> str:
    """An element as it is computed with, from how it is stored."""
    if stored == "bf16":
        return emit(f"arith.extf {element} : bf16 to f32")
    return emit(f"arith.cmpi ne, {element}, {emit('arith.constant 0 : i8')} : i8") if stored == "i8" else element


def written(emit: Emit, element: str, stored: str) -> str:
    """An element as it is stored, from how it is computed with."""
    if stored == "bf16":
        return rounded(emit, element)
    return emit(f"arith.extui {element} : i1 to i8") if stored == "i8" else element


def first(what: str, dtype: DType) -> float:
    """What a fold begins with."""
    if what in ("max", "largest"):
        return -math.inf if is_float(dtype) else int(np.iinfo(dtype).min)
    if what == "min":
        return math.inf if is_float(dtype) else int(np.iinfo(dtype).max)
    return 1 if what in ("prod", "all") else 0
