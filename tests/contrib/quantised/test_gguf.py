"""GGUF models in: prefill and decode beside llama.cpp's arithmetic in float64, and files that are refused."""

import json
import re
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotune as at
from autotune.bundles.session import Session

gguf = pytest.importorskip("gguf")

from gguf_support import CONTEXT, WIDTH, logits_of, write_model  # noqa: E402

from autotune.contrib.quantised.gguf_convert import convert  # noqa: E402
from autotune.contrib.quantised.gguf_file import read_gguf  # noqa: E402
from autotune.contrib.quantised.llama_config import read_config  # noqa: E402
from autotune.contrib.quantised.llama_weights import take_weights  # noqa: E402
from autotune.worker.loading.importing import import_model  # noqa: E402
from payload.importers.linalg import UnsupportedError  # noqa: E402

TEXT = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5], np.int32)
COMPILED = [
    ("llama", {"kind": "Q8_0", "mixed": "Q4_0"}),
    ("llama", {"kind": "Q4_K", "mixed": "Q6_K"}),
    ("qwen2", {"kind": "Q4_0", "mixed": "F16", "tied": False}),
]
MODELS = [*COMPILED, ("llama", {"kind": "Q8_0"}), ("qwen2", {"kind": "F16"}), ("phi3", {"kind": "Q4_0", "tied": False})]


def imported(path, folder, **sizes):
    convert(path, folder, sizes)
    return at.payload(str(folder))


@pytest.mark.parametrize(("count", "model"), [*zip((4, 8, 4), COMPILED, strict=True)])
def test_a_prompt_and_a_token_behind_it_give_what_the_file_says(count, model, tmp_path):
    """Prompts of few rows, and of so many that products are in tiles."""
    architecture, options = model
    held = write_model(tmp_path / "model.gguf", architecture, **options)
    session = Session(tmp_path)
    prefill = session.load(imported(tmp_path / "model.gguf", tmp_path / "prefill", tokens=count + 1, positions=16))
    decode = session.load(imported(tmp_path / "model.gguf", tmp_path / "decode", tokens=1, positions=16))
    (first,) = prefill(tokens=TEXT[: count + 1], length=np.array([count]))
    (second,) = decode(tokens=TEXT[count : count + 1], position=np.array([count]))
    for found, read in ((first, count), (second, count + 1)):
        wanted = logits_of(architecture, held, TEXT[:read])
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


def test_layers_of_several_formats_are_kept_in_one_that_holds_all(tmp_path):
    write_model(tmp_path / "k.gguf", kind="Q4_K", mixed="Q6_K")
    write_model(tmp_path / "other.gguf", kind="Q8_0", mixed="Q4_0")
    assert "blk_q is Q4_K and Q6_K: 9.12 bits hold both" in imported(tmp_path / "k.gguf", tmp_path / "k").notes
    assert "blk_q is Q4_0 and Q8_0: 12 bits hold both" in imported(tmp_path / "other.gguf", tmp_path / "o").notes


def test_what_is_not_kept_as_it_is_is_noted(tmp_path):
    write_model(tmp_path / "model.gguf", kind="F16", mixed="Q8_0")
    notes = imported(tmp_path / "model.gguf", tmp_path / "m", positions=8).notes
    assert "token_embd is F16, which is widened to f32" in notes
    assert "blk_q is F16 and Q8_0, which is widened to f32" in notes


def of_pieces(tokens):
    """Writes a tokenizer of sentence pieces, of which these are the first."""
    whole = [*tokens, *(f"t{i}" for i in range(40 - len(tokens)))]

    def write(writer):
        writer.add_tokenizer_model("llama")
        writer.add_token_list(whole)
        writer.add_token_scores([0.0] * len(whole))

    return write


WRONG = [
    ({"architecture": "gpt2"}, "general.architecture must be one of llama, qwen2, phi3, it is 'gpt2'"),
    ({"fields": {"block_count": None}}, "llama.block_count must be one whole number from 1 to 16777216, it is missing"),
    ({"fields": {"attention.head_count_kv": 3}}, "head_count_kv must divide head_count, got 3 and 4"),
    ({"fields": {"expert_count": 8}}, "a model must have one MLP a block"),
    ({"fields": {"attention.scale": 0.5}}, "llama.attention.scale must be left out, it is 0.5, which is not computed"),
    ({"fields": {"rope.scaling.attn_factor": 2.0}}, "llama.rope.scaling.attn_factor must be left out, it is 2.0"),
    ({"fields": {"attention.causal": False}}, "llama.attention.causal must be left out, it is False, which is not"),
    ({"fields": {"swiglu_clamp_exp": [7.0, 7.0]}}, "llama.swiglu_clamp_exp must be left out, it is a list of 2, which"),
    ({"fields": {"attention.head_count_kv": [2, 4]}}, "llama.attention.head_count_kv must be one number, it is a list"),
    ({"fields": {"rope.scaling.type": "yarn"}}, "rotary positions must be scaled linearly or not, 'yarn' is not known"),
    (
        {"tensors": {"blk.1.ffn_down.bias": np.ones(WIDTH)}},
        "tensors must be those of a llama of 2 blocks, blk.1.ffn_down.bias is none",
    ),
    ({"tensors": {"blk.2.ffn_norm.weight": np.ones(WIDTH)}}, "blk.2.ffn_norm.weight is none"),
    ({"tensors": {"output.bias": np.ones(40)}}, "output.bias is none"),
    ({"fields": {"rope.freq_base": 1e-30}}, "rotary positions must turn by less than 1e+06 each, they turn by 1."),
    ({"fields": {"rope.scaling.factor": 1e-40}}, "rotary positions must turn by less than 1e+06 each"),
    ({"tensors": {"rope_freqs.weight": np.zeros(8)}}, "tensor rope_freqs.weight must be positive, one is 0;"),
    ({"tensors": {"rope_freqs.weight": np.r_[np.ones(7), -2]}}, "rope_freqs.weight must be positive, one is -2;"),
    (
        {"coder": of_pieces(["a" * 300_000])},
        "tokenizer.ggml.tokens must have at most 4096 letters each, one has 300000",
    ),
    ({"fields": {"rope.dimension_count": 8}}, "heads must be of one even width and rotated whole"),
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


def test_keys_that_say_that_nothing_is_scaled_are_taken(tmp_path):
    unused = {"final_logit_softcapping": 0.0, "expert_count": 0, "attention.sliding_window": 0}
    write_model(tmp_path / "model.gguf", fields={"logit_scale": 1.0, "attention.causal": True, **unused})
    imported(tmp_path / "model.gguf", tmp_path / "m", positions=8)


@pytest.mark.parametrize(
    ("said", "factor"),
    [
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, 4),
        ({"rope.scaling.factor": 4.0}, 4),
        ({"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, 1),
        ({"rope.scaling.factor": 0.0}, 1),
    ],
)
def test_rotary_positions_are_scaled_as_llama_cpp_scales_them(said, factor, tmp_path):
    write_model(tmp_path / "model.gguf", fields=said)
    file = read_gguf(tmp_path / "model.gguf")
    angles = np.outer(np.arange(8), 10_000.0 ** (-np.arange(8) / 8)) / factor
    tables = take_weights(file, read_config(file, {"positions": 8})).arrays
    np.testing.assert_allclose(tables["rope_sin"], np.sin(angles), atol=1e-6)


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


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a model."""
    path = tmp_path_factory.mktemp("whole") / "model.gguf"
    write_model(path)
    return path.read_bytes()


def refusal(data, folder):
    """The line in which a file is refused."""
    (folder / "bad.gguf").write_bytes(data)
    with pytest.raises(UnsupportedError) as caught:
        convert(folder / "bad.gguf", folder / "m", {})
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 300
    assert not (folder / "m").exists()
    return line


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_file_is_refused_wherever_it_is_cut(data, whole, tmp_path_factory):
    head = whole.index(b"blk.1.ffn_down.weight")
    size = data.draw(st.one_of(st.integers(0, head), st.integers(0, len(whole) - 1)))
    line = refusal(whole[:size], tmp_path_factory.mktemp("cut"))
    assert line.startswith("it must be a whole GGUF file, ")
    assert line.endswith("; fetch it again")


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_what_a_file_says_may_be_anything(data, whole, tmp_path_factory):
    """Nothing but a refusal, or a model: no other error, no loop over what is not there."""
    folder = tmp_path_factory.mktemp("changed")
    at = data.draw(st.integers(0, whole.index(b"blk.1.ffn_down.weight") + 60))
    fresh = data.draw(st.one_of(st.sampled_from([b"\0" * 8, b"\xff" * 8, b"\x7f" * 4]), st.binary(max_size=8)))
    (folder / "bad.gguf").write_bytes(whole[:at] + fresh + whole[at + len(fresh) :])
    with suppress(UnsupportedError):
        file = read_gguf(folder / "bad.gguf")
        take_weights(file, read_config(file, {"positions": 8}))


def changed(whole, text, behind, fresh):
    """The bytes of a model, others so many bytes behind a text."""
    at = whole.index(text) + len(text) + behind
    return whole[:at] + fresh + whole[at + len(fresh) :]


HUGE, TOKENS, TABLE = struct.pack("<Q", 1 << 60), b"tokenizer.ggml.tokens", b"token_embd.weight"
LIES = {
    "another kind of file": (b"GGUF", -4, b"PK\3\4", "it must be a GGUF file and begin with b'GGUF'"),
    "version": (b"GGUF", 0, b"\7", "it must be a GGUF file of version 2 or 3, it is of 7"),
    "byte order": (b"GGUF", 0, b"\0\0\0\3", "it must be stored for little-endian machines"),
    "number of tensors": (b"GGUF", 4, HUGE, "tensor 21 of 1152921504606846976 must have 1 to 4 dimensions, it has 0"),
    "number of values": (b"GGUF", 12, HUGE, "it must be a "),
    "length of a list": (TOKENS, 8, HUGE, "bytes end within tokenizer.ggml.tokens"),
    "length of a list of numbers": (TOKENS, 4, b"\4\0\0\0" + HUGE, "bytes end within tokenizer.ggml.tokens"),
    "type of a value": (TOKENS, 0, b"\x63", "must be a number, text or list, its type 99 is none"),
    "rank": (TABLE, 0, b"\xff\xff\xff\xff", "tensor token_embd.weight must have 1 to 4 dimensions, it has 4294967295"),
    "size of nothing": (TABLE, 4, b"\0", "must have rows of whole blocks of 32 in Q8_0, its sizes are 40x0"),
    "size": (TABLE, 12, HUGE, "tensor token_embd.weight ends at byte "),
    "format": (TABLE, 20, b"\x63", "must be in a format that package gguf knows, number 99 is none; quantise it as"),
    "place": (TABLE, 24, HUGE, "tensor token_embd.weight ends at byte "),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_lies_about_itself_is_refused_in_a_line(lie, whole, tmp_path):
    text, behind, fresh, message = LIES[lie]
    assert message in refusal(changed(whole, text, behind, fresh), tmp_path)


def with_scale(folder, value):
    """A model one of whose blocks, of tensor blk.1.attn_k.weight, has a scale."""
    held = write_model(folder / "model.gguf")
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(folder / "model.gguf").tensors}
    with (folder / "model.gguf").open("r+b") as file:
        file.seek(int(tensors["blk.1.attn_k.weight"].data_offset))
        file.write(np.float16(value).tobytes())
    return held


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf])
def test_a_scale_that_is_not_finite_is_refused_by_its_tensor(scale, tmp_path):
    with_scale(tmp_path, scale)
    with pytest.raises(UnsupportedError, match=r"numbers of tensor blk\.1\.attn_k\.weight must be finite"):
        convert(tmp_path / "model.gguf", tmp_path / "m", {})


def test_a_scale_of_zero_is_a_block_of_zeros(tmp_path):
    """As every quantiser writes one."""
    held = with_scale(tmp_path, 0.0)
    held["blk.1.attn_k.weight"][0, :32] = 0
    payload = imported(tmp_path / "model.gguf", tmp_path / "m", tokens=8, positions=8)
    given = payload.make_inputs(0)
    *_, logits = payload.reference(**given)
    wanted = logits_of("llama", held, given["tokens"])
    assert np.abs(logits[0] - wanted).max() < 1e-6 * np.abs(wanted).max()


def test_caches_that_no_memory_holds_are_refused(tmp_path):
    write_model(tmp_path / "model.gguf", fields={"context_length": 1 << 24, "attention.key_length": 1 << 20})
    with pytest.raises(UnsupportedError, match=r"positions must be at most \d+, for which this machine has the memory"):
        convert(tmp_path / "model.gguf", tmp_path / "m", {"positions": 1 << 24})


def test_a_tokenizer_of_another_kind_is_noted(tmp_path):
    def add(writer):
        writer.add_tokenizer_model("bert")
        writer.add_token_list([f"t{number}" for number in range(40)])
        writer.add_eos_token_id(7)

    write_model(tmp_path / "model.gguf", coder=add)
    (note,) = imported(tmp_path / "model.gguf", tmp_path / "m", positions=8).notes
    assert note.endswith("it is 'bert'; give a tokenizer.json by --tokenizer, or token ids")
    assert not (tmp_path / "m" / "tokenizer.json").exists()
    assert json.loads((tmp_path / "m" / "generation.json").read_text()) == {"stop": [7]}


def test_a_converter_of_its_own_reads_the_file(tmp_path):
    write_model(tmp_path / "model.gguf")
    (tmp_path / "cut.gguf").write_bytes((tmp_path / "model.gguf").read_bytes()[:300])
    import_model(f"{tmp_path / 'model.gguf'},tokens=1,positions=8", tmp_path / "m")
    assert (tmp_path / "m" / "payload.json").is_file()
    with pytest.raises(at.AutotuneError, match=r"cut\.gguf cannot be imported: it must be a whole GGUF file"):
        import_model(str(tmp_path / "cut.gguf"), tmp_path / "c")
