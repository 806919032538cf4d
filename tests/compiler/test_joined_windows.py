"""Windows of bytes that are joined as rows of a matrix: read where they lie, or left where they are something else."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tuning_support import loaded

from autotune.bundles.call import compile_payload
from autotune.compiler.tasks.partition import partition

CHANNELS = 64
IMAGES = (2, 12, 13)  # how many, and their height and width


def joined(offsets, sizes, strides, *, channels=CHANNELS, start=0):
    """A product of windows, each place of them a slice of a slice, as ONNX's importer has them."""
    (n, rows, columns), filters = IMAGES, 16
    high, wide = sizes
    part = f"tensor<{n}x{high}x{wide}x{channels}xi8>"
    whole, lines = f"tensor<{n}x{rows}x{columns}x{channels}xi8>", f"tensor<{n}x{high}x{columns}x{channels}xi8>"
    cut = [
        f"""%l{number} = tensor.extract_slice %x[0, {i}, 0, 0] [{n}, {high}, {columns}, {channels}]
              [1, {strides[0]}, 1, 1] : {whole} to {lines}
            %p{number} = tensor.extract_slice %l{number}[0, 0, {j}, 0] [{n}, {high}, {wide}, {channels}]
              [1, 1, {strides[1]}, 1] : {lines} to {part}"""
        for number, (i, j) in enumerate(offsets)
    ]
    count, k = n * high * wide, len(offsets) * channels
    names = ", ".join(f"%p{number}" for number in range(len(offsets)))
    kinds = ", ".join([part] * len(offsets))
    a, b, c = f"tensor<{count}x{k}xi8>", f"tensor<{k}x{filters}xi8>", f"tensor<{count}x{filters}xi32>"
    wide_part = f"tensor<{n}x{high}x{wide}x{k}xi8>"
    newline = "\n"
    return f"""func.func @joined(%x: {whole}, %k: {b} {{autotune.role = "weight"}}) -> {c} {{
      {newline.join(cut)}
      %joined = tensor.concat dim(3) {names} : ({kinds}) -> {wide_part}
      %rows = tensor.collapse_shape %joined [[0, 1, 2], [3]] : {wide_part} into {a}
      %zero = arith.constant {start} : i32
      %e = tensor.empty() : {c}
      %i = linalg.fill ins(%zero : i32) outs(%e : {c}) -> {c}
      %y = linalg.matmul ins(%rows, %k : {a}, {b}) outs(%i : {c}) -> {c}
      return %y : {c}
    }}"""


def is_read_in_place(payload):
    """Whether the one task of a payload has the loops of windows, and nothing is joined."""
    parts = partition(payload)
    return len(parts.tasks) == 1 and parts.tasks[0].root.lanes is not None and "concat" not in parts.payload.text


def check(payload, offsets, sizes, strides, start=0):
    """Compare a program with sums of whole numbers."""
    rng = np.random.default_rng(0)
    inputs = {name: rng.integers(-128, 128, a.shape).astype(np.int8) for name, a in payload.make_inputs(0).items()}
    x, weight = (each.astype(np.int64) for each in inputs.values())
    ends = [(size - 1) * by + 1 for size, by in zip(sizes, strides, strict=True)]
    parts = [x[:, i : i + ends[0] : strides[0], j : j + ends[1] : strides[1]] for i, j in offsets]
    got = compile_payload(payload)(**inputs)
    np.testing.assert_array_equal(got, (np.concatenate(parts, axis=-1) @ weight).reshape(got.shape) + start)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 3)),
)
@example(kernel=(3, 3), strides=(1, 1), dilations=(1, 1))
@example(kernel=(3, 1), strides=(2, 1), dilations=(1, 1))
@example(kernel=(1, 3), strides=(1, 3), dilations=(1, 2))
def test_windows_are_read_where_they_lie(kernel, strides, dilations, tmp_path_factory):
    sides = zip(IMAGES[1:], kernel, dilations, strides, strict=True)
    sizes = [(size - d * (k - 1) - 1) // by + 1 for size, k, d, by in sides]
    offsets = [(i * dilations[0], j * dilations[1]) for i, j in product(*map(range, kernel))]
    payload = loaded(tmp_path_factory.mktemp("joined"), joined(offsets, sizes, strides))
    assert is_read_in_place(payload) or len(offsets) == 1
    check(payload, offsets, sizes, strides)


GRID = list(product(range(3), range(3)))


@pytest.mark.parametrize(
    ("offsets", "more"),
    [
        (GRID[::-1], {}),  # in another order
        ([*GRID[:-1], (2, 3)], {}),  # no grid
        ([(i + 1, j) for i, j in GRID], {}),  # not from the first row on
        (GRID, {"channels": 8}),  # few channels
        (GRID, {"start": 1}),  # begun with a number
        ([(0, 0), (0, 0)], {}),  # the same twice
    ],
)
def test_others_are_joined(offsets, more, tmp_path):
    payload = loaded(tmp_path, joined(offsets, (9, 10), (1, 1), **more))
    assert not is_read_in_place(payload)
    check(payload, offsets, (9, 10), (1, 1), more.get("start", 0))
