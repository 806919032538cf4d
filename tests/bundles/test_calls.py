"""Calls read arrays where they lie, never look at held weights again, and write new arrays; on any thread."""

import ctypes
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from import_support import import_product

import autotune as at
from autotune.bundles import contexts
from autotune.bundles.call import NamedCalls, PayloadFunction
from autotune.compiler.lowering import array_calls
from autotune.compiler.lowering.array_calls import ArrayCall
from autotune.compiler.panel_weight import PanelWeight
from autotune.compiler.tasks.payload_file import read_payload
from autotune.contrib.sizes.calls import AnySize
from autotune.core.arrays import FEW, Accepted, is_frozen, lie_within
from autotune.core.payload import DTYPES, Argument

RNG = np.random.default_rng(0)
SPEC = "matmul,m=24,n=32,k=16,constant_b=1"
A, OTHER = RNG.standard_normal((2, 24, 16), dtype=np.float32)
B = RNG.standard_normal((16, 32), dtype=np.float32)


def agree(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def shared():
    return at.compile(SPEC)


@pytest.fixture
def function():
    return at.compile(SPEC)


@pytest.fixture
def looked_at(monkeypatch):
    """What is done with whole weights while a test runs."""
    seen = []

    def counted(name, original):
        def call(*arguments, **named):
            seen.append(name)
            return original(*arguments, **named)

        return call

    monkeypatch.setattr(np, "array_equal", counted("compared", np.array_equal))
    monkeypatch.setattr(PanelWeight, "pack", counted("packed", PanelWeight.pack))
    monkeypatch.setattr(contexts, "aligned_empty", counted("copied", contexts.aligned_empty))
    return seen


@pytest.fixture(scope="module")
def slots_for(shared):
    """Points to arrays; gives their addresses, and the copies."""
    shared(A, B)
    (context,) = shared._calls.caller._contexts._free

    def point(arrays, arguments):
        slots = [ctypes.c_void_p() for _ in arguments]
        return slots, ArrayCall(context._bound, slots, list(map(Accepted.of, arguments))).point(tuple(arrays))

    return point


def odd_layouts(array):
    """Arrays of the same elements that do not lie as compiled code reads them."""
    wide = np.zeros((array.shape[0], 3 * array.shape[1]), array.dtype)
    wide[:, ::3] = array
    raw = np.zeros(array.nbytes + 1, np.uint8)
    crooked = raw[1:].view(array.dtype).reshape(array.shape)
    crooked[...] = array
    return {
        "strided": wide[:, ::3],
        "of Fortran": np.asfortranarray(array),
        "reversed": array[::-1, ::-1].copy()[::-1, ::-1],
        "unaligned": crooked,
        "of the other byte order": array.astype(array.dtype.newbyteorder()),
        "a matrix": array.view(np.matrix),
        "a list": array.tolist(),
    }


@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_an_array_that_lies_as_it_is_read_is_not_copied(dtype, slots_for):
    argument = Argument("x", "input", (4, 6), dtype, low=0.0, high=9.0)
    array = RNG.integers(0, 9, (4, 6)).astype({"f32": np.float32, "i32": np.int32}[dtype])
    array.flags.writeable = False
    (slot,), copies = slots_for([array], [argument])
    assert slot.value == array.ctypes.data
    assert copies == []


@pytest.mark.parametrize("layout", odd_layouts(A))
def test_an_array_that_lies_otherwise_is_copied_as_it_is_read(layout, slots_for):
    (slot,), (copy,) = slots_for([odd_layouts(A)[layout]], [Argument("a", "input", A.shape)])
    assert slot.value == copy.ctypes.data
    assert copy.dtype == np.float32
    np.testing.assert_array_equal(copy, A)


def test_arrays_around_one_that_is_copied_are_not(slots_for):
    shapes = [(), (3,), (1, 2, 3, 4, 5), (2, 2)]
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    crooked = [arrays[0], arrays[1].astype(arrays[1].dtype.newbyteorder()), arrays[2], np.asfortranarray(arrays[3])]
    arguments = [Argument(f"x{n}", "input", shape) for n, shape in enumerate(shapes)]
    slots, copies = slots_for(crooked, arguments)
    where = [arrays[0], copies[0], arrays[2], copies[1]]
    assert [slot.value for slot in slots] == [each.ctypes.data for each in where]
    for copy, array in zip(copies, (arrays[1], arrays[3]), strict=True):
        np.testing.assert_array_equal(copy, array)


@pytest.mark.parametrize("value", [None, 3, "ab", (1.0, 2.0), object(), np.float32(3)])
def test_what_is_no_array_is_not_read_as_one(value, slots_for):
    scalar = Argument("x", "input", ())
    if isinstance(value, (int, np.floating)):
        _, (copy,) = slots_for([value], [scalar])
        assert copy == value
    else:
        with pytest.raises(at.AutotuneError, match=r"^x must"):
            slots_for([value], [scalar])


def test_fewer_arrays_than_there_are_slots_are_no_call(slots_for):
    with pytest.raises(IndexError):
        slots_for([A], [Argument("a", "input", A.shape), Argument("b", "input", B.shape)])


@pytest.mark.parametrize(
    "bounds", [(0, 9), (-9, 0), (-3, 120), (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1), (5, 2**63)]
)
@pytest.mark.parametrize("dtype", ["i8", "i32", "i64"])
@pytest.mark.parametrize("columns", [50, array_calls.FEW])
def test_whole_numbers_out_of_bounds_are_refused_wherever_they_lie(dtype, bounds, columns, slots_for):
    held = np.iinfo(DTYPES[dtype])
    low, high = bounds
    argument = Argument("x", "input", (2, columns), dtype, accepts=bounds)
    for value in (held.min, low - 1, low, 0, high - 1, high, held.max):
        if not held.min <= value <= held.max:
            continue
        for number in (0, columns + 7, -1):
            array = np.full((2, columns), min(max(low, held.min), held.max), DTYPES[dtype])
            array.flat[number] = value
            if low <= value < high and low <= array.min():
                (slot,), _ = slots_for([array], [argument])
                assert slot.value == array.ctypes.data
            else:
                with pytest.raises(at.AutotuneError, match=rf"x must be from {low} to {high - 1}, got"):
                    slots_for([array], [argument])


@pytest.mark.parametrize("layout", odd_layouts(A))
def test_calls_with_any_layout_compute_the_same(shared, layout):
    agree(shared(odd_layouts(A)[layout], odd_layouts(B)[layout]), A @ B)


def test_inputs_and_results_lie_apart_and_results_are_nobody_elses(function):
    first = function(A, B)
    kept = first.copy()
    second = function(OTHER, B)
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second)
    assert first.flags.owndata
    assert first.flags.writeable
    agree(second, OTHER @ B)


def test_weights_of_an_import_are_looked_at_once(tmp_path, looked_at):
    function = at.compile(at.payload(import_product(tmp_path)))
    weight, inputs = (function.payload.make_inputs(seed) for seed in (0, 1))
    function(inputs["x"])
    looked_at.clear()
    for _ in range(3):
        agree(function(inputs["x"]), inputs["x"] @ weight["w"])
    assert looked_at == []


def test_kept_weights_are_looked_at_once_and_are_copies(function, looked_at):
    mine = B.copy()
    function.keep(b=mine)
    assert looked_at.count("packed") == 1
    looked_at.clear()
    mine[...] = 0
    agree(function(A), A @ B)
    agree(function(a=OTHER), OTHER @ B)
    assert looked_at == []


def test_a_kept_weight_may_be_given_for_one_call_or_kept_anew(function):
    function.keep(b=B)
    agree(function(A, 2 * B), A @ (2 * B))
    agree(function(A), A @ B)
    agree(function(A, b=3 * B), A @ (3 * B))
    agree(function(A), A @ B)
    function.keep(b=4 * B)
    agree(function(A), A @ (4 * B))


def test_a_weight_that_is_given_is_packed_again_where_it_changed(function, looked_at):
    mine = B.copy()
    function(A, mine)
    function(A, mine)
    assert looked_at.count("packed") == 1
    mine[3, 4] += 1
    agree(function(A, mine), A @ mine)
    assert looked_at.count("packed") == 2
    mine.flags.writeable = False
    function(A, mine)
    looked_at.clear()
    agree(function(A, mine), A @ mine)
    assert looked_at == []


def test_a_read_only_view_of_what_can_be_written_is_looked_at(function):
    mine = B.copy()
    view = mine[:]
    view.flags.writeable = False
    function(A, view)
    function(A, view)
    mine[3, 4] += 1
    agree(function(A, view), A @ mine)
    assert not is_frozen(view)
    assert is_frozen(np.frombuffer(bytes(8), np.uint8))
    assert not is_frozen(np.frombuffer(bytearray(8), np.uint8))


def test_all_contexts_share_the_weights_that_are_held(function, monkeypatch):
    function.keep(b=B)
    caller, callers = function._calls.caller, 2
    barrier, addresses = threading.Barrier(callers), []
    monkeypatch.setattr(caller._contexts, "_most", callers)

    def call(number):
        context = caller._contexts.get()
        barrier.wait()
        (found,) = context.call(caller.plan, [(number + 1) * A])
        addresses.append([slot.value for slot in (context._slots["b"], *context._panel_slots)])
        caller._contexts.put(context)
        return found

    with ThreadPoolExecutor(callers) as threads:
        for number, found in enumerate(threads.map(call, range(callers))):
            agree(found, (number + 1) * A @ B)
    assert len(addresses) == callers
    assert addresses[0] == addresses[1]
    assert len(addresses[0]) == 2


def test_many_threads_call_while_weights_are_kept_anew(function):
    function.keep(b=B)

    def call(number):
        return all(np.allclose(function(number * A), number * A @ B, rtol=1e-3, atol=1e-3) for _ in range(50))

    with ThreadPoolExecutor(4) as threads:
        found = threads.map(call, range(4))
        for _ in range(20):
            function.keep(b=B)
        assert all(found)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"c": B}, "only weights are kept, .* has b; got c"),
        ({"a": A}, "only weights are kept, .* has b; got a"),
        ({"b": A}, r"b must have shape \(16, 32\), got \(24, 16\)"),
    ],
)
def test_what_is_no_weight_is_not_kept(function, weights, said):
    with pytest.raises(at.AutotuneError, match=said):
        function.keep(**weights)


def test_a_state_that_is_given_stays_as_it_is_and_a_new_one_comes_back():
    step = at.compile("gpt,d_model=16,heads=2,d_ff=32,vocab=20,layers=1,positions=8,function=decode,position=0")
    arrays = step.payload.make_inputs(0)
    states = [a.name for a in step.payload.arguments if a.role == "state"]
    before = {name: arrays[name].copy() for name in states}
    found = step(**arrays)
    again = step(**{**arrays, **{name: np.asfortranarray(arrays[name]) for name in states}})
    for name in states:
        np.testing.assert_array_equal(arrays[name], before[name])
        assert (found[name] != before[name]).any()
        np.testing.assert_array_equal(found[name], again[name])


def accepted(value, dtype="i8"):
    shape = (2,) if isinstance(value, list) else np.shape(value)
    return Accepted.of(Argument("x", "input", shape, dtype, -8.0, 8.0)).convert(value)


@pytest.mark.parametrize("dtype", ["i8", "i32", "i64", "f32", "f16", "bf16"])
def test_booleans_are_numbers(dtype):
    mask = np.array([[True, False], [False, True]])
    for each in (mask, mask.T, mask[::-1]):
        found = accepted(each, dtype)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found.astype(np.int64), each.astype(np.int64))
    assert np.shares_memory(accepted(mask, "i8"), mask)


@pytest.mark.parametrize(("value", "dtype"), [(3, "i64"), (True, "i8"), (2.5, "f32"), (np.float64(2.5), "f32")])
def test_numbers_of_python_are_arrays_of_rank_zero(value, dtype):
    found = accepted(value, dtype)
    assert found.shape == ()
    assert found == value


@pytest.mark.parametrize(
    ("value", "dtype", "said"),
    [
        (np.ma.masked_array([1.0, 2.0], [True, False]), "f32", r"x must be an array without a mask.*\.filled\("),
        ([1.5, 2.0], "i32", "x must hold whole numbers, got float64"),
        ([1j, 2], "f32", "x must hold real numbers, got complex128"),
        ([None, 1], "f32", "x must hold real numbers, got object"),
        ([[1.0], [2.0, 3.0]], "f32", "x must be an array, .*inhomogeneous"),
        (np.array([1], "M8[s]"), "i64", "x must hold whole numbers, got datetime64"),
        ([3, 8], "i32", "x must be from -8 to 7, got 8"),
        ([1, -9], "i32", "x must be from -8 to 7, got -9"),
        ([0, 2**40], "i32", f"x must be from -8 to 7, got {2**40}"),
    ],
)
def test_what_is_no_argument_is_refused(value, dtype, said):
    with pytest.raises(at.AutotuneError, match=said):
        accepted(value, dtype)


@pytest.mark.parametrize("size", [1, FEW, FEW + 1, 100])
@pytest.mark.parametrize("dtype", ["i1", "u1", "<i4", ">i4", "u4", "<i8", ">i8", "u8"])
def test_whole_numbers_are_in_range_or_not(dtype, size):
    array = np.zeros(size, dtype)
    assert lie_within(array, 0, 1)
    array[size // 2] = 100
    assert lie_within(array, 0, 101)
    assert lie_within(array, -5, 101)
    assert not lie_within(array, 0, 100)
    assert not lie_within(array, -5, 100)
    array[size // 2] = np.iinfo(dtype).max
    assert not lie_within(array, 0, 120)
    if array.dtype.kind == "i":
        array[size // 2] = -1
        assert not lie_within(array, 0, 120)
        assert lie_within(array, -1, 120)


@pytest.mark.parametrize("count", [1, 2 * FEW])
def test_booleans_are_numbers_of_any_type(count):
    accepted = Accepted("mask", (count,), np.dtype(np.int64))
    assert accepted.convert(np.ones(count, bool)).tolist() == [1] * count


def test_numbers_of_a_type_that_its_bounds_hold_are_not_looked_at():
    assert Accepted.of(Argument("x", "input", (2,), "i8", -128, 128)).bounds is None
    assert Accepted.of(Argument("x", "input", (2,), "i8", -128, 127)).bounds == (-128, 127)
    assert accepted(np.array([7], ml_dtypes.bfloat16), "bf16").dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_an_array_that_may_hold_bits_of_halves_is_refused(dtype):
    name = DTYPES[dtype].name
    with pytest.raises(at.PayloadError, match=rf"must be {name}, got an array of uint16; pass its bits as x\.view"):
        accepted(np.array([0x3F80], np.uint16), dtype)
    assert accepted(np.array([0x3F80], np.uint16).view(name), dtype).dtype == DTYPES[dtype]
    assert accepted(np.array([7], np.int16), dtype) == 7


@pytest.mark.parametrize("wide", [np.float64, np.longdouble])
def test_an_array_of_wider_numbers_is_refused_by_name_and_not_rounded(function, wide):
    with pytest.raises(
        at.PayloadError, match=r"a must be float32, got an array of float(64|128); .*a\.astype\('float32'\)"
    ):
        function(A.astype(wide), B)
    agree(function(A.tolist(), B), A @ B)


def test_what_copies_at_run_time_is_given_strides():
    part = read_payload(
        "part",
        """func.func @part(%a: memref<4x7xf32>, %out: memref<2x2xf32>) {
          %v = memref.subview %a[1, 2] [2, 2] [2, 3] : memref<4x7xf32> to memref<2x2xf32, strided<[14, 3], offset: 9>>
          memref.copy %v, %out : memref<2x2xf32, strided<[14, 3], offset: 9>> to memref<2x2xf32>
          return
        }""",
    )
    a = np.arange(28, dtype=np.float32).reshape(4, 7)
    assert np.array_equal(at.compile(part)(a), a[1::2, 2::3])


def test_an_argument_may_be_called_self(tmp_path):
    path = tmp_path / "own.onnx"
    onnx = pytest.importorskip("onnx")
    inputs = [onnx.helper.make_tensor_value_info(name, 1, [2, 3]) for name in ("self", "arrays")]
    node = onnx.helper.make_node("Sub", ["self", "arrays"], ["y"])
    graph = onnx.helper.make_graph([node], "own", inputs, [onnx.helper.make_tensor_value_info("y", 1, [2, 3])])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), path)
    given = {"self": np.full((2, 3), 5, np.float32), "arrays": np.ones((2, 3), np.float32)}
    agree(at.compile(path)(**given), np.full((2, 3), 4))


@pytest.mark.parametrize(
    "method",
    [at.Bundle.__call__, at.Bundle.keep, NamedCalls.compute, PayloadFunction.keep, AnySize.__call__, AnySize.plan],
)
def test_what_takes_arrays_by_name_takes_every_name(method):
    first = next(iter(inspect.signature(method).parameters.values()))
    assert first.kind is inspect.Parameter.POSITIONAL_ONLY
