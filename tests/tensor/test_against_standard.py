"""What is compiled against array-api-strict, over shapes, element types and axes; sizes of 0 and 1 among them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tensor_support import FEW, arrays_of, compare, operands

import autotune.tensor as T

NUMBERS = ["float32", "int32", "int64"]


def named(*names):
    """Functions of a namespace by name, called with all operands."""
    return {name: lambda xp, *x, name=name: getattr(xp, name)(*x) for name in names}


COMPARED = named("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
ARITHMETIC = named("add", "subtract", "multiply", "maximum", "minimum")
DIVISION = {
    "floor_divide": lambda xp, a, b: xp.floor_divide(a, xp.where(b == 0, xp.ones_like(b), b)),
    "remainder": lambda xp, a, b: xp.remainder(a, xp.where(b == 0, xp.ones_like(b), b)),
}
CHOICE = {"where": lambda xp, a, b: xp.where(a < b, a, b), "clip": lambda xp, a, b: xp.clip(a + b, min=-1, max=2)}
UNARY = named("abs", "negative", "positive", "sign", "square", "floor", "ceil", "trunc", "round", "isnan", "isfinite")
REAL = ["exp", "expm1", "log1p", "sqrt", "tanh", "sin", "cos", "atan", "sinh", "cosh", "asinh", "log", "log2", "log10"]
LOGIC = named("logical_and", "logical_or", "logical_xor", "equal", "bitwise_and", "bitwise_or", "bitwise_xor")
SUMS = {
    name: lambda xp, x, axis, keep, name=name: getattr(xp, name)(x, axis=axis, keepdims=keep)
    for name in ("sum", "prod", "max", "min")
}
MEANS = {
    name: lambda xp, x, axis, keep, name=name: getattr(xp, name)(x, axis=axis, keepdims=keep)
    for name in ("mean", "var", "std")
}


@FEW
@given(operands(2, NUMBERS))
def test_arithmetic_comparisons_and_choice(arrays):
    compare({**ARITHMETIC, **COMPARED, **DIVISION, **CHOICE}, arrays)


@FEW
@given(operands(2, ["float32"]))
def test_division_of_real_numbers(arrays):
    a, b = arrays
    safe = np.where(b == 0, np.float32(0.75), b)
    compare(named("divide", "atan2"), [a, safe])
    compare(named("pow"), [np.abs(a) + np.float32(0.5), b])


@FEW
@given(operands(1, NUMBERS))
def test_functions_of_one_operand(arrays):
    compare(UNARY, arrays)


@FEW
@given(operands(1, ["float32"]))
def test_functions_of_real_numbers(arrays):
    compare(named(*REAL), [np.abs(arrays[0]) + np.float32(0.25)])


@FEW
@given(operands(2, ["bool"]))
def test_booleans(arrays):
    compare(LOGIC, arrays)


@FEW
@given(operands(2, ["int32", "int64"]))
def test_bits(arrays):
    compare({**named("bitwise_and", "bitwise_or", "bitwise_xor"), "not": lambda xp, a, _: xp.bitwise_invert(a)}, arrays)


@st.composite
def folded(draw, dtypes, least=1):
    """An array, and axes of it."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=least, max_side=5))
    axes = st.lists(st.integers(-len(shape), len(shape) - 1), unique_by=lambda a: a % max(len(shape), 1))
    axis = draw(st.one_of(st.none(), axes.map(tuple))) if shape else None
    return arrays_of(shape, draw(st.sampled_from(dtypes)), draw(st.integers(0, 99))), axis, draw(st.booleans())


@FEW
@given(folded(NUMBERS))
def test_sums_products_and_extrema(case):
    array, axis, keep = case
    compare({n: lambda xp, x, f=f: f(xp, x, axis, keep) for n, f in SUMS.items()}, [array], array.size)


@FEW
@given(folded(["float32"]))
def test_means_and_variances(case):
    array, axis, keep = case
    compare({n: lambda xp, x, f=f: f(xp, x, axis, keep) for n, f in MEANS.items()}, [array], array.size)


@FEW
@given(folded(["bool", "float32", "int32"], least=0))
def test_all_and_any_of_what_may_be_empty(case):
    array, axis, keep = case
    functions = {n: lambda xp, x, n=n: getattr(xp, n)(x, axis=axis, keepdims=keep) for n in ("all", "any")}
    compare(functions, [array])


@FEW
@given(hnp.array_shapes(min_dims=1, max_dims=3, max_side=5), st.integers(0, 99), st.booleans(), st.data())
def test_places_of_extrema(shape, seed, keep, data):
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    functions = {
        name: lambda xp, x, name=name: getattr(xp, name)(x, axis=axis, keepdims=keep) for name in ("argmax", "argmin")
    }
    compare(functions, [arrays_of(shape, "float32", seed)])


@FEW
@given(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5), st.integers(0, 99), st.data())
def test_parts(shape, seed, data):
    keys = [data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True)) for _ in range(4)]
    array = arrays_of(shape, data.draw(st.sampled_from(NUMBERS)), seed)
    expected = [array[key] for key in keys]
    for got, wanted in zip(T.compile(lambda x: [x[key] for key in keys])(array), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@FEW
@given(hnp.array_shapes(min_dims=2, max_dims=4, max_side=4), st.integers(0, 99), st.data())
def test_axes_shapes_and_joining(shape, seed, data):
    order = data.draw(st.permutations(range(len(shape))))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    array = arrays_of(shape, data.draw(st.sampled_from([*NUMBERS, "bool"])), seed)
    functions = {
        "permute_dims": lambda xp, x: xp.permute_dims(x, tuple(order)),
        "reshape": lambda xp, x: xp.reshape(xp.permute_dims(x, tuple(order)), (-1, shape[axis])),
        "matrix_transpose": lambda xp, x: xp.matrix_transpose(x),
        "concat": lambda xp, x: xp.concat([x, xp.flip(x, axis=axis), x], axis=axis),
        "flat": lambda xp, x: xp.concat([x, x], axis=None),
        "stack": lambda xp, x: xp.stack([x, x], axis=axis),
        "expand_dims": lambda xp, x: xp.expand_dims(x, axis=axis),
        "moveaxis": lambda xp, x: xp.moveaxis(x, axis, 0),
        "unstack": lambda xp, x: xp.unstack(x, axis=axis)[-1],
        "broadcast_to": lambda xp, x: xp.broadcast_to(x, (3, *x.shape)),
    }
    compare(functions, [array])


@FEW
@given(hnp.array_shapes(min_dims=1, max_dims=3, max_side=5), st.integers(0, 99), st.data())
def test_elements_at_places(shape, seed, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    places = data.draw(hnp.arrays(np.int64, st.integers(1, 4), elements=st.integers(0, shape[axis] - 1)))
    array = arrays_of(shape, data.draw(st.sampled_from(NUMBERS)), seed)
    compare({"take": lambda xp, x, at: xp.take(x, at, axis=axis)}, [array, places])


@st.composite
def matrices(draw):
    """Two arrays that can be multiplied, vectors and batches among them."""
    m, k, n, seed = (draw(st.integers(1, 6)) for _ in range(4))
    lead = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, min_side=1, max_side=3)).input_shapes
    a = (k,) if draw(st.booleans()) else (*lead[0], m, k)
    b = (k,) if draw(st.booleans()) else (*lead[1], k, n)
    dtype = draw(st.sampled_from(NUMBERS))
    return [arrays_of(a, dtype, seed), arrays_of(b, dtype, seed + 1)]


@FEW
@given(matrices())
def test_products_of_matrices(arrays):
    compare(named("matmul"), arrays, arrays[0].shape[-1])


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_products_of_transposed_matrices(dtype):
    a, b = arrays_of((2, 3, 5), dtype, 0), arrays_of((2, 4, 5), dtype, 1)
    functions = {
        "b": lambda xp, a, b: a @ b.mT,
        "a": lambda xp, a, b: xp.matmul(a[0, ...].T, a[1, ...]),
        "both": lambda xp, a, b: xp.permute_dims(a, (0, 2, 1)) @ xp.permute_dims(b, (0, 2, 1)).mT[:, :3, :],
        "one for all": lambda xp, a, b: a @ b[0, ...].T,
    }
    compare(functions, [a, b], 5)


def test_conversions():
    real = np.array([-2.5, -0.0, 0.0, 1.75, 3.0], np.float32)
    functions = {
        name: lambda xp, x, name=name: xp.astype(x, getattr(xp, name)) for name in ("int32", "int64", "bool", "float32")
    }
    for array in (real, real.astype(np.int32), real.astype(np.int64), real.astype(bool)):
        compare(functions, [array])


def test_what_is_made_of_numbers():
    functions = {
        "arange": lambda xp, x: xp.arange(2, 17, 3, dtype=xp.int64),
        "down": lambda xp, x: xp.arange(5, dtype=xp.float32) * x[0],
        "eye": lambda xp, x: xp.eye(3, 4, k=1, dtype=xp.float32),
        "tril": lambda xp, x: xp.tril(xp.reshape(x, (2, 3)), k=-1),
        "triu": lambda xp, x: xp.triu(xp.reshape(x, (3, 2))),
        "full": lambda xp, x: xp.full((2, 2), 7, dtype=xp.int32),
        "ones": lambda xp, x: xp.ones_like(x),
        "zeros": lambda xp, x: xp.zeros((), dtype=xp.float32),
        "masked": lambda xp, x: xp.where(xp.tril(xp.ones((6, 6), dtype=xp.bool)), x, xp.asarray(0.0, dtype=xp.float32)),
    }
    compare(functions, [arrays_of((6,), "float32", 0)])
