"""GatherBlockQuantized: rows of a table in blocks are those of the table widened whole, for all that a table may be."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autotune as at

pytestmark = pytest.mark.usefixtures("warm_converters")
OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
ROWS, COLUMNS = 11, 72
RNG = np.random.default_rng(3)
TYPES = {"int4": (-8, 8, 4, 0), "uint4": (0, 16, 4, 0), "nibbles": (0, 16, 4, 8), "bytes": (0, 256, 8, 128)}


def packed(values):
    """Two nibbles a byte, the lower one first."""
    whole = (values & 15).reshape(-1)
    return (whole[::2] | (whole[1::2] << 4)).astype(np.uint8)


def tensor(name, values, kind):
    """A tensor of a type; nibbles lie in bytes along the last axis."""
    if kind in ("int4", "uint4"):
        filled = np.pad(values.reshape(-1), (0, values.size % 2))
        code = getattr(TensorProto, kind.upper())
        return helper.make_tensor(name, code, values.shape, packed(filled).tobytes(), raw=True)
    if kind == "bytes":
        return numpy_helper.from_array(values.astype(np.uint8), name)
    even = np.pad(values, [*[(0, 0)] * (values.ndim - 1), (0, values.shape[-1] % 2)])
    return numpy_helper.from_array(packed(even).reshape(*even.shape[:-1], -1), name)


def save(path, held, indices, **said):
    """A model of one such op."""
    node = helper.make_node("GatherBlockQuantized", ["w", "i", *(t.name for t in held[1:])], ["y"], **said)
    node.domain = "com.microsoft"
    given = [helper.make_tensor_value_info("i", TensorProto.INT64, list(indices.shape))]
    graph = helper.make_graph([node], "g", given, [helper.make_tensor_value_info("y", 1, None)], held)
    onnx.save(helper.make_model(graph, opset_imports=OPSETS, ir_version=10), path)
    return path


def table(kind, size, *, zeros):
    """Whole numbers, scales and zero points; and the table in float64."""
    low, high, _, middle = TYPES[kind]
    blocks = -(-COLUMNS // size)
    whole = RNG.integers(low, high, (ROWS, COLUMNS))
    scales = RNG.uniform(-0.1, 0.1, (ROWS, blocks)).astype(np.float32)
    points = RNG.integers(low, high, scales.shape) if zeros else np.full(scales.shape, middle)
    spread = [np.repeat(each, min(size, COLUMNS), 1)[:, :COLUMNS] for each in (points, scales.astype(np.float64))]
    return whole, scales, points, (whole - spread[0]) * spread[1]


@pytest.mark.parametrize("zeros", [False, True], ids=["no zero points", "zero points"])
@pytest.mark.parametrize("kind", TYPES)
def test_rows_are_those_of_the_table(kind, zeros, tmp_path):
    whole, scales, points, exact = table(kind, 16, zeros=zeros)
    held = [tensor("w", whole, kind), numpy_helper.from_array(scales, "s")]
    held += [tensor("z", points, kind)] if zeros else []
    indices = RNG.integers(0, ROWS, (2, 3))
    path = save(tmp_path / "m.onnx", held, indices, block_size=16, bits=TYPES[kind][2])
    np.testing.assert_allclose(at.compile(str(path))(indices), exact[indices], atol=1e-6)


def test_rows_may_be_along_the_last_axis_and_blocks_along_the_first(tmp_path):
    whole, scales, points, exact = (x.T for x in table("int4", 32, zeros=True))
    held = [tensor("w", whole, "int4"), numpy_helper.from_array(scales.copy(), "s"), tensor("z", points, "int4")]
    indices = np.array([3, 0, 10, 3])
    path = save(tmp_path / "m.onnx", held, indices, block_size=32, gather_axis=1, quantize_axis=0)
    np.testing.assert_allclose(at.compile(str(path))(indices), exact[:, indices], atol=1e-6)


def test_a_block_may_be_longer_than_a_row(tmp_path):
    whole, scales, _, exact = table("int4", 1 << 20, zeros=False)
    held = [tensor("w", whole, "int4"), numpy_helper.from_array(scales, "s")]
    indices = np.array([10, 0])
    path = save(tmp_path / "m.onnx", held, indices, block_size=1 << 20)
    np.testing.assert_allclose(at.compile(str(path))(indices), exact[indices], atol=1e-6)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"block_size": 1 << 30}, "block_size must be a power of two from 16 on, it is 1073741824"),
        ({"block_size": 17}, "block_size must be a power of two from 16 on, it is 17"),
        ({"block_size": 16, "quantize_axis": 0}, "rows must be along another axis than blocks"),
        ({"block_size": 16, "gather_axis": 2}, "its axes must be those of 2 dimensions"),
        ({"block_size": 32}, r"scales must be \[11, 3\], they are \[11, 5\]"),
        ({"block_size": 16, "bits": 3}, "bytes of 4 or 8 bits, they are int4 of 3 bits"),
    ],
)
def test_what_is_none_is_refused_in_a_line(said, why, tmp_path):
    whole, scales, *_ = table("int4", 16, zeros=False)
    held = [tensor("w", whole, "int4"), numpy_helper.from_array(scales, "s")]
    with pytest.raises(at.AutotuneError, match=why):
        at.compile(str(save(tmp_path / "m.onnx", held, np.array([1]), **said)))
