"""Arguments, payloads and contractions: plain data that refuses what cannot be."""

import pickle

import numpy as np
import pytest

from autotune.core.errors import PayloadError
from autotune.core.ops.op import Contraction
from autotune.core.ops.oracle import ContractionOracle
from autotune.core.payload import Argument, Payload

RNG = np.random.default_rng(0)


def make(*arguments, **fields):
    return Payload("p", "module {}", "f", arguments, **fields)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"role": "out"}, "role of argument 'x' must be one of input, weight, state, output; got 'out'"),
        ({"dtype": "f8"}, "element type of argument 'x' must be one of f32, f64, i32, i64, i8, f16, bf16; got 'f8'"),
        ({"shape": (3, 0)}, r"sizes of argument 'x' must be at least 1; got \(3, 0\)"),
    ],
)
def test_impossible_argument_is_rejected(changes, message):
    with pytest.raises(PayloadError, match=message):
        Argument(**({"name": "x", "role": "input", "shape": (1,)} | changes))


@pytest.mark.parametrize(
    ("argument", "kind", "size"),
    [
        (Argument("x", "input", (3, 5)), "memref<3x5xf32>", 60),
        (Argument("x", "input", (), "f64"), "memref<f64>", 8),
        (Argument("x", "input", (7,), "i64"), "memref<7xi64>", 56),
    ],
)
def test_argument_knows_its_type_and_bytes(argument, kind, size):
    assert (argument.type, argument.bytes) == (kind, size)


def test_bytes_of_a_huge_argument_do_not_overflow():
    assert Argument("x", "weight", (50257, 2**20)).bytes == 50257 * 2**22


def test_outputs_and_bytes_of_a_payload_are_those_of_its_arguments():
    x, y = Argument("x", "input", (4,)), Argument("y", "output", (2,))
    assert make(x, y).outputs == (y,)
    assert make(x, y).bytes == 24


def test_same_seed_gives_the_same_inputs_and_another_seed_others():
    payload = make(Argument("x", "input", (50,)), Argument("w", "weight", (50,)), Argument("y", "output", (50,)))
    first, again, other = payload.make_inputs(3), payload.make_inputs(3), payload.make_inputs(4)
    assert set(first) == {"x", "w"}
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not any(np.array_equal(first[name], other[name]) for name in first)
    assert not np.array_equal(first["x"], first["w"])


def test_random_inputs_are_signed_and_within_their_range():
    values = make(Argument("x", "input", (1000,))).make_inputs(0)["x"]
    assert values.dtype == np.float32
    assert values.min() < -0.9 < 0.9 < values.max()
    assert (np.abs(values) <= 1).all()


def test_random_tokens_are_whole_numbers_below_the_vocabulary():
    tokens = make(Argument("tokens", "input", (1000,), "i32", 0, 5)).make_inputs(0)["tokens"]
    assert tokens.dtype == np.int32
    assert set(tokens.tolist()) == {0, 1, 2, 3, 4}


def test_inputs_of_a_payload_replace_random_data():
    given = {"x": np.ones(2, np.float32)}
    payload = make(Argument("x", "input", (2,)), inputs=lambda seed: given)
    assert payload.make_inputs(0) is given


def test_identity_is_that_of_the_text_alone():
    assert make().sha256 == make(Argument("x", "input", (2,)), flops=3.0).sha256
    assert make().sha256 != Payload("p", "module { }", "f", ()).sha256


def test_payload_pickles():
    payload = make(Argument("x", "input", (2,)), flops=3.0)
    assert pickle.loads(pickle.dumps(payload)) == payload


def test_flops_of_a_contraction_count_multiplications_and_additions_of_the_batch():
    assert Contraction(m=2, n=3, k=5, batch=7, batched=True).flops == 2 * 2 * 3 * 5 * 7


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("turned_a", [False, True])
@pytest.mark.parametrize("turned_b", [False, True])
def test_oracle_of_a_contraction_reads_operands_as_they_are_stored(batch, turned_a, turned_b):
    a, b = RNG.normal(size=(*batch, 2, 5)).astype("f4"), RNG.normal(size=(*batch, 5, 4)).astype("f4")
    stored_a = a.swapaxes(-1, -2) if turned_a else a
    stored_b = b.swapaxes(-1, -2) if turned_b else b
    about = Contraction(m=2, n=4, k=5, transposed_a=turned_a, transposed_b=turned_b)
    (product,) = ContractionOracle(about, 0.0)(in0=stored_a, in1=stored_b)
    assert product.dtype == np.float64
    np.testing.assert_allclose(product, a.astype("f8") @ b.astype("f8"), rtol=1e-15)
