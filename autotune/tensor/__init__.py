"""Lazy arrays with the interface of NumPy and the array API standard, compiled as one program.

import autotune.tensor as T

y = T.softmax(T.asarray(a) @ b)      # builds a graph: checks shapes and element types, computes nothing
y.numpy()                            # compiled and computed
f = T.compile(lambda x: T.gelu(x @ w) + 1)   # takes and returns NumPy arrays; compiled once for each shape
T.tune(f, x, trials=60)              # searches schedules; functions compiled from then on use them
"""

from math import e, inf, nan, pi

from autotune.core.errors import TensorError, TensorIndexError, TensorTypeError
from autotune.tensor.arithmetic import (
    abs,
    acosh,
    asinh,
    atanh,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_right_shift,
    clip,
    expm1,
    hypot,
    isfinite,
    isinf,
    isnan,
    log1p,
    logaddexp,
    logical_not,
    positive,
    reciprocal,
    sign,
    signbit,
    square,
)
from autotune.tensor.compiled import CompiledFunction, compile, payload, tune
from autotune.tensor.creation import (
    asarray,
    empty,
    empty_like,
    from_dlpack,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from autotune.tensor.cumulative import cumulative_prod, cumulative_sum, diff
from autotune.tensor.datatypes import (
    can_cast,
    finfo,
    iinfo,
    isdtype,
    namespace_info,
    result_type,
)
from autotune.tensor.division import floor_divide, pow, remainder
from autotune.tensor.dtypes import bfloat16, bool, float32, int32, int64
from autotune.tensor.elementwise import astype, function, where
from autotune.tensor.gathering import flip, repeat, take, take_along_axis
from autotune.tensor.indexing import take_part
from autotune.tensor.joining import concat, concatenate, roll, stack, tile, unstack
from autotune.tensor.manipulation import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    expand_dims,
    matrix_transpose,
    moveaxis,
    permute_dims,
    reshape,
    squeeze,
)
from autotune.tensor.networks import conv2d, gelu, layer_norm, matmul, relu, sigmoid, silu, softmax, tensordot, vecdot
from autotune.tensor.ranges import arange, eye, linspace, meshgrid, tril, triu
from autotune.tensor.reductions import all, any, argmax, argmin, count_nonzero, max, mean, min, prod, std, sum, var
from autotune.tensor.tensor import Tensor

add, subtract, multiply, divide = map(function, ("add", "subtract", "multiply", "divide"))
negative, maximum, minimum = map(function, ("negative", "maximum", "minimum"))
atan2, copysign = map(function, ("atan2", "copysign"))
equal, not_equal = map(function, ("equal", "not_equal"))
less, less_equal, greater, greater_equal = map(function, ("less", "less_equal", "greater", "greater_equal"))
logical_and, logical_or, logical_xor = map(function, ("logical_and", "logical_or", "logical_xor"))
bitwise_and, bitwise_or, bitwise_xor = map(function, ("bitwise_and", "bitwise_or", "bitwise_xor"))
exp, exp2, log = map(function, ("exp", "exp2", "log"))
log2, log10, sqrt, rsqrt, erf = map(function, ("log2", "log10", "sqrt", "rsqrt", "erf"))
sin, cos, tan, asin, acos, atan = map(function, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh = map(function, ("sinh", "cosh", "tanh"))
floor, ceil, trunc, round = map(function, ("floor", "ceil", "trunc", "round"))

newaxis = None
__array_api_version__ = "2025.12"
__array_namespace_info__ = namespace_info

del function, namespace_info, take_part

__all__ = [
    "CompiledFunction",
    "Tensor",
    "TensorError",
    "TensorIndexError",
    "TensorTypeError",
    "__array_api_version__",
    "__array_namespace_info__",
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
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "can_cast",
    "ceil",
    "clip",
    "compile",
    "concat",
    "concatenate",
    "conv2d",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "divide",
    "e",
    "empty",
    "empty_like",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "eye",
    "finfo",
    "flip",
    "float32",
    "floor",
    "floor_divide",
    "from_dlpack",
    "full",
    "full_like",
    "gelu",
    "greater",
    "greater_equal",
    "hypot",
    "iinfo",
    "inf",
    "int32",
    "int64",
    "isdtype",
    "isfinite",
    "isinf",
    "isnan",
    "layer_norm",
    "less",
    "less_equal",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "not_equal",
    "ones",
    "ones_like",
    "payload",
    "permute_dims",
    "pi",
    "positive",
    "pow",
    "prod",
    "reciprocal",
    "relu",
    "remainder",
    "repeat",
    "reshape",
    "result_type",
    "roll",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
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
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
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
