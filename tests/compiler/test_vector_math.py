"""Polynomials for functions of f32 vectors: how far off they are, and what they do at the edges."""

import ctypes

import numpy as np
import pytest
import scipy.special

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.program import compile_program
from autotune.compiler.passes.pipelines import TAIL
from autotune.compiler.passes.vector_math import approximate
from autotune.core.candidate import Candidate
from autotune.core.payload import Argument, Payload

COUNT = 1 << 20
LANES = 8
EXACT = {"exp": np.exp, "tanh": np.tanh, "erf": scipy.special.erf, "log": np.log, "log1p": np.log1p}
EMPTY_SCRIPT = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op) { transform.yield }
}"""
F32 = np.finfo(np.float32)


def payload_of(function, count):
    kind, vector = f"memref<{count}xf32>", f"vector<{LANES}xf32>"
    text = f"""func.func @apply(%x: {kind}, %y: {kind}) {{
      %zero = arith.constant 0 : index
      %step = arith.constant {LANES} : index
      %count = arith.constant {count} : index
      scf.for %i = %zero to %count step %step {{
        %in = vector.load %x[%i] : {kind}, {vector}
        %out = math.{function} %in : {vector}
        vector.store %out, %y[%i] : {kind}, {vector}
      }}
      return
    }}"""
    return Payload("apply", text, "apply", (Argument("x", "input", (count,)), Argument("y", "output", (count,))))


@pytest.fixture(scope="module", params=EXACT)
def function(request):
    """Name of a function, the function as compiled, and as it should be."""
    programs = {}

    def call(values):
        x = np.resize(np.asarray(values, np.float32), COUNT if len(values) > 64 else 64)
        if len(x) not in programs:
            programs[len(x)] = compile_program(payload_of(request.param, len(x)), Candidate(EMPTY_SCRIPT, TAIL))
        y = np.full_like(x, 123.0)
        programs[len(x)].bind([x, y]).run()
        return y[: len(values)]

    return request.param, call, EXACT[request.param]


def ulps(got, x, exact):
    """Distance to float64, in units of the last place of the right f32."""
    should = exact(x.astype(np.float64))
    with np.errstate(over="ignore"):
        unit = np.spacing(np.maximum(np.abs(should).astype(np.float32), F32.tiny)).astype(np.float64)
    return np.abs(got.astype(np.float64) - should) / unit


RANGES = {
    "exp": ([(-86.98, 88.72), (-1, 1), (-1e-3, 1e-3)], 1.2),
    "tanh": ([(-10, 10), (-1, 1), (-1e-3, 1e-3), (-1e-30, 1e-30)], 5.7),
    "erf": ([(-5, 5), (-1, 1), (-1e-3, 1e-3), (-1e-30, 1e-30)], 6),
    "log": ([(1e-38, 1e-30), (1e-3, 0.99), (0.99, 1.01), (1.01, 1e3), (1e3, 3e38)], 1.2),
    "log1p": ([(-0.99999, -0.5), (-0.5, 1), (-1e-3, 1e-3), (1, 1e3), (1e3, 3.4e38), (-1e-30, 1e-30)], 1.6),
}


def test_result_is_within_its_bound_of_the_exact_one(function):
    name, call, exact = function
    ranges, bound = RANGES[name]
    for low, high in ranges:
        x = np.linspace(low, high, COUNT, dtype=np.float32)
        far = ulps(call(x), x, exact)
        assert far.max() <= bound, f"{far.max():.2f} ulp at {x[far.argmax()]!r}, between {low} and {high}"


def test_result_is_within_its_bound_for_every_magnitude(function):
    name, call, exact = function
    _, bound = RANGES[name]
    half = np.geomspace(1e-38, 80, COUNT // 2, dtype=np.float32)
    x = np.concatenate([half, 1 / half if name.startswith("log") else -half])  # the 80 keeps exp finite
    far = ulps(call(x), x, exact)
    assert far.max() <= bound, f"{far.max():.2f} ulp at {x[far.argmax()]!r}"


def test_nan_stays_nan(function):
    _, call, _ = function
    assert np.isnan(call([np.nan, -np.nan])).all()


def test_nan_in_one_lane_leaves_the_others_alone(function):
    _, call, _ = function
    got = call([0.5, np.nan, 0.5, 0.5])
    assert np.isnan(got).tolist() == [False, True, False, False]
    assert got[0] == got[2] == got[3]


@pytest.mark.parametrize("function", ["exp"], indirect=True)
def test_exp_at_its_edges(function):
    _, call, _ = function
    values = [np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, F32.max, -F32.max, 1e-40, 89.0, -104.0]
    assert call(values).tolist() == [np.inf, 0, 1, 1, np.inf, 0, np.inf, 0, 1, np.inf, 0]


@pytest.mark.parametrize("function", ["exp"], indirect=True)
def test_exp_overflows_only_where_f32_does(function):
    _, call, _ = function
    last = np.nextafter(np.float32(88.72284), np.float32(0))
    values = [np.float32(88.72283), np.float32(88.0), last]
    assert np.isfinite(call(values)[:2]).all()


@pytest.mark.parametrize("function", ["exp"], indirect=True)
def test_exp_of_what_is_too_small_for_a_normal_number_is_nearly_nothing(function):
    _, call, _ = function
    got = call(np.linspace(-200, -87.4, 1000))
    assert (got >= 0).all()
    assert (got <= F32.tiny).all()


@pytest.mark.parametrize("function", ["exp"], indirect=True)
def test_exp_is_never_negative_and_grows(function):
    _, call, _ = function
    got = call(np.linspace(-100, 88, COUNT))
    assert (got >= 0).all()
    assert (np.diff(got) >= -4 * np.spacing(got[1:])).all()


@pytest.mark.parametrize("function", ["tanh"], indirect=True)
def test_tanh_at_its_edges(function):
    _, call, _ = function
    values = [np.inf, -np.inf, 1e30, -1e30, F32.max, -F32.max, 20.0, -20.0]
    assert call(values) == pytest.approx([1, -1] * 4, abs=3e-7)


@pytest.mark.parametrize("function", ["tanh"], indirect=True)
def test_tanh_never_leaves_its_range(function):
    _, call, _ = function
    assert (np.abs(call(np.linspace(-50, 50, COUNT))) <= 1).all()


@pytest.mark.parametrize("function", ["tanh"], indirect=True)
def test_tanh_of_zero_keeps_its_sign_and_tiny_values_are_themselves(function):
    _, call, _ = function
    got = call([0.0, -0.0, 1e-40, -1e-40, 1e-20])
    assert got.tolist() == np.array([0.0, -0.0, 1e-40, -1e-40, 1e-20], np.float32).tolist()
    assert np.signbit(got[:2]).tolist() == [False, True]


@pytest.mark.parametrize("function", ["tanh"], indirect=True)
def test_tanh_is_odd(function):
    _, call, _ = function
    x = np.linspace(0, 20, COUNT, dtype=np.float32)
    assert (call(-x) == -call(x)).all()


@pytest.mark.parametrize("function", ["log1p"], indirect=True)
def test_log1p_at_its_edges(function):
    _, call, _ = function
    got = call([0.0, -0.0, -1.0, -1.5, np.inf, -np.inf, 1e-40, F32.max])
    expected = np.float32([0, 0, -np.inf, np.nan, np.inf, np.nan, 1e-40, np.log(float(F32.max))])
    np.testing.assert_array_equal(got, expected)


def rewritten(kind, function="exp"):
    with context():
        module = parse(
            f"func.func @f(%x: {kind}) -> {kind} {{\n%y = math.{function} %x : {kind}\nreturn %y : {kind}\n}}", "f"
        )
        approximate(module)
        return str(module)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kind", ["vector<8xf32>", "vector<1xf32>", "vector<2x3xf32>"])
def test_f32_vectors_of_any_shape_are_rewritten(kind, name):
    assert f"math.{name}" not in rewritten(kind, name)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kind", ["f32", "f64", "vector<8xf64>", "tensor<8xf32>"])
def test_anything_else_keeps_its_call(kind, name):
    assert f"math.{name}" in rewritten(kind, name)


def test_other_functions_keep_their_call():
    assert "math.cos" in rewritten("vector<8xf32>", "cos")


def test_row_divided_by_one_value_is_within_an_ulp_and_a_half():
    kind = f"memref<{COUNT}xf32>"
    text = f"""func.func @apply(%x: {kind}, %s: memref<1xf32>, %y: {kind}) {{
      %zero = arith.constant 0 : index
      %step = arith.constant {LANES} : index
      %count = arith.constant {COUNT} : index
      %one = vector.load %s[%zero] : memref<1xf32>, vector<1xf32>
      %all = vector.broadcast %one : vector<1xf32> to vector<{LANES}xf32>
      scf.for %i = %zero to %count step %step {{
        %in = vector.load %x[%i] : {kind}, vector<{LANES}xf32>
        %out = arith.divf %in, %all : vector<{LANES}xf32>
        vector.store %out, %y[%i] : {kind}, vector<{LANES}xf32>
      }}
      return
    }}"""
    arguments = (Argument("x", "input", (COUNT,)), Argument("s", "input", (1,)), Argument("y", "output", (COUNT,)))
    program = compile_program(Payload("apply", text, "apply", arguments), Candidate(EMPTY_SCRIPT, TAIL))
    x = np.random.default_rng(0).normal(size=COUNT).astype(np.float32)
    for divisor in (3.0, 1e-30, 1e30, -7.7, 0.1):
        s, y = np.array([divisor], np.float32), np.empty(COUNT, np.float32)
        program.bind([x, s, y]).run()
        assert ulps(y, x, lambda values, d=s[0]: values / np.float64(d)).max() <= 1.5
    s[0] = 0.0
    program.bind([x, s, y]).run()
    np.testing.assert_array_equal(y, np.where(x > 0, np.inf, -np.inf))


@pytest.mark.parametrize("function", ["log"], indirect=True)
def test_log_at_its_edges(function):
    _, call, _ = function
    got = call([0.0, -0.0, 1.0, np.inf, -1.0, -np.inf, -1e-40])
    assert got[:4].tolist() == [-np.inf, -np.inf, 0, np.inf]
    assert np.isnan(got[4:]).all()


@pytest.mark.parametrize("function", ["log"], indirect=True)
def test_log_of_numbers_too_small_to_be_normal(function):
    _, call, exact = function
    x = np.array([1e-45, 1e-42, 1e-39, 5e-39], np.float32)
    assert ulps(call(x), x, exact).max() <= 1.2


@pytest.mark.parametrize("function", ["erf"], indirect=True)
def test_erf_at_its_edges(function):
    _, call, _ = function
    assert call([np.inf, -np.inf, 4.5, -30.0]) == pytest.approx([1, -1, 1, -1], abs=3e-7)
    assert np.signbit(call([0.0, -0.0])).tolist() == [False, True]


def test_marked_function_calls_libm():
    """To the last bit, which no polynomial gives."""
    payload = payload_of("exp", 64)
    text = payload.text.replace("math.exp %in", "math.exp %in {autotune.libm}")
    x, y = np.linspace(-3, 3, 64, dtype=np.float32), np.empty(64, np.float32)
    compile_program(payload, Candidate(EMPTY_SCRIPT, TAIL, text=text)).bind([x, y]).run()
    libm = ctypes.CDLL("libm.so.6").expf
    libm.restype, libm.argtypes = ctypes.c_float, [ctypes.c_float]
    assert y.tolist() == [libm(float(v)) for v in x]


@pytest.mark.parametrize("name", ["acosh", "asinh", "atanh", "cbrt", "erfc"])
def test_what_upstream_has_for_scalars_alone_is_called_lane_by_lane(name):
    exact = {"cbrt": scipy.special.cbrt, "erfc": scipy.special.erfc}.get(name) or getattr(np, f"arc{name[1:]}")
    x = np.linspace(0.01, 0.99, 64, dtype=np.float32) + np.float32(name == "acosh")
    y = np.full_like(x, 123.0)
    compile_program(payload_of(name, len(x)), Candidate(EMPTY_SCRIPT, TAIL)).bind([x, y]).run()
    assert ulps(y, x, exact).max() <= 4
