"""Weights in blocks of ONNX models: they stay in blocks, and products with them are what float64 says."""

from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autotune as at
from autotune.worker.loading.importing import import_model

pytestmark = pytest.mark.usefixtures("warm_converters")
N = 6
OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]


@dataclass(frozen=True)
class Case:
    """A weight in blocks: bits, elements a block, columns, whether it has zero points; rows of the other operand."""

    bits: int
    size: int
    k: int
    zeros: bool = False
    half: bool = False
    rows: tuple[int, ...] = (2,)

    @property
    def numbers(self):
        """Whole numbers without a sign, zero points and scales, of every block."""
        rng, blocks = np.random.default_rng(self.k), -(-self.k // self.size)
        whole = rng.integers(0, 1 << self.bits, (N, blocks, self.size)).astype(np.uint8)
        zeros = rng.integers(0, 1 << self.bits, (N, blocks)).astype(np.uint8)
        scales = rng.uniform(-0.02, 0.02, (N, blocks)).astype(np.float32)
        scales[0, 0] = 0
        scales = scales.astype(np.float16).astype(np.float32) if self.half else scales
        return whole, zeros if self.zeros else np.full_like(zeros, 1 << (self.bits - 1)), scales

    @property
    def weight(self):
        """The weight ``(N, K)`` in float64."""
        whole, zeros, scales = (x.astype(np.float64) for x in self.numbers)
        return ((whole - zeros[..., None]) * scales[..., None]).reshape(N, -1)[:, : self.k]


CASES = {
    "nibbles": Case(4, 32, 64),
    "nibbles beside zero points": Case(4, 32, 96, zeros=True),
    "scales of 64, shared": Case(4, 64, 128, rows=(2, 3)),
    "scales of 128, f16, many rows": Case(4, 128, 256, half=True, rows=(20,)),
    "a last block of 32 of 128": Case(4, 128, 160, zeros=True),
    "nibbles of 16": Case(4, 16, 48, zeros=True),
    "bytes": Case(8, 32, 64, half=True),
    "bytes of 16 beside zero points": Case(8, 16, 80, zeros=True, rows=(1,)),
}


def packed(whole, bits):
    """Whole numbers in bytes, the lower one first."""
    return whole if bits == 8 else (whole[..., ::2] | (whole[..., 1::2] << 4)).astype(np.uint8)


def save(path, nodes, held, case, gives=("y",)):
    """Write a model of one input, and of results that are as wide as the weight."""
    tensors = [x if isinstance(x, onnx.TensorProto) else numpy_helper.from_array(x, name) for name, x in held.items()]
    given = [helper.make_tensor_value_info("x", 1, [*case.rows, case.k])]
    made = [helper.make_tensor_value_info(name, 1, None) for name in gives]
    graph = helper.make_graph(nodes, "g", given, made, tensors)
    onnx.save(helper.make_model(graph, opset_imports=OPSETS, ir_version=10), path)
    return path


def in_bits(case, path, times=1):
    """A model of products by MatMulNBits, all by the same weight."""
    whole, zeros, scales = case.numbers
    held = {"w": packed(whole, case.bits), "ws": scales.reshape(-1)}
    if case.zeros:
        even = np.pad(zeros, ((0, 0), (0, zeros.shape[1] % 2)))
        held["wz"] = packed(even, case.bits).reshape(-1) if case.bits == 4 else zeros.reshape(-1)
    said = {"K": case.k, "N": N, "bits": case.bits, "block_size": case.size}
    gives = [f"y{i}" for i in range(times)]
    nodes = [helper.make_node("MatMulNBits", ["x", *held], [y], domain="com.microsoft", **said) for y in gives]
    return save(path, nodes, held, case, gives)


def dequantised(case, path, kind, *, read_twice=False):
    """A model of a product by what DequantizeLinear widens along its rows."""
    whole, zeros, scales = case.numbers
    low = 0 if kind.startswith("U") else 1 << (case.bits - 1)
    number = getattr(TensorProto, kind)
    rows = whole.reshape(N, -1).T.astype(int) - low
    held = {
        "w": helper.make_tensor("w", number, rows.shape, rows.flatten().tolist()),
        "ws": np.ascontiguousarray(scales.T),
        "wz": helper.make_tensor("wz", number, zeros.T.shape, (zeros.T.astype(int) - low).flatten().tolist()),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wide"], axis=0, block_size=case.size),
        helper.make_node("MatMul", ["x", "wide"], ["y"]),
    ]
    nodes += [helper.make_node("Neg", ["wide"], ["minus"])] if read_twice else []
    return save(path, nodes, held, case, ("y", "minus") if read_twice else ("y",))


def imported(path, folder):
    """The payload of a model."""
    import_model(str(path), folder)
    return at.payload(str(folder))


def kinds(payload):
    """Element types of the weights."""
    return sorted(argument.dtype for argument in payload.arguments if argument.role == "weight")


def assert_right(payload, folder, case, results=1):
    given = payload.make_inputs(3)
    x = np.asarray(given["x"], np.float64)
    found = at.compile(str(folder))(x=given["x"])
    for y in found.values() if results > 1 else [found]:
        np.testing.assert_allclose(y, x @ case.weight.T, atol=2e-6 * np.abs(x @ case.weight.T).max())


@pytest.mark.parametrize("name", CASES)
def test_a_product_by_bits_stays_in_blocks_and_is_right(name, tmp_path):
    case = CASES[name]
    payload = imported(in_bits(case, tmp_path / "model.onnx"), tmp_path / "model")
    stored = next(a for a in payload.arguments if a.dtype == "i8")
    assert stored.bytes == N * case.k * (4 if case.bits == 4 and case.size >= 32 else 8) // 8
    assert kinds(payload) == ["f16" if case.half else "f32"] * (1 + case.zeros) + ["i8"]
    assert not payload.notes
    assert_right(payload, tmp_path / "model", case)


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT8", "UINT8"])
def test_what_is_dequantised_for_products_alone_stays_in_blocks(kind, tmp_path):
    case = Case(4 if kind.endswith("4") else 8, 32, 96, zeros=True)
    payload = imported(dequantised(case, tmp_path / "model.onnx", kind), tmp_path / "model")
    assert kinds(payload) == ["f32", "f32", "i8"]
    assert_right(payload, tmp_path / "model", case)


def test_what_something_else_reads_is_widened(tmp_path):
    case = Case(8, 32, 64, zeros=True)
    payload = imported(dequantised(case, tmp_path / "model.onnx", "INT8", read_twice=True), tmp_path / "model")
    assert "i8" not in kinds(payload)
    found = at.compile(str(tmp_path / "model"))(x=payload.make_inputs(0)["x"])
    np.testing.assert_allclose(list(found.values())[1], -case.weight.T, rtol=1e-6, atol=1e-9)


def test_several_products_by_one_weight_are_right(tmp_path):
    case = CASES["nibbles"]
    payload = imported(in_bits(case, tmp_path / "model.onnx", times=2), tmp_path / "model")
    assert_right(payload, tmp_path / "model", case, results=2)
