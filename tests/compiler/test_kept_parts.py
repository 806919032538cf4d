"""A part of a tensor that is replaced leaves the rest as it was, whatever the rank of the vectors that write it."""

import numpy as np
import pytest
from tuning_support import agrees, run, run_tuned

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.kept_parts import copy_kept, replaces_parts
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate

PARTS = (
    ((4, 4), (1, 4)),
    ((4, 8), (1, 8)),
    ((4, 8), (2, 8)),
    ((4, 4), (4, 1)),
    ((1, 4), (1, 2)),
    ((1, 4, 4), (1, 1, 4)),
    ((3, 5, 7), (1, 1, 7)),
    ((3, 5, 7), (1, 5, 7)),
    ((2, 8, 3), (1, 8, 1)),
)


def doubles(whole, part, at=0):
    """A payload that doubles a part of a tensor, which is an argument."""
    kind, piece = (f"tensor<{'x'.join(map(str, sizes))}xf32>" for sizes in (whole, part))
    axes = ", ".join(f"d{axis}" for axis in range(len(whole)))
    amap, loops = f"affine_map<({axes}) -> ({axes})>", ", ".join(['"parallel"'] * len(whole))
    place = f"[{at}{', 0' * (len(whole) - 1)}] {list(part)} {[1] * len(whole)}"
    text = f"""func.func @doubles(%x: {kind}) -> {kind} {{
      %two = arith.constant 2.0 : f32
      %part = tensor.extract_slice %x{place} : {kind} to {piece}
      %empty = tensor.empty() : {piece}
      %twice = linalg.generic {{indexing_maps = [{amap}, {amap}], iterator_types = [{loops}]}}
        ins(%part : {piece}) outs(%empty : {piece}) {{
      ^bb0(%in: f32, %out: f32):
        %r = arith.mulf %in, %two : f32
        linalg.yield %r : f32
      }} -> {piece}
      %result = tensor.insert_slice %twice into %x{place} : {piece} into {kind}
      return %result : {kind}
    }}"""
    return read_payload("doubles.mlir", text)


@pytest.mark.parametrize(("whole", "part"), PARTS, ids=str)
def test_what_is_around_a_replaced_part_stays(whole, part):
    x = np.random.default_rng(0).standard_normal(whole).astype(np.float32)
    wanted = x.copy()
    wanted[tuple(map(slice, part))] *= 2
    payload = doubles(whole, part)
    (given,), parts = run_tuned(payload, {payload.arguments[0].name: x}, this_machine())
    assert parts.tasks
    np.testing.assert_array_equal(np.reshape(given, whole), wanted)


def test_a_copy_is_made_where_it_is_needed_and_nowhere_else():
    copies = {}
    for name, payload in (
        ("at the beginning", doubles((4, 8), (1, 8))),
        ("behind it", doubles((4, 8), (1, 8), at=2)),
        ("several rows", doubles((4, 8), (2, 8))),
        ("a short row", doubles((8, 4), (1, 4))),
    ):
        with context():
            module = parse(partition(payload).payload.text, name)
            needed = replaces_parts(module)
            copy_kept(module)
            assert module.operation.verify()
            copies[name] = str(module).count("bufferization.alloc_tensor() copy(")
        assert bool(copies[name]) == needed
    assert copies == {"at the beginning": 1, "behind it": 0, "several rows": 0, "a short row": 0}


def test_the_borders_of_a_pad_hold_nothing_that_is_kept():
    payload = read_payload(
        "pad.mlir",
        """func.func @pad(%x: tensor<3x5x5xf32>) -> tensor<3x7x7xf32> {
          %zero = arith.constant 0.0 : f32
          %r = tensor.pad %x low[0, 1, 1] high[0, 1, 1] {
          ^bb0(%c: index, %h: index, %w: index):
            tensor.yield %zero : f32
          } : tensor<3x5x5xf32> to tensor<3x7x7xf32>
          %empty = tensor.empty() : tensor<3x7x7xf32>
          %y = linalg.exp ins(%r : tensor<3x7x7xf32>) outs(%empty : tensor<3x7x7xf32>) -> tensor<3x7x7xf32>
          return %y : tensor<3x7x7xf32>
        }""",
    )
    with context():
        module = parse(partition(payload).payload.text, "pad")
        assert str(module).count("tensor.insert_slice") > 1
        assert not replaces_parts(module)


@pytest.mark.parametrize("shape", [(40,), (6, 9)])
def test_a_pad_is_written_to_its_result_and_copied_once(shape):
    kind, more = (f"tensor<{'x'.join(str(size + 2 * extra) for size in shape)}xf32>" for extra in (0, 1))
    ones, places = [1] * len(shape), ", ".join(f"%i{axis}: index" for axis in range(len(shape)))
    text = f"""func.func @pads(%x: {kind}) -> {more} {{
      %zero = arith.constant 0.0 : f32
      %p = tensor.pad %x low{ones} high{ones} {{
      ^bb0({places}):
        tensor.yield %zero : f32
      }} : {kind} to {more}
      return %p : {more}
    }}"""
    payload = read_payload("pads.mlir", text)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (given,), parts = run_tuned(payload, {payload.arguments[0].name: x}, this_machine())
    np.testing.assert_array_equal(given, np.pad(x, 1))
    text = compile_to("bufferized", payload, default_candidate(parts, this_machine())).text
    assert "memref.alloc" not in text
    assert text.count("linalg.copy") + text.count("memref.copy") == 1


ADDED = {
    "minima of windows": (
        "linalg.pooling_nwc_min {strides = dense<2> : tensor<1xi64>, dilations = dense<1> : tensor<1xi64>}",
        ("1x11x17xi64", "1xi64"),
        "1x6x17xi64",
    ),
    "sums of windows": (
        "linalg.pooling_nwc_sum {strides = dense<1> : tensor<1xi64>, dilations = dense<1> : tensor<1xi64>}",
        ("1x7x17xf64", "2xf64"),
        "1x6x17xf64",
    ),
    "a product": ("linalg.matmul", ("5x16xf32", "16x17xf32"), "5x17xf32"),
    "products of a batch": ("linalg.batch_matmul", ("2x3x4xf32", "2x4x8xf32"), "2x3x8xf32"),
    "a convolution": ("linalg.conv_1d_nwc_wcf", ("1x7x3xf32", "2x3x16xf32"), "1x6x16xf32"),
}


@pytest.mark.parametrize("name", ADDED)
def test_what_is_added_to_an_argument_begins_with_all_of_it(name):
    op, (a, b), c = ADDED[name]
    text = f"""func.func @added(%a: tensor<{a}>, %b: tensor<{b}>, %c: tensor<{c}>) -> tensor<{c}> {{
      %r = {op} ins(%a, %b : tensor<{a}>, tensor<{b}>) outs(%c : tensor<{c}>) -> tensor<{c}>
      return %r : tensor<{c}>
    }}"""
    payload, machine = read_payload("added.mlir", text), this_machine()
    with context():
        assert replaces_parts(parse(payload.text, "added"))
    inputs = payload.make_inputs(0)
    expected = run(payload, inputs, None, PLAIN)
    for seed in (None, 1):
        agrees(payload, run_tuned(payload, inputs, machine, seed)[0], expected)


def test_sums_that_begin_with_an_argument_of_another_shape_keep_its_elements():
    kind = "tensor<1x3x1xi64>"  # which a batch of one makes two dimensions of two more
    text = f"""func.func @adds(%x: {kind}) -> {kind} {{
      %window = tensor.empty() : tensor<1xi64>
      %result = linalg.pooling_nwc_sum ins(%x, %window : {kind}, tensor<1xi64>) outs(%x : {kind}) -> {kind}
      return %result : {kind}
    }}"""
    payload, x = read_payload("adds.mlir", text), np.arange(1, 4).reshape(1, 3, 1)
    (given,), parts = run_tuned(payload, {payload.arguments[0].name: x}, this_machine())
    assert parts.tasks
    np.testing.assert_array_equal(np.reshape(given, x.shape), 2 * x)
