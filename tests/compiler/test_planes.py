"""Depthwise convolutions over volumes, as importers write them over planes, read the volumes where they lie."""

from itertools import product

import numpy as np
import pytest
from tuning_support import run_tuned, tensor

from autotune.compiler.tasks.partition import partition
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.host.machine import this_machine

STEPS = {"depth": (1, 1), "plane": ((1, 1), (1, 1))}


def over_planes(shape, kernel, *, depth, plane, order=None):
    """A payload ``y = conv(x, k)`` of volumes (n, c, d, h, w) with a kernel (c, f, e, i, j), and its planes and sizes.

    Args:
        shape: Shape of the volumes.
        kernel: Shape of the kernel.
        depth: Stride and dilation along the depth.
        plane: The same in planes, down and across.
        order: Planes of the kernel's elements; by default one after the other.
    """
    (n, c, deep, h, w), (_, f, taps, i, j) = shape, kernel
    (stride, dilation), ((down, rows), (across, columns)) = depth, plane
    places = (deep - dilation * (taps - 1) - 1) // stride + 1
    begins = [tap * dilation for tap in range(taps)] if order is None else order
    high, wide = (h - rows * (i - 1) - 1) // down + 1, (w - columns * (j - 1) - 1) // across + 1
    x, part, one = tensor(shape), tensor((n, c, places, h, w)), tensor((n, c, 1, places, h, w))
    joined, turned = tensor((n, c, taps, places, h, w)), tensor((n, places, c, taps, h, w))
    k, read, y = tensor(kernel), tensor((n * places, c, taps, h, w)), tensor((n * places, c, f, high, wide))
    cut = f"[{n}, {c}, {places}, {h}, {w}] [1, 1, {stride}, 1, 1]"
    planes = "\n".join(
        f"""%s{t} = tensor.extract_slice %x[0, 0, {begin}, 0, 0] {cut} : {x} to {part}
        %p{t} = tensor.expand_shape %s{t} [[0], [1], [2, 3], [4], [5]] output_shape [{n}, {c}, 1, {places}, {h}, {w}]
          : {part} into {one}"""
        for t, begin in enumerate(begins)
    )
    names = ", ".join(f"%p{t}" for t in range(taps))
    steps = [
        f"{n} = dense<{v}> : vector<2xi64>" for n, v in (("dilations", [rows, columns]), ("strides", [down, across]))
    ]
    text = f"""func.func @f(%x: {x}, %k: {k}) -> {y} {{
      {planes}
      %c = tensor.concat dim(2) {names} : ({", ".join([one] * taps)}) -> {joined}
      %e = tensor.empty() : {turned}
      %t = linalg.transpose ins(%c : {joined}) outs(%e : {turned}) permutation = [0, 3, 1, 2, 4, 5]
      %r = tensor.collapse_shape %t [[0, 1], [2], [3], [4], [5]] : {turned} into {read}
      %zero = arith.constant 0.0 : f32
      %o = tensor.empty() : {y}
      %z = linalg.fill ins(%zero : f32) outs(%o : {y}) -> {y}
      %y = linalg.conv_2d_ngchw_gfchw {{{", ".join(steps)}}} ins(%r, %k : {read}, {k}) outs(%z : {y}) -> {y}
      return %y : {y}
    }}"""
    return read_payload("volumes.mlir", text), begins, (places, high, wide)


@pytest.mark.parametrize(
    ("shape", "kernel", "steps", "copied"),
    [
        ((1, 5, 8, 9, 11), (5, 1, 5, 5, 5), {}, False),
        ((2, 3, 9, 6, 20), (3, 2, 3, 2, 4), {"depth": (2, 1), "plane": ((2, 1), (1, 2))}, False),
        ((2, 4, 9, 6, 7), (4, 1, 2, 3, 1), {"depth": (2, 3), "plane": ((1, 2), (1, 1))}, False),
        ((1, 4, 9, 6, 7), (4, 1, 3, 3, 1), {"order": [0, 2, 1]}, True),
        ((1, 4, 9, 6, 9), (4, 1, 3, 3, 2), {"plane": ((1, 1), (2, 1))}, False),
        ((1, 4, 9, 6, 9), (4, 2, 3, 3, 2), {"plane": ((1, 1), (2, 1))}, True),
    ],
)
def test_planes_are_read_in_the_volumes_and_copied_where_they_are_not_evenly_apart(shape, kernel, steps, copied):
    payload, begins, (places, high, wide) = over_planes(shape, kernel, **{**STEPS, **steps})
    assert any("concat" in str(op) for op in partition(payload).uncovered) == copied
    inputs = payload.make_inputs(0)
    (found,), _ = run_tuned(payload, inputs, this_machine())
    x, k = (each.astype(np.float64) for each in inputs.values())
    (stride, _), ((down, rows), (across, columns)) = ({**STEPS, **steps}[name] for name in STEPS)
    wanted = np.zeros((shape[0], places, *kernel[:2], high, wide))
    for tap, i, j in product(*map(range, kernel[2:])):
        part = x[:, :, begins[tap] :: stride, i * rows :: down, j * columns :: across][:, :, :places, :high, :wide]
        wanted += np.einsum("ncdhw,cf->ndcfhw", part, k[:, :, tap, i, j])
    np.testing.assert_allclose(found, wanted.reshape(found.shape), rtol=1e-4, atol=1e-4)
