"""GGUF models in: prefill and decode beside llama.cpp's arithmetic in float64, and files that are refused."""

import re

import numpy as np
import pytest

import autotune as at
from autotune.bundles.session import Session

gguf = pytest.importorskip("gguf")

from gguf_support import CONTEXT, WIDTH, logits_of, write_model  # noqa: E402

from autotune.contrib.quantised.gguf_convert import convert  # noqa: E402
from autotune.worker.loading.importing import import_model  # noqa: E402
from payload.importers.linalg import UnsupportedError  # noqa: E402

TEXT = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5], np.int32)
COMPILED = [("llama", {"kind": "Q8_0", "mixed": "Q4_0"}), ("qwen2", {"kind": "Q4_0", "mixed": "F16", "tied": False})]
MODELS = [*COMPILED, ("llama", {"kind": "Q8_0"}), ("qwen2", {"kind": "F16"}), ("phi3", {"kind": "Q4_0", "tied": False})]


def imported(path, folder, **sizes):
    convert(path, folder, sizes)
    return at.payload(str(folder))


@pytest.mark.parametrize(("architecture", "options"), COMPILED)
def test_a_prompt_and_a_token_behind_it_give_what_the_file_says(architecture, options, tmp_path):
    held = write_model(tmp_path / "model.gguf", architecture, **options)
    session = Session(tmp_path)
    prefill = session.load(imported(tmp_path / "model.gguf", tmp_path / "prefill", tokens=9, positions=16))
    decode = session.load(imported(tmp_path / "model.gguf", tmp_path / "decode", tokens=1, positions=16))
    (first,) = prefill(tokens=TEXT, length=np.array([8]))
    (second,) = decode(tokens=TEXT[8:], position=np.array([8]))
    for found, count in ((first, 8), (second, 9)):
        wanted = logits_of(architecture, held, TEXT[:count])
        assert np.abs(found[0] - wanted).max() < 1e-4 * np.abs(wanted).max()
        assert np.abs(wanted).max() > 0.1


@pytest.mark.parametrize(("architecture", "options"), MODELS)
def test_the_recorded_oracle_is_what_the_file_says(architecture, options, tmp_path):
    held = write_model(tmp_path / "model.gguf", architecture, **options)
    payload = imported(tmp_path / "model.gguf", tmp_path / "m", tokens=8, positions=8)
    given = payload.make_inputs(0)
    *_, logits = payload.reference(**given)
    wanted = logits_of(architecture, held, given["tokens"])
    assert np.abs(logits[0] - wanted).max() < 1e-6 * np.abs(wanted).max()
    assert not payload.unproved
    assert [a.accepts or (a.low, a.high) for a in payload.arguments[:2]] == [(0, 40), (1, 9)]


def test_what_is_not_kept_as_it_is_is_noted(tmp_path):
    write_model(tmp_path / "model.gguf", kind="F16", mixed="Q8_0")
    notes = imported(tmp_path / "model.gguf", tmp_path / "m", positions=8).notes
    assert "token_embd is F16, which is widened to f32" in notes
    assert "blk_q is F16 and Q8_0, which is widened to f32" in notes


WRONG = [
    ({"architecture": "gpt2"}, "general.architecture must be one of llama, qwen2, phi3, it is 'gpt2'"),
    ({"fields": {"block_count": None}}, "llama.block_count must be one whole number from 1 to 16777216, it is missing"),
    ({"fields": {"attention.head_count_kv": 3}}, "head_count_kv must divide head_count, got 3 and 4"),
    ({"fields": {"expert_count": 8}}, "a model must have one MLP a block"),
    ({"fields": {"rope.dimension_count": 8}}, "heads must be of one even width and rotated whole"),
    ({"tokens": 0}, "tokenizer.ggml.tokens must have the 40 tokens of the embedding, it is missing"),
    ({"tokens": 39}, "tokenizer.ggml.tokens must have the 40 tokens of the embedding, it has 39 tokens"),
    ({"tensors": {"output_norm.weight": None}}, "tensor output_norm.weight must have shape 64, it is missing"),
    (
        {"tensors": {"blk.1.attn_q.weight": np.ones((32, WIDTH))}},
        "tensor blk.1.attn_q.weight must have shape 64x64, it is 32x64",
    ),
    (
        {"tensors": {"output_norm.weight": np.full(WIDTH, np.nan)}},
        "numbers of tensor output_norm.weight must be finite",
    ),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_a_model_of_another_kind_is_refused_in_a_line(options, message, tmp_path):
    write_model(tmp_path / "model.gguf", **options)
    with pytest.raises(UnsupportedError, match=re.escape(message)) as caught:
        convert(tmp_path / "model.gguf", tmp_path / "m", {})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"batch": 2}, "sizes of a GGUF model are tokens, positions, got 'batch'"),
        ({"positions": CONTEXT + 1}, "positions must be at most 32, got 33"),
        ({"tokens": 9, "positions": 8}, "tokens must be at most 8 positions, got 9"),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes, message, tmp_path):
    write_model(tmp_path / "model.gguf")
    with pytest.raises(UnsupportedError, match=message):
        convert(tmp_path / "model.gguf", tmp_path / "m", sizes)


def test_damaged_files_are_refused_wherever_they_are_cut_or_changed(tmp_path):
    write_model(tmp_path / "model.gguf")
    whole = (tmp_path / "model.gguf").read_bytes()
    kind = whole.index(b"token_embd.weight") + len("token_embd.weight") + 4 + 16  # behind the sizes
    assert whole[kind] == gguf.GGMLQuantizationType.Q8_0
    unknown = whole[:kind] + bytes([99]) + whole[kind + 1 :]
    cuts = [whole[:size] for size in (0, 3, 20, 100, 1500, len(whole) // 2, len(whole) - 40)]
    for damaged in (*cuts, b"no model" * 9, unknown):
        (tmp_path / "bad.gguf").write_bytes(damaged)
        with pytest.raises(UnsupportedError, match="whole GGUF file of version 2 or 3, its reader stops at"):
            convert(tmp_path / "bad.gguf", tmp_path / "m", {})


def test_a_converter_of_its_own_reads_the_file(tmp_path):
    write_model(tmp_path / "model.gguf")
    (tmp_path / "cut.gguf").write_bytes((tmp_path / "model.gguf").read_bytes()[:300])
    import_model(f"{tmp_path / 'model.gguf'},tokens=1,positions=8", tmp_path / "m")
    assert (tmp_path / "m" / "payload.json").is_file()
    with pytest.raises(at.AutotuneError, match=r"cut\.gguf cannot be imported: it must be a whole GGUF file"):
        import_model(str(tmp_path / "cut.gguf"), tmp_path / "c")
