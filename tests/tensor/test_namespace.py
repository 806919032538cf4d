"""What the namespace says of itself and of element types; tensors and arrays of other libraries."""

import inspect

import array_api_strict as xp
import numpy as np
import pytest

import autotune.tensor as T
from autotune.tensor import build

DTYPES = (T.bool, T.int32, T.int64, T.bfloat16, T.float32)
KINDS = ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric")


def test_limits_of_element_types_are_those_of_numpy():
    for dtype in (T.float32, T.asarray(1.0)):
        found, wanted = T.finfo(dtype), np.finfo(np.float32)
        assert (found.bits, found.dtype) == (32, T.float32)
        assert (found.eps, found.max, found.min) == (wanted.eps, wanted.max, wanted.min)
        assert found.smallest_normal == wanted.smallest_normal
    assert T.finfo(T.bfloat16).eps == 2**-7
    for dtype in (T.int32, T.int64):
        found, wanted = T.iinfo(dtype), np.iinfo(dtype)
        assert (found.bits, found.max, found.min, found.dtype) == (wanted.bits, wanted.max, wanted.min, dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_element_types_are_those_of_the_standard(kind):
    for name in ("bool", "int32", "int64", "float32"):
        assert T.isdtype(getattr(T, name), kind) == xp.isdtype(getattr(xp, name), kind)
    assert T.isdtype(T.bfloat16, ("bool", "real floating"))
    assert T.isdtype(T.bfloat16, (T.int32, T.bfloat16))
    assert not T.isdtype(T.bfloat16, T.float32)


def test_element_types_meet_as_they_do_in_operations():
    for a in DTYPES:
        for b in DTYPES:
            try:
                wanted = T.where(T.zeros((), dtype=T.bool), T.zeros((), dtype=a), T.zeros((), dtype=b)).dtype
            except T.TensorTypeError:
                with pytest.raises(T.TensorTypeError, match="operands of result_type must be of one kind"):
                    T.result_type(a, b)
                assert not T.can_cast(a, b)
            else:
                assert T.result_type(a, T.zeros((2,), dtype=b)) == wanted
                assert T.can_cast(T.zeros((2,), dtype=a), b) == (wanted == b)
    assert T.result_type(T.int32, 1) == T.int32
    assert T.result_type(1.5, T.bfloat16, 2) == T.bfloat16


REFUSED = {
    "finfo must be of a real element type, got int32; use iinfo": lambda: T.finfo(T.int32),
    "iinfo must be of a whole element type, got float32; use finfo": lambda: T.iinfo(T.float32),
    "kind must be one of bool, signed integer": lambda: T.isdtype(T.int32, "float"),
    "result_type must be of a tensor or an element type, got none": lambda: T.result_type(1, 2.0),
    "a number beside int32 in result_type must be of that kind, got 1.5": lambda: T.result_type(T.int32, 1.5),
    "the device of zeros must be 'cpu' or None, got 'cuda'": lambda: T.zeros((2,), device="cuda"),
    "elements of ndarray are always copied, but copy is False": lambda: T.asarray(np.zeros(2, "f4"), copy=False),
    "elements are copied to become int32, but copy is False": lambda: T.asarray(T.ones(2), dtype="i4", copy=False),
    "the version of the standard must be one of": lambda: T.ones(2).__array_namespace__(api_version="1999.12"),
    "the device of to_device must be 'cpu'": lambda: T.ones(2).to_device("cuda"),
    "linspace must be of real numbers, got int64; use arange": lambda: T.linspace(0, 1, 3, dtype=T.int64),
    "indexing of meshgrid must be 'xy' or 'ij', got 'ji'": lambda: T.meshgrid(T.ones(2), indexing="ji"),
    "what meshgrid takes must have 1 dimension, shape is (2, 2)": lambda: T.meshgrid(T.ones((2, 2))),
    "roll must have a shift for each axis, got (1, 2) for 0": lambda: T.roll(T.ones(2), (1, 2), axis=0),
    "moveaxis must have a destination for each axis": lambda: T.moveaxis(T.ones((2, 3)), (0, 1), (0,)),
    "numbers of repeat must be whole, one or 2 of them and not negative": lambda: T.repeat(T.ones(2), [-1, 2]),
    "elements must be known to be computed, those of shape (2,) rest on an argument": lambda: T.compile(
        lambda n: T.repeat(T.ones(2), n)
    )(np.array([1, 2])),
    "an axis must be named for cumulative_sum of shape (2, 2)": lambda: T.cumulative_sum(T.ones((2, 2))),
    "n of diff must not be negative, got -1": lambda: T.diff(T.ones(3), n=-1),
    "tensordot must sum over equal sizes, shapes are (2, 3) and (2, 3)": lambda: T.tensordot(
        T.ones((2, 3)), T.ones((2, 3)), axes=1
    ),
    "vecdot must sum over equal sizes, they are 2 and 3 along axis -1": lambda: T.vecdot(T.ones(2), T.ones(3)),
    "indices to take from 2 elements must be from -2 to 1, got -3": lambda: T.take(T.ones(2), np.array([-3])),
    "indices beside others must be whole numbers, they are float32": lambda: T.ones((2, 2))[T.ones(2), 0],
    "an index beside indices must be whole numbers or indices": lambda: T.ones((2, 2))[np.array([0]), :],
    "operands of bitwise_left_shift must be whole numbers": lambda: T.ones(2) << T.ones(2),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_is_one_line(message):
    with pytest.raises(T.TensorError) as raised:
        REFUSED[message]()
    place, _, said = str(raised.value).partition(": ")
    assert said.startswith(message)
    assert place.startswith("test_namespace.py:")


def test_namespace_says_what_it_has():
    about = T.__array_namespace_info__()
    assert about.devices() == (about.default_device(),) == ("cpu",)
    assert not about.capabilities()["boolean indexing"]
    assert about.dtypes(kind="integral") == {"int32": T.int32, "int64": T.int64}
    for kind, dtype in {"integral": T.asarray(1).dtype, "real floating": T.asarray(1.5).dtype}.items():
        assert about.default_dtypes()[kind] == dtype
    x = T.ones((2,))
    assert x.__array_namespace__(api_version="2024.12") is T
    assert x.to_device("cpu") is x


def test_every_public_function_says_what_it_takes():
    for name in T.__all__:
        function = getattr(T, name)
        if inspect.isfunction(function):
            kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
            listed = name in ("broadcast_arrays", "broadcast_shapes", "meshgrid", "result_type", "payload", "tune")
            assert (inspect.Parameter.VAR_POSITIONAL in kinds) == listed, name
            assert function.__doc__, name


def test_arrays_of_other_libraries_go_in_and_out():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(T.from_dlpack(array).numpy(), array)
    np.testing.assert_array_equal(np.from_dlpack(T.from_dlpack(array) + 1), array + 1)
    assert T.ones(2).__dlpack_device__() == array.__dlpack_device__()
    x = T.ones(2)
    assert T.from_dlpack(x) is x


def test_known_elements_are_moved_without_a_compiler(monkeypatch):
    monkeypatch.setattr(build, "shared_function", lambda _: pytest.fail("something was compiled"))
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    x = T.asarray(array)
    moved = {
        "part": (x[1, 1:, None, ::2], array[1, 1:, None, ::2]),
        "none": (x[:, 3:], array[:, 3:]),
        "order": (T.permute_dims(x, (2, 0, 1)).reshape(4, 6), array.transpose(2, 0, 1).reshape(4, 6)),
        "repeated": (T.broadcast_to(x[:, :1], (5, 2, 3, 4)), np.broadcast_to(array[:, :1], (5, 2, 3, 4))),
        "sizes of 1": (T.expand_dims(x[0, 0], axis=(0, 2)), array[0, 0][None, :, None]),
    }
    for name, (got, wanted) in moved.items():
        np.testing.assert_array_equal(got.numpy(), wanted, err_msg=name)
        assert got.numpy().flags.c_contiguous
