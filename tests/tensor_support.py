"""What tests of tensors share: comparing with a standard's implementation, and with NumPy."""

import array_api_strict as xp
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import autotune.tensor as T
from autotune.core.stats import tolerance

FEW = settings(max_examples=8, deadline=None, derandomize=True, database=None)
DTYPES = {"float32": T.float32, "int32": T.int32, "int64": T.int64, "bool": T.bool}


def agree(got, expected, reduction=1, what=""):
    """Check an array against another, of the same shape and element type, to what rounding explains."""
    expected = np.asarray(expected)
    assert got.shape == expected.shape, what
    assert got.dtype == expected.dtype, what
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected, err_msg=what)
        return
    largest = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
    allowed = tolerance("f32", reduction, largest)
    np.testing.assert_allclose(got, expected, rtol=0, atol=allowed, err_msg=what)


def compare(functions, arrays, reduction=1):
    """Compute named functions of a namespace in one program, and check each against array-api-strict."""
    strict = [xp.asarray(array) for array in arrays]
    wanted = {name: f(xp, *strict) for name, f in functions.items()}
    got = T.compile(lambda *given: {name: f(T, *given) for name, f in functions.items()})(*arrays)
    for name, array in got.items():
        agree(array, wanted[name], reduction, name)


def arrays_of(shape, dtype, seed, low=-4, high=5):
    """Random elements; halves of whole numbers where they are real, so that ties and zeros come up."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    whole = rng.integers(low, high, shape)
    return (whole / 2).astype(dtype) if dtype == "float32" else whole.astype(dtype)


@st.composite
def operands(draw, count, dtypes, least=0):
    """Arrays of shapes that broadcast, of one element type."""
    shapes = hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=3, min_side=least, max_side=5)
    dtype, seed = draw(st.sampled_from(dtypes)), draw(st.integers(0, 99))
    return [arrays_of(shape, dtype, seed + i) for i, shape in enumerate(draw(shapes).input_shapes)]
