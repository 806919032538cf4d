"""Row order: the oracle of a payload without a reference is the plain lowering to the bit, and runs along rows."""

import numpy as np
import pytest
from tuning_support import contraction_payload, run, tensor, tensor_payload

from autotune.compiler.ir.module import context, parse
from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.lowering.row_order import generic_ops, in_row_order, is_quick
from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.payload import Argument
from autotune.registry import load_payload

ROLES = ("input", "input", "output")


def windows(op, kernel, channels):
    """A convolution or a pool with strides, channels last."""
    shapes = (1, 9, 11, 5), kernel, (1, 4, 5, channels)
    image, weight, result = map(tensor, shapes)
    return tensor_payload(
        op,
        [Argument(name, role, shape) for name, role, shape in zip("xwy", ROLES, shapes, strict=True)],
        f"""%zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : {result}
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : {result}) -> {result}
    %result = linalg.{op} {{strides = dense<2> : vector<2xi64>}}
      ins(%x, %w : {image}, {weight}) outs(%zeros : {result}) -> {result}""",
    )


PAYLOADS = {
    **{
        f"{a} {b} {batch}": contraction_payload(37, 41, 29, batch=batch, a=a, b=b)
        for a in ("mk", "km")
        for b in ("kn", "nk")
        for batch in (0, 3)
    },
    "generic": contraction_payload(37, 41, 29, a="km", b="nk", generic=True),
    "convolution": windows("conv_2d_nhwc_hwcf", (3, 3, 5, 7), 7),
    "pooling": windows("pooling_nhwc_max", (3, 3), 5),
    **{
        spec: load_payload(spec)
        for spec in (
            "softmax,rows=5,cols=19",
            "layer_norm,rows=5,cols=19",
            "attention,heads=2,seq=9,d=5,causal=1",
            "embedding,vocab=9,rows=5,cols=7",
        )
    },
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_results_are_those_of_the_plain_lowering_to_the_bit_optimised_or_not(name):
    payload = PAYLOADS[name]
    inputs, text = payload.make_inputs(0), in_row_order(payload.text)
    plain = run(payload, inputs, None, PLAIN, level=3)
    for level in (0, 3):
        for mine, same in zip(run(payload, inputs, None, PLAIN, text=text, level=level), plain, strict=True):
            np.testing.assert_array_equal(mine, same)


@pytest.mark.parametrize(
    ("payload", "quick"),
    [
        (contraction_payload(64, 64, 64), True),
        (contraction_payload(256, 256, 256), True),
        (contraction_payload(256, 256, 257), False),
        (contraction_payload(256, 256, 256, batch=2), False),
        (load_payload("nano"), True),
        (load_payload("softmax,rows=8192,cols=4096"), False),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_what_has_few_iterations_an_op_is_quick(payload, quick):
    assert is_quick(in_row_order(payload.text)) is quick


@pytest.mark.parametrize(("times", "quick"), [(64, True), (65, False)])
def test_iterations_of_a_loop_around_ops_count(times, quick):
    step = f"""%c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {times} : index
    %y = tensor.empty() : tensor<512x512xf32>
    %result = scf.for %i = %c0 to %n step %c1 iter_args(%y0 = %y) -> (tensor<512x512xf32>) {{
      %next = linalg.exp ins(%x : tensor<512x512xf32>) outs(%y0 : tensor<512x512xf32>) -> tensor<512x512xf32>
      scf.yield %next : tensor<512x512xf32>
    }}"""
    arguments = [Argument("x", "input", (512, 512)), Argument("out", "output", (512, 512))]
    assert is_quick(tensor_payload("repeated", arguments, step).text) is quick


def test_what_has_no_structured_op_is_not_known_to_be_quick():
    assert not is_quick("func.func @nothing() { return }")


@pytest.mark.parametrize("name", [name for name in PAYLOADS if not name.startswith(("softmax", "layer", "embed"))])
def test_sums_run_along_rows_of_all_they_touch(name):
    """The innermost loop of every sum of products is the last dimension of what it writes, and of what it reads."""
    with context():
        sums = 0
        for op in generic_ops(parse(in_row_order(PAYLOADS[name].text), name)):
            kinds = [str(kind) for kind in op.attributes["iterator_types"]]
            written = dimensions(indexing_maps(op)[-1])
            if "reduction" in "".join(kinds) and written and written[-1] is not None and len(op.operands) == 3:
                sums += 1
                assert written[-1] == len(kinds) - 1
                assert "reduction" not in kinds[-1]
                assert all(len(kinds) - 1 not in dimensions(amap)[:-1] for amap in indexing_maps(op))
        assert sums
