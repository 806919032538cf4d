"""Lazy arrays with the names of NumPy and of the array API standard, compiled as one program.

import autotune.tensor as T

y = T.softmax(T.asarray(a) @ b)      # a graph: shapes and element types are checked here, nothing is computed
y.numpy()                            # compiled and computed
f = T.compile(lambda x: T.gelu(x @ w) + 1)   # arrays of NumPy in and out; compiled once a shape
T.tune(f, x, trials=60)              # searches schedules; functions compiled from then on use them
"""

from autotune.core.errors import TensorError, TensorIndexError, TensorTypeError
from autotune.tensor.arithmetic import (
    abs,
    acosh,
    asinh,
    atanh,
    bitwise_invert,
    clip,
    floor_divide,
    isfinite,
    isinf,
    isnan,
    logical_not,
    positive,
    pow,
    reciprocal,
    remainder,
    sign,
    square,
)
from autotune.tensor.compiled import CompiledFunction, compile, payload, tune
from autotune.tensor.creation import (
    arange,
    asarray,
    eye,
    full,
    full_like,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from autotune.tensor.dtypes import bfloat16, bool, float32, int32, int64
from autotune.tensor.elementwise import astype, function, where
from autotune.tensor.indexing import take_part
from autotune.tensor.networks import conv2d, gelu, layer_norm, matmul, relu, sigmoid, silu, softmax, vecdot
from autotune.tensor.places import (
    broadcast_arrays,
    broadcast_to,
    concat,
    concatenate,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    reshape,
    squeeze,
    stack,
    take,
    unstack,
)
from autotune.tensor.reductions import all, any, argmax, argmin, count_nonzero, max, mean, min, prod, std, sum, var
from autotune.tensor.tensor import Tensor

add, subtract, multiply, divide = map(function, ("add", "subtract", "multiply", "divide"))
negative, maximum, minimum, atan2 = map(function, ("negative", "maximum", "minimum", "atan2"))
equal, not_equal = map(function, ("equal", "not_equal"))
less, less_equal, greater, greater_equal = map(function, ("less", "less_equal", "greater", "greater_equal"))
logical_and, logical_or, logical_xor = map(function, ("logical_and", "logical_or", "logical_xor"))
bitwise_and, bitwise_or, bitwise_xor = map(function, ("bitwise_and", "bitwise_or", "bitwise_xor"))
exp, exp2, expm1, log, log1p = map(function, ("exp", "exp2", "expm1", "log", "log1p"))
log2, log10, sqrt, rsqrt, erf = map(function, ("log2", "log10", "sqrt", "rsqrt", "erf"))
sin, cos, tan, asin, acos, atan = map(function, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh = map(function, ("sinh", "cosh", "tanh"))
floor, ceil, trunc, round = map(function, ("floor", "ceil", "trunc", "round"))

del function, take_part

__all__ = [
    "CompiledFunction",
    "Tensor",
    "TensorError",
    "TensorIndexError",
    "TensorTypeError",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bfloat16",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_or",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_to",
    "ceil",
    "clip",
    "compile",
    "concat",
    "concatenate",
    "conv2d",
    "cos",
    "cosh",
    "count_nonzero",
    "divide",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "eye",
    "flip",
    "float32",
    "floor",
    "floor_divide",
    "full",
    "full_like",
    "gelu",
    "greater",
    "greater_equal",
    "int32",
    "int64",
    "isfinite",
    "isinf",
    "isnan",
    "layer_norm",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "negative",
    "not_equal",
    "ones",
    "ones_like",
    "payload",
    "permute_dims",
    "positive",
    "pow",
    "prod",
    "reciprocal",
    "relu",
    "remainder",
    "reshape",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softmax",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "take",
    "tan",
    "tanh",
    "tril",
    "triu",
    "trunc",
    "tune",
    "unstack",
    "var",
    "vecdot",
    "where",
    "zeros",
    "zeros_like",
]
