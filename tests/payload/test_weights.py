"""Weights of a GPT: random ones, and files with Hugging Face names that the tests write themselves."""

import json
import os
import pickle
import struct

import numpy as np
import pytest
from payload_support import Program, hugging_face
from safetensors.numpy import save_file

from autotune.core.errors import PayloadError
from payload import gpt
from payload.config import GPTConfig
from payload.weights import declare, load_gpt2, random_weights

TINY = GPTConfig(seq=5, d_model=8, layers=3, heads=2, d_ff=12, vocab=11, positions=7)
SIZES = {"seq": "5", "d_model": "8", "layers": "3", "heads": "2", "d_ff": "12", "vocab": "11", "positions": "7"}


@pytest.fixture
def weights():
    return random_weights(TINY, seed=0)


def test_random_weights_are_as_declared_and_follow_the_seed(weights):
    assert {name: array.shape for name, array in weights.items()} == {a.name: a.shape for a in declare(TINY)}
    for a in declare(TINY):
        assert weights[a.name].dtype == np.float32
        assert a.low <= weights[a.name].min() <= weights[a.name].max() <= a.high
    np.testing.assert_array_equal(random_weights(TINY, 0)["wte"], weights["wte"])
    assert not np.array_equal(random_weights(TINY, 1)["wte"], weights["wte"])


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_a_file_gives_back_the_weights_it_was_written_from(tmp_path, weights, prefix):
    save_file(hugging_face(weights, TINY, prefix), tmp_path / "model.safetensors")
    loaded = load_gpt2(str(tmp_path / "model.safetensors"), TINY)
    assert list(loaded) == [a.name for a in declare(TINY)]
    for name, array in weights.items():
        assert loaded[name].dtype == np.float32
        np.testing.assert_array_equal(loaded[name], array)


def test_half_precision_is_widened(tmp_path, weights):
    save_file(hugging_face(weights, TINY, dtype=np.float16), tmp_path / "half.safetensors")
    loaded = load_gpt2(str(tmp_path / "half.safetensors"), TINY)
    assert loaded["wte"].dtype == np.float32
    np.testing.assert_array_equal(loaded["wte"], weights["wte"].astype(np.float16).astype(np.float32))


def test_payload_runs_with_the_weights_of_a_file(tmp_path, weights):
    path = str(tmp_path / "model.safetensors")
    save_file(hugging_face(weights, TINY), path)
    payload = pickle.loads(pickle.dumps(gpt.gpt({**SIZES, "weights": path})))
    assert payload.name.endswith(f",weights={path}")
    first, second = payload.make_inputs(0), payload.make_inputs(1)
    np.testing.assert_array_equal(first["wte"], weights["wte"])
    assert not np.array_equal(first["tokens"], second["tokens"])
    np.testing.assert_allclose(Program(payload)(**first)[0], payload.reference(**first)[0], rtol=1e-4, atol=1e-4)


def test_text_is_the_same_with_and_without_a_file(tmp_path, weights):
    save_file(hugging_face(weights, TINY), tmp_path / "model.safetensors")
    with_file = gpt.gpt({**SIZES, "weights": str(tmp_path / "model.safetensors")})
    assert with_file.sha256 == gpt.gpt(SIZES).sha256


def message_of(path, config=TINY):
    with pytest.raises(PayloadError) as raised:
        load_gpt2(str(path), config)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_missing_tensor_is_named(tmp_path, weights):
    tensors = hugging_face(weights, TINY)
    del tensors["h.1.mlp.c_fc.bias"]
    save_file(tensors, tmp_path / "model.safetensors")
    assert "weights must have tensor 'h.1.mlp.c_fc.bias'" in message_of(tmp_path / "model.safetensors")


def test_a_tensor_of_another_shape_is_named(tmp_path, weights):
    tensors = hugging_face(weights, TINY)
    tensors["wpe.weight"] = tensors["wpe.weight"][:4].copy()
    save_file(tensors, tmp_path / "model.safetensors")
    expected = "wpe.weight must be (7, 8) for these sizes, got (4, 8); change the sizes"
    assert message_of(tmp_path / "model.safetensors") == expected


def test_a_dtype_numpy_lacks_is_named(tmp_path, weights):
    tensors = hugging_face(weights, TINY, dtype=np.float16)
    header, data = {}, b""
    for name, tensor in tensors.items():
        span = [len(data), len(data) + tensor.nbytes]
        header[name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": span}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    (tmp_path / "brain.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    expected = "dtype of wte.weight must be one of F16, F32, F64, got BF16; convert the file to F32"
    assert message_of(tmp_path / "brain.safetensors") == expected


@pytest.mark.parametrize("content", [None, b"", b"not safetensors at all"])
def test_an_unreadable_file_is_one_line(tmp_path, content):
    path = tmp_path / "model.safetensors"
    if content is not None:
        path.write_bytes(content)
    assert message_of(path).startswith("weights must be a readable safetensors file, got ")


def test_a_directory_is_not_a_weights_file(tmp_path):
    assert message_of(tmp_path).startswith("weights must be a readable safetensors file, got ")


def test_a_bad_file_is_reported_when_the_payload_is_built(tmp_path):
    with pytest.raises(PayloadError, match="readable safetensors file"):
        gpt.nano({"weights": str(tmp_path / "absent.safetensors")})


@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_a_file_that_never_ends_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "weights.safetensors"
    os.mkfifo(path) if kind == "FIFO" else path.symlink_to("/dev/zero")
    with pytest.raises(PayloadError, match=f"it is a {kind}, not a regular file"):
        load_gpt2(str(path), TINY)
