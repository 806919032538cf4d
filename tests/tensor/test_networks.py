"""Operations of networks against references in NumPy that know nothing of how they are written here."""

import numpy as np
import pytest
from tensor_support import agree

import autotune.tensor as T
from payload import reference

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 33), dtype=np.float32)


def convolve(x, w, *, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    """A convolution by its definition, in float64."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    filters, inner, *sides = w.shape
    rows, columns = ((x.shape[2 + d] - dilation[d] * (sides[d] - 1) - 1) // stride[d] + 1 for d in range(2))
    out = np.zeros((len(x), filters, rows, columns))
    for f in range(filters):
        first = f // (filters // groups) * inner
        for i in range(sides[0]):
            for j in range(sides[1]):
                at = (slice(i * dilation[0], None, stride[0]), slice(j * dilation[1], None, stride[1]))
                seen = x[:, first : first + inner, at[0], at[1]][:, :, :rows, :columns]
                out[:, f] += np.einsum("nchw,c->nhw", seen, w[f, :, i, j])
    return out


CONVOLUTIONS = {
    "plain": ((2, 3, 9, 8), (4, 3, 3, 3), {}),
    "strides, padding, dilation": (
        (1, 3, 11, 9),
        (4, 3, 3, 2),
        {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)},
    ),
    "one by one": ((1, 8, 5, 5), (4, 8, 1, 1), {}),
    "groups": ((1, 4, 6, 6), (6, 2, 3, 3), {"groups": 2, "padding": 1}),
    "depthwise": ((1, 4, 6, 6), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
    "one channel, one filter": ((1, 1, 6, 6), (1, 1, 3, 3), {}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name):
    image, kernel, options = CONVOLUTIONS[name]
    x, w = (RNG.standard_normal(shape, dtype=np.float32) for shape in (image, kernel))
    bias = RNG.standard_normal(kernel[0], dtype=np.float32)
    both = {key: value if isinstance(value, tuple) else (value, value) for key, value in options.items()}
    wanted = convolve(x, w, **{**both, "groups": options.get("groups", 1)})
    found = T.compile(lambda x: T.conv2d(x, w, bias, **options))(x)
    agree(found, (wanted + bias[:, None, None]).astype(np.float32), int(np.prod(kernel[1:])))


@pytest.mark.parametrize("name", ["softmax", "gelu"])
def test_function_of_the_reference(name):
    agree(T.compile(getattr(T, name))(X), getattr(reference, name)(X).astype(np.float32), 33)


def test_softmax_along_another_axis_and_of_large_numbers():
    found = T.compile(lambda x: T.softmax(x * 1000, axis=0))(X)
    agree(found, reference.softmax(X.T * 1000).T.astype(np.float32), 6)


def test_layer_norm():
    gain, bias = X[0] + 1, X[1]
    agree(T.compile(lambda x: T.layer_norm(x, gain, bias))(X), reference.layer_norm(X, gain, bias).astype("f4"), 33)
    plain = reference.layer_norm(X, np.ones(33), np.zeros(33))
    agree(T.compile(T.layer_norm)(X), plain.astype(np.float32), 33)


def test_activations():
    double = X.astype(np.float64)
    wanted = {
        "relu": np.maximum(double, 0),
        "sigmoid": 1 / (1 + np.exp(-double)),
        "silu": double / (1 + np.exp(-double)),
    }
    found = T.compile(lambda x: {name: getattr(T, name)(x) for name in wanted})(X)
    for name, array in found.items():
        agree(array, wanted[name].astype(np.float32), 4, name)


def test_division_of_whole_numbers_by_zero_and_minus_one_does_not_end_the_process():
    least = np.iinfo(np.int32).min
    a, b = np.array([7, -7, least, least, 0, 5], np.int32), np.array([0, 0, -1, 3, -1, -2], np.int32)
    quotient, left = T.compile(lambda a, b: (a // b, a % b))(a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(quotient, np.floor_divide(a, b))
        np.testing.assert_array_equal(left, np.remainder(a, b))


def test_real_numbers_that_are_not_finite():
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38], np.float32)
    f = T.compile(
        lambda x: (x.max(), T.isnan(x), T.isinf(x), T.isfinite(x), T.equal(x, x), T.sign(x), T.argmax(x), x * 10)
    )
    largest, nan, infinite, finite, equal, sign, place, scaled = f(x)
    assert np.isnan(largest)
    np.testing.assert_array_equal(nan, np.isnan(x))
    np.testing.assert_array_equal(infinite, np.isinf(x))
    np.testing.assert_array_equal(finite, np.isfinite(x))
    np.testing.assert_array_equal(equal, ~np.isnan(x))
    np.testing.assert_array_equal(sign, np.sign(x))
    assert place == 0
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(scaled, x * np.float32(10))


@pytest.mark.parametrize("power", [0, 1, 2, 3, 7, 0.5, -1.0])
def test_powers(power):
    x = np.abs(X[0]) + np.float32(0.5)
    agree(T.compile(lambda x: x**power)(x), (x.astype(np.float64) ** power).astype(np.float32), 8)
