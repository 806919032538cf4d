"""Ops on whole tensors that have no loops of their own compute as structured ops what they mean."""

import numpy as np
import pytest
from tuning_support import agrees, loaded, run

from autotune.bundles.call import compile_payload
from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.decompose import decompose
from autotune.compiler.passes.pipelines import PLAIN


def function(signature, result, *body):
    lines = "\n  ".join(body)
    return f"func.func @f({signature}) -> {result} {{\n  {lines}\n  return %r : {result}\n}}"


def computed(tmp_path, text):
    """What a payload of this text computes by naive loops and by default, and its inputs."""
    payload = loaded(tmp_path, text)
    inputs = payload.make_inputs(0)
    arguments = [inputs[each.name] for each in payload.arguments if each.role == "input"]
    naive = run(payload, inputs, None, PLAIN)
    default = compile_payload(payload)(*arguments)
    agrees(payload, [default], naive)
    return naive[0], arguments


@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_softmax_along_any_dimension(dimension, tmp_path):
    kind = "tensor<3x5x7xf32>"
    got, (x,) = computed(
        tmp_path,
        function(
            f"%x: {kind}",
            kind,
            f"%e = tensor.empty() : {kind}",
            f"%r = linalg.softmax dimension({dimension}) ins(%x : {kind}) outs(%e : {kind}) -> {kind}",
        ),
    )
    e = np.exp(x.astype("f8") - x.max(dimension, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(dimension, keepdims=True), rtol=1e-5)


def test_arithmetic_on_tensors(tmp_path):
    kind, flags = "tensor<4x6xf32>", "tensor<4x6xi1>"
    got, (x, y) = computed(
        tmp_path,
        function(
            f"%x: {kind}, %y: {kind}",
            kind,
            "%two = arith.constant 2.0 : f32",
            f"%twos = tensor.splat %two : {kind}",
            f"%t = math.tanh %x : {kind}",
            f"%s = arith.addf %t, %twos : {kind}",
            f"%less = arith.cmpf olt, %x, %y : {kind}",
            f"%r = arith.select %less, %s, %y : {flags}, {kind}",
        ),
    )
    np.testing.assert_allclose(got, np.where(x < y, np.tanh(x) + 2, y), rtol=1e-6)


GATHERS = {  # dimensions that indices count along, the result's shape, and what NumPy reads
    "rows": ("[0]", "2x3x1x5x6", lambda x, i: x[i[..., 0]][:, :, None]),
    "rows, without the dimension of size 1": ("[0]", "2x3x5x6", lambda x, i: x[i[..., 0]]),
    "columns": ("[2]", "2x3x4x5x1", lambda x, i: np.moveaxis(x[:, :, i[..., 0]], (2, 3), (0, 1))[..., None]),
}


@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.parametrize("index", ["i32", "i64"])
def test_gathers_of_slices(name, index, tmp_path):
    dims, shape, read = GATHERS[name]
    source, indices, result = "tensor<4x5x6xf32>", f"tensor<2x3x1x{index}>", f"tensor<{shape}xf32>"
    text = function(
        f"%x: {source}, %i: {indices} {{autotune.high = 4}}",
        result,
        f"%g = tensor.gather %x[%i] gather_dims({dims}) : ({source}, {indices}) -> {result}",
        f"%r = tensor.cast %g : {result} to {result}",
    )
    got, (x, i) = computed(tmp_path, text)
    np.testing.assert_array_equal(got, read(x, i))


def test_a_convolution_by_winograds_transforms(tmp_path):
    x, k, y = "tensor<1x4x4x1xf32>", "tensor<1x3x3x1xf32>", "tensor<1x2x2x1xf32>"
    tiles, filters, points = "tensor<4x4x1x1x1x1xf32>", "tensor<4x4x1x1xf32>", "tensor<4x4xf32>"
    flat = "[[0], [1, 2, 3, 4, 5]]"
    got, (values, kernel) = computed(
        tmp_path,
        function(
            f"%x: {x}, %k: {k}",
            y,
            f"%e = tensor.empty() : {filters}",
            f"%u = linalg.winograd_filter_transform fmr(F_2_3) ins(%k : {k}) outs(%e : {filters}) -> {filters}",
            f"%f = tensor.empty() : {tiles}",
            f"%v = linalg.winograd_input_transform fmr(F_2_3) ins(%x : {x}) outs(%f : {tiles}) -> {tiles}",
            f"%a = tensor.collapse_shape %u [[0], [1, 2, 3]] : {filters} into {points}",
            f"%b = tensor.collapse_shape %v {flat} : {tiles} into {points}",
            f"%m = arith.mulf %a, %b : {points}",
            f"%p = tensor.expand_shape %m {flat} output_shape [4, 4, 1, 1, 1, 1] : {points} into {tiles}",
            "%zero = arith.constant 0.0 : f32",
            f"%h = tensor.empty() : {y}",
            f"%g = linalg.fill ins(%zero : f32) outs(%h : {y}) -> {y}",
            f"%r = linalg.winograd_output_transform fmr(F_2_3) ins(%p : {tiles}) outs(%g : {y}) -> {y}",
        ),
    )
    windows = np.lib.stride_tricks.sliding_window_view(values[0, :, :, 0].astype("f8"), (3, 3))
    expected = np.einsum("hwij,ij->hw", windows, kernel[0, :, :, 0].astype("f8"))
    np.testing.assert_allclose(got[0, :, :, 0], expected, rtol=1e-4, atol=1e-4)


def test_a_module_without_them_stays_as_it_is():
    with context():
        module = parse(function("%x: f32", "f32", "%r = math.tanh %x : f32"), "mine")
        before = str(module)
        assert not decompose(module)
        assert str(module) == before
