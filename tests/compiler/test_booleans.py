"""Booleans in memory: what a file computes as i1 is stored as bytes, and means the same."""

import numpy as np
import pytest
from tuning_support import loaded, run

from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.types.booleans import store_booleans_as_bytes
from autotune.compiler.passes.pipelines import PLAIN

MAPS = "indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>]"
GENERIC = f'linalg.generic {{{MAPS}, iterator_types = ["parallel", "parallel"]}}'
FLAGS, FLOATS = "tensor<4x6xi1>", "tensor<4x6xf32>"
SELECT = f"""%to = tensor.empty() : {FLOATS}
    %r = {GENERIC} ins(%flags : {FLAGS}) outs(%to : {FLOATS}) {{
    ^bb0(%f: i1, %o: f32):
      %v = arith.select %f, %one, %zero : f32
      linalg.yield %v : f32
    }} -> {FLOATS}"""
COMPARED = f"""%from = tensor.empty() : {FLAGS}
    %flags = {GENERIC} ins(%a : {FLOATS}) outs(%from : {FLAGS}) {{
    ^bb0(%x: f32, %o: i1):
      %c = arith.cmpf ogt, %x, %zero : f32
      linalg.yield %c : i1
    }} -> {FLAGS}
    {SELECT}"""
BODIES = {
    "computed": COMPARED,
    "reshaped": COMPARED.replace("%flags = ", "%made = ").replace(
        "%to = ",
        f"%wide = tensor.expand_shape %made [[0, 1], [2]] output_shape [2, 2, 6] : {FLAGS} into tensor<2x2x6xi1>\n"
        f"    %flags = tensor.collapse_shape %wide [[0, 1], [2]] : tensor<2x2x6xi1> into {FLAGS}\n    %to = ",
    ),
    "compared as tensors": f"""%zeros = arith.constant dense<0.0> : {FLOATS}
    %flags = arith.cmpf ogt, %a, %zeros : {FLOATS}
    {SELECT}""",
}
CONSTANTS = {
    "filled": (
        f"%true = arith.constant true\n %e = tensor.empty() : {FLAGS}\n"
        f"%flags = linalg.fill ins(%true : i1) outs(%e : {FLAGS}) -> {FLAGS}",
        np.ones((4, 6)),
    ),
    "one constant": (f"%flags = arith.constant dense<true> : {FLAGS}", np.ones((4, 6))),
    "a table": (
        f"%flags = arith.constant dense<[{', '.join(['[true, false, false, true, false, true]'] * 4)}]> : {FLAGS}",
        np.tile([1.0, 0, 0, 1, 0, 1], (4, 1)),
    ),
}


def function(body, argument="%a: tensor<4x6xf32>"):
    head = "%zero = arith.constant 0.0 : f32\n    %one = arith.constant 1.0 : f32\n    "
    return f"func.func @f({argument}) -> {FLOATS} {{\n    {head}{body}\n    return %r : {FLOATS}\n}}"


@pytest.mark.parametrize("name", BODIES)
def test_flags_that_are_computed_mean_the_same_in_bytes(name, tmp_path):
    payload = loaded(tmp_path, function(BODIES[name]))
    inputs = payload.make_inputs(0)
    (got,) = run(payload, inputs, None, PLAIN)
    np.testing.assert_array_equal(got, inputs["arg0"] > 0)
    assert "xi1>" not in payload.text


@pytest.mark.parametrize("name", CONSTANTS)
def test_flags_that_are_constant_mean_the_same_in_bytes(name, tmp_path):
    body, expected = CONSTANTS[name]
    payload = loaded(tmp_path, function(f"{body}\n    {SELECT}"))
    np.testing.assert_array_equal(run(payload, payload.make_inputs(0), None, PLAIN)[0], expected)


def test_an_argument_of_flags_is_one_of_bytes_that_are_0_or_1(tmp_path):
    payload = loaded(tmp_path, function(SELECT, argument=f"%flags: {FLAGS}"))
    flags, result = payload.arguments
    assert (flags.dtype, flags.low, flags.high) == ("i8", 0, 2)
    assert (result.role, result.dtype) == ("output", "f32")
    inputs = payload.make_inputs(0)
    assert set(np.unique(inputs["arg0"])) == {0, 1}
    np.testing.assert_array_equal(run(payload, inputs, None, PLAIN)[0], inputs["arg0"])


def test_a_module_without_flags_in_memory_stays_as_it_is():
    with context():
        module = parse(function(f"%r = math.absf %a : {FLOATS}"), "plain")
        before = str(module)
        assert not store_booleans_as_bytes(module)
        assert str(module) == before


NAMED = {  # what upstream computes of i1 by ops whose names alone say so
    "add": ("add", FLAGS, lambda a, b: a | b),
    "mul": ("mul", FLAGS, lambda a, b: a & b),
    "max": ("max", FLAGS, lambda a, b: a & b),  # true is -1
    "matmul_transpose_b": ("matmul", "tensor<4x4xi1>", lambda a, b: a @ b.T),
    "counts": ("matmul", "tensor<4x4xi32>", lambda a, b: a.astype(int) @ b.T),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_ops_mean_the_same_in_bytes(name, tmp_path):
    op, kind, expected = NAMED[name]
    maps = [f"affine_map<(m, n, k) -> ({each})>" for each in ("m, k", "n, k", "m, n")] if op == "matmul" else []
    element = kind.rpartition("x")[2].removesuffix(">")
    body = f"""%zero = arith.constant 0 : {element}
    %e = tensor.empty() : {kind}
    %begin = linalg.fill ins(%zero : {element}) outs(%e : {kind}) -> {kind}
    %r = linalg.{op} {f"indexing_maps = [{', '.join(maps)}]" if maps else ""} ins(%a, %b : {FLAGS}, {FLAGS})
      outs(%begin : {kind}) -> {kind}"""
    text = f"func.func @f(%a: {FLAGS}, %b: {FLAGS}) -> {kind} {{\n    {body}\n    return %r : {kind}\n}}"
    payload = loaded(tmp_path, text.replace("constant 0 : i1", "constant false"))
    inputs = payload.make_inputs(0)
    (got,) = run(payload, inputs, None, PLAIN)
    np.testing.assert_array_equal(got, expected(*(inputs[each].astype(bool) for each in ("arg0", "arg1"))))


def test_pad_of_a_pack_is_a_byte(tmp_path):
    packed = "tensor<1x2x4x4xi1>"
    body = f"""%true = arith.constant true
    %e = tensor.empty() : {packed}
    %r = linalg.pack %a padding_value(%true : i1) inner_dims_pos = [0, 1] inner_tiles = [4, 4] into %e
      : {FLAGS} -> {packed}"""
    payload = loaded(tmp_path, f"func.func @f(%a: {FLAGS}) -> {packed} {{\n    {body}\n    return %r : {packed}\n}}")
    inputs = payload.make_inputs(0)
    expected = np.pad(inputs["arg0"], ((0, 0), (0, 2)), constant_values=1).reshape(1, 4, 2, 4).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(run(payload, inputs, None, PLAIN)[0], expected)
