"""Functions of the standard that are made of others, against array-api-strict; NaN, zeros and infinities."""

import math

import array_api_strict as xp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tensor_support import FEW, agree, arrays_of, compare, operands

import autotune.tensor as T

INF, NAN = math.inf, math.nan
EDGES = np.array([NAN, INF, -INF, 0.0, -0.0, 3.0, -3.0, 0.5, -0.5, 3e38, -3e38], np.float32)


def named(*names):
    """Functions of a namespace by name, called with all operands."""
    return {name: lambda xp, *x, name=name: getattr(xp, name)(*x) for name in names}


@st.composite
def cases(draw, dtypes, least_rank=1):
    """An array, and an axis of it."""
    shape = draw(hnp.array_shapes(min_dims=least_rank, max_dims=3, max_side=5))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return arrays_of(shape, draw(st.sampled_from(dtypes)), draw(st.integers(0, 99))), axis


@FEW
@given(operands(2, ["float32"]))
def test_functions_of_two_real_numbers(arrays):
    compare(named("hypot", "logaddexp", "copysign"), arrays)
    compare(named("signbit"), arrays[:1])


@FEW
@given(operands(2, ["int32", "int64"]))
def test_shifts_and_powers_of_whole_numbers(arrays):
    value, places = arrays[0], np.abs(arrays[1])
    compare(named("bitwise_left_shift", "bitwise_right_shift", "pow"), [value, places])


def test_shifts_by_as_many_places_as_there_are_bits_or_more():
    value, places = np.array([-5, 5, -1, 1], np.int32), np.array([32, 31, 40, 2**31 - 1], np.int32)
    left, right = T.compile(lambda x, n: (x << n, x >> n))(value, places)
    np.testing.assert_array_equal(left, [0, -(2**31), 0, 0])
    np.testing.assert_array_equal(right, [-1, 0, -1, 0])


def test_powers_of_whole_numbers_that_fit_are_right():
    base = np.array([0, 1, -1, -1, 2, 3, -7, 2, -1, 5], np.int64)
    exponent = np.array([0, 10**9, 10**9, 10**9 + 1, 62, 39, 22, -1, -3, 0], np.int64)
    found = T.compile(lambda x, n: x**n)(base, exponent)
    np.testing.assert_array_equal(found, [1, 1, 1, -1, 2**62, 3**39, 7**22, 0, -1, 1])


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "divide", "pow", "atan2", "hypot", "logaddexp"])
def test_real_numbers_at_the_edges(name):
    x, y = (each.ravel() for each in np.meshgrid(EDGES, EDGES))
    found = T.compile(getattr(T, name))(x, y)
    with np.errstate(all="ignore"):
        wanted = np.asarray(getattr(xp, name)(xp.asarray(x), xp.asarray(y)))
    if name == "floor_divide":  # the standard says more than NumPy keeps
        special = ~np.isfinite(x) | ~np.isfinite(y) | (y == 0)
        with np.errstate(all="ignore"):
            wanted = np.where(special, x / y, wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(wanted)], np.signbit(wanted)[~np.isnan(wanted)])


EXPONENTS = ["exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "sqrt", "tanh", "sinh", "cosh"]
ANGLES = ["sin", "cos", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh"]
STEPS = ["floor", "ceil", "trunc", "round", "abs", "square", "sign"]


@pytest.mark.parametrize("name", EXPONENTS + ANGLES + STEPS)
def test_functions_at_the_edges(name):
    edges = EDGES[:9]
    found = T.compile(getattr(T, name))(edges)
    with np.errstate(all="ignore"):
        wanted = np.exp2(edges) if name == "exp2" else np.asarray(getattr(xp, name)(xp.asarray(edges)))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    zero = wanted == 0
    if name != "sign":
        np.testing.assert_array_equal(np.signbit(found)[zero], np.signbit(wanted)[zero])


@pytest.mark.parametrize("name", ["expm1", "log1p", "asinh", "atanh"])
def test_functions_of_small_numbers_keep_their_digits(name):
    small = np.array([1e-30, 1e-9, -1e-7, 3e-5, -2e-3, 0.02, -0.3, 0.7], np.float32)
    wanted = getattr(np, {"asinh": "arcsinh", "atanh": "arctanh"}.get(name, name))(small.astype(np.float64))
    np.testing.assert_allclose(T.compile(getattr(T, name))(small), wanted, rtol=2e-6)
    np.testing.assert_allclose(T.compile(getattr(T, name))(np.tile(small, 4)), np.tile(wanted, 4), rtol=2e-6)


@FEW
@given(cases(["float32", "int32", "int64"]), st.booleans())
def test_sums_and_products_so_far(case, led):
    array, axis = case
    functions = {
        name: lambda xp, x, name=name: getattr(xp, name)(x, axis=axis, include_initial=led)
        for name in ("cumulative_sum", "cumulative_prod")
    }
    compare(functions, [array], array.shape[axis])


@FEW
@given(cases(["float32", "int32"]), st.integers(0, 2), st.booleans())
def test_differences(case, times, more):
    array, axis = case
    ends = {"prepend": array, "append": array} if more else {}
    times = min(times, array.shape[axis])
    functions = {
        "diff": lambda xp, x: xp.diff(x, axis=axis, n=times, **{name: xp.asarray(end) for name, end in ends.items()})
    }
    compare(functions, [array], 4)


@FEW
@given(cases(["float32", "int64", "bool"]), st.integers(-9, 9), st.data())
def test_moved_and_repeated_elements(case, shift, data):
    array, axis = case
    rank, size = array.ndim, array.shape[axis]
    axes = tuple(range(rank))
    times = data.draw(hnp.arrays(np.int64, size, elements=st.integers(0, 3)))
    functions = {
        "roll": lambda xp, x: xp.roll(x, shift, axis=axis),
        "roll all": lambda xp, x: xp.roll(x, shift),
        "roll several": lambda xp, x: xp.roll(x, tuple(shift + d for d in axes), axis=axes),
        "tile": lambda xp, x: xp.tile(x, (2, 1, 3)[:rank]),
        "tile more": lambda xp, x: xp.tile(x, (2,) * (rank + 1)),
        "repeat": lambda xp, x: xp.repeat(x, 2, axis=axis),
        "repeat all": lambda xp, x: xp.repeat(x, 3),
        "repeat each": lambda xp, x: xp.repeat(x, xp.asarray(times), axis=axis),
        "moveaxis": lambda xp, x: xp.moveaxis(x, axes, axes[::-1]),
        "expand_dims": lambda xp, x: xp.expand_dims(xp.expand_dims(x, axis=0), axis=-1),
    }
    compare(functions, [array])


@FEW
@given(cases(["float32", "int32"]), st.data())
def test_elements_at_places_of_their_own(case, data):
    array, axis = case
    size = array.shape[axis]
    shape = list(array.shape)
    shape[axis] = data.draw(st.integers(1, 4))
    places = data.draw(hnp.arrays(np.int64, tuple(shape), elements=st.integers(-size, size - 1)))
    each = [data.draw(hnp.arrays(np.int64, (3,), elements=st.integers(-n, n - 1))) for n in array.shape]
    wanted = np.take_along_axis(array, places, axis)
    agree(T.compile(lambda x, at: T.take_along_axis(x, at, axis=axis))(array, places), wanted)
    agree(T.compile(lambda x, *at: x[at])(array, *each), array[tuple(each)])
    agree(T.compile(lambda x, *at: x[at])(array, *(at[1] for at in each)), array[tuple(at[1] for at in each)])
    constant = {
        "along": (lambda x: T.take_along_axis(x, places, axis=axis), wanted),
        "take": (lambda x: T.take(x, places.ravel(), axis=axis), np.take(array, places.ravel(), axis)),
        "index": (lambda x: x[tuple(each)], array[tuple(each)]),
        "last": (lambda x: x[(-1, *each[1:])], array[(-1, *each[1:])]),
    }
    found = T.compile(lambda x: tuple(function(x) for function, _ in constant.values()))(array)
    for got, (_, expected) in zip(found, constant.values(), strict=True):
        agree(got, expected)


def test_tensors_that_follow_from_places():
    functions = {
        "linspace": lambda xp, x: xp.linspace(-1.0, 2.0, 7, dtype=xp.float32),
        "open": lambda xp, x: xp.linspace(0, 3, 6, endpoint=False, dtype=xp.float32),
        "one": lambda xp, x: xp.linspace(2.0, 3.0, 1, dtype=xp.float32),
        "down": lambda xp, x: xp.arange(5, -4, -3, dtype=xp.int32),
        "none": lambda xp, x: xp.arange(5, 3, dtype=xp.int64),
    }
    functions |= {f"far {k}": lambda xp, x, k=k: xp.eye(2, 3, k=k, dtype=xp.int32) for k in (-9, -2, 3, 9)}
    functions |= {f"low {k}": lambda xp, x, k=k: xp.tril(xp.ones((2, 3), dtype=xp.int32), k=k) for k in (-9, 2, 9)}
    functions |= {f"high {k}": lambda xp, x, k=k: xp.triu(xp.ones((2, 3), dtype=xp.int32), k=k) for k in (-9, -1, 9)}
    compare(functions, [arrays_of((3,), "float32", 0)])
    a, b, c = (arrays_of((n,), "float32", n) for n in (2, 3, 4))
    for order in ("xy", "ij"):
        found = T.meshgrid(T.asarray(a), T.asarray(b), T.asarray(c), indexing=order)
        for got, wanted in zip(found, np.meshgrid(a, b, c, indexing=order), strict=True):
            agree(got.numpy(), wanted)


@pytest.mark.parametrize("axes", [0, 1, 2, ((0,), (1,)), ((1, 0), (0, 1))])
def test_products_over_pairs_of_axes(axes):
    a, b = arrays_of((3, 3, 2)[: 2 + (axes == 0)], "float32", 0), arrays_of((3, 3, 4), "float32", 1)
    compare({"tensordot": lambda xp, a, b: xp.tensordot(a, b, axes=axes)}, [a, b], 9)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_products_of_vectors(dtype):
    a, b = arrays_of((2, 3), dtype, 0), arrays_of((4, 2, 3), dtype, 1)
    functions = {
        "last": lambda xp, a, b: xp.vecdot(a, b),
        "first of two": lambda xp, a, b: xp.vecdot(a, b, axis=-2),
    }
    compare(functions, [a, b], 3)
