"""Tokens of a GGUF file: its own tokenizer, the tokens of an independent reference, and what is refused."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from gguf_support import VOCAB, all_logits_of, logits_of, write_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from autotune.contrib.quantised.gguf_file import GGUFFile
from autotune.contrib.quantised.gguf_tokenizer import SPACE, ends_of, write_tokenizer
from payload.importers.linalg import UnsupportedError

pytestmark = pytest.mark.usefixtures("warm_converters")
PROMPT = (3, 1, 4, 1, 5)
TEXTS = ("it's  12 o'clock\n\n  now", "x", "\u00e9\u4e16 \U0001f600!", "hello hello  world")
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def file_of(kind, tokens, **more):
    """What a file says of its tokenizer."""
    lists = {"tokens": tokens, **{name: value for name, value in more.items() if isinstance(value, list)}}
    fields = {"model": kind, **{name: value for name, value in more.items() if not isinstance(value, list)}}
    return GGUFFile(
        {f"tokenizer.ggml.{name}": value for name, value in fields.items()},
        {f"tokenizer.ggml.{name}": len(value) for name, value in lists.items()},
        {},
        {f"tokenizer.ggml.{name}": (lambda value=value: value) for name, value in lists.items()},
    )


def coder_of(file):
    return Tokenizer.from_str(write_tokenizer(file)), ends_of(file, file.lengths["tokenizer.ggml.tokens"])


def trained():
    """A tokenizer of bytes, of the library's own trainer."""
    found = Tokenizer(models.BPE())
    found.pre_tokenizer, found.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=["<|end|>"], show_progress=False
    )
    found.train_from_iterator([*TEXTS] * 3, trainer)
    return found


def test_pairs_of_bytes_are_merged_as_the_library_merges_them():
    theirs = trained()
    parts = json.loads(theirs.to_str())["model"]
    tokens = sorted(parts["vocab"], key=parts["vocab"].get)
    kinds = [CONTROL if text == "<|end|>" else NORMAL for text in tokens]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in parts["merges"]]
    ours, ends = coder_of(file_of("gpt2", tokens, merges=merges, token_type=kinds, eos_token_id=0))
    assert ends == [0]
    for text in TEXTS:
        assert ours.encode(text).ids == theirs.encode(text).ids
        assert ours.decode(ours.encode(text).ids) == text
    assert ours.encode("x<|end|>").ids[-1] == 0


def test_texts_of_llama_3_begin_with_the_first_token_and_its_tokens_are_taken_whole():
    """As its own tokenizer has them: no file says so, and merges do not lead to all tokens."""
    tokens, merges = ["<b>", "a", "b", "c", "ab", "bc", "abc"], ["b c", "a b"]
    for cut, wanted in (("llama-bpe", ["<b>", "abc"]), ("qwen2", ["a", "bc"])):
        ours, _ = coder_of(file_of("gpt2", tokens, merges=merges, pre=cut, bos_token_id=0))
        assert ours.encode("abc").tokens == wanted
    ours, _ = coder_of(file_of("gpt2", tokens, merges=merges, pre="llama-bpe", bos_token_id=0, add_bos_token=False))
    assert ours.encode("abc").tokens == ["abc"]


def test_a_text_ends_at_the_end_of_a_turn_and_of_a_message_too():
    """As in llama.cpp: files of chats end turns by tokens of their own."""
    told = {"eos_token_id": 4, "eot_token_id": 2, "eom_token_id": 3, "bos_token_id": 0}
    for given, wanted in (
        (told, [2, 3, 4]),
        ({**told, "eos_token_id": 2}, [2, 3]),
        ({"eot_token_id": 5}, []),
        ({}, []),
    ):
        assert ends_of(file_of("gpt2", ["a", "b", "c", "d", "e"], **given), 5) == wanted


PIECES = ["<unk>", "<s>", "</s>", "<0xC3>", "<0xA9>", SPACE, "a", "b", f"{SPACE}a", "ab", f"{SPACE}ab", "ba"]
SCORES = [0.0, 0.0, 0.0, 0.0, 0.0, -9.0, -8.0, -7.0, -3.0, -2.0, -1.0, -4.0]
KINDS = [UNKNOWN, CONTROL, CONTROL, BYTE, BYTE, *[NORMAL] * 7]


def test_sentence_pieces_are_merged_by_their_scores():
    ours, ends = coder_of(
        file_of("llama", PIECES, scores=SCORES, token_type=KINDS, bos_token_id=1, eos_token_id=2, unknown_token_id=0)
    )
    assert ends == [2]
    assert ours.encode("aba").tokens == ["<s>", f"{SPACE}ab", "a"]
    assert ours.encode("b\u00e9").tokens == ["<s>", SPACE, "b", "<0xC3>", "<0xA9>"]
    assert ours.decode(ours.encode("ab ab\u00e9").ids).strip() == "ab ab\u00e9"


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (file_of("bert", ["a"]), "tokenizer.ggml.model must be one of gpt2, llama, it is 'bert'"),
        (file_of("gpt2", ["a", "a"]), "tokens must be different texts"),
        (file_of("gpt2", ["a", "b"], merges=["a b"]), "merges must be pairs of tokens that make tokens"),
        (file_of("gpt2", ["a", "b"], pre="odd", merges=[]), "tokenizer.ggml.pre must be one of gpt-2"),
        (file_of("llama", ["a", "b"], scores=[1.0]), "scores must have 2 numbers, it has 1"),
        (file_of("llama", ["a", "b"], scores=[1.0, np.nan]), "scores must be finite numbers"),
        (file_of("llama", ["a"], scores=[1.0], bos_token_id=7), "bos_token_id must be a token, it is 7 of 1"),
    ],
)
def test_a_tokenizer_that_is_none_is_refused(file, words):
    with pytest.raises(UnsupportedError, match=words):
        write_tokenizer(file)


MORE = [f"p{number}" for number in range(VOCAB - len(PIECES))]  # as many pieces in all as the model has tokens
WHOLE = {"scores": [*SCORES, *[-20.0] * len(MORE)], "token_type": [*KINDS, *[NORMAL] * len(MORE)]}


def add_pieces(writer):
    """A tokenizer of as many pieces as the model has tokens."""
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*PIECES, *MORE])
    writer.add_token_scores(WHOLE["scores"])
    writer.add_token_types(WHOLE["token_type"])
    writer.add_bos_token_id(1)


@pytest.fixture
def generate(autotune):
    def run(*arguments, code=0):
        found = autotune("generate", *map(str, arguments))
        assert found[0] == code, found
        return found[1:]

    return run


@pytest.mark.parametrize(("architecture", "kind"), [("qwen2", "Q8_0")])
def test_greedy_tokens_are_those_of_the_reference(architecture, kind, generate, tmp_path):
    held = write_model(tmp_path / "model.gguf", architecture, kind=kind)
    tokens, closest = [*PROMPT], np.inf
    for _ in range(11):
        logits = logits_of(architecture, held, np.array(tokens))
        closest = min(closest, np.diff(np.sort(logits)[-2:])[0])
        tokens.append(int(np.argmax(logits)))
    assert closest > 1e-3  # no other token is as likely
    out, _ = generate(tmp_path / "model.gguf", "--prompt-tokens", ",".join(map(str, PROMPT)), "--max-new", 11)
    assert out.split() == [str(token) for token in tokens[len(PROMPT) :]]


@pytest.mark.parametrize(("architecture", "kind", "prompt"), [("llama", "Q4_0", PROMPT[:1]), ("phi3", "Q4_0", PROMPT)])
def test_two_hundred_greedy_tokens_are_the_references_or_the_first_other_one_is_as_likely(
    architecture, kind, prompt, generate, tmp_path
):
    longer = {"context_length": 256}.items()
    held = write_model(tmp_path / "model.gguf", architecture, kind=kind, fields=longer, layers=1)
    out, _ = generate(tmp_path / "model.gguf", "--prompt-tokens", ",".join(map(str, prompt)), "--max-new", 200)
    told = [*prompt, *map(int, out.split())]
    assert len(told) == len(prompt) + 200
    behind = all_logits_of(architecture, held, np.array(told[:-1]))[len(prompt) - 1 :]
    for token, logits in zip(told[len(prompt) :], behind, strict=True):
        if np.argmax(logits) != token:
            assert logits.max() - logits[token] < 1e-4 * np.abs(logits).max()
            return


def test_text_goes_in_and_comes_out_by_the_files_own_tokenizer_the_same_by_seed(generate, tmp_path):
    write_model(tmp_path / "model.gguf", coder=add_pieces, layers=1)
    model = f"{tmp_path / 'model.gguf'},positions=8"  # a prefill of few rows, which is compiled soon
    asked = (model, "--prompt", "ab ba", "--max-new", 4, "--temperature", 1, "--seed")
    text, _ = generate(*asked, 1)
    told, other = (json.loads(generate(*asked, seed, "--json")[0]) for seed in (1, 2))
    assert told["prompt"][:2] == [1, PIECES.index(f"{SPACE}ab")]
    same, different = (tuple(each["runs"][0]["tokens"]) for each in (told, other))
    assert same != different
    assert (
        text.strip()
        == coder_of(file_of("llama", [*PIECES, *MORE], **WHOLE, bos_token_id=1))[0].decode(same).strip()
        != ""
    )


WRONG = {
    "no tokenizer": (("--prompt", "ab"), "a prompt of text needs a tokenizer, .* has none; pass --tokenizer"),
    "a cut file": (("--prompt-tokens", "1"), "it must be a whole GGUF file, its 300 bytes end within"),
    "a token that is none": (("--prompt-tokens", "99"), "tokens must be from 0 to 39, got 99"),
    "too long": (("--prompt-tokens", "1", "--max-new", "100"), "positions must be at most 32, got 128"),
    "another way": (("--prompt-tokens", "1", "--no-cache", "--max-new", "9"), "drop --no-cache"),
}


def of_another_kind(writer):
    """A tokenizer that is not known."""
    writer.add_tokenizer_model("bert")
    writer.add_token_list([f"t{number}" for number in range(VOCAB)])


@pytest.mark.parametrize("options", [{"tokens": 0}, {"coder": of_another_kind}], ids=["no tokens", "another kind"])
def test_a_model_without_a_tokenizer_is_generated_with_by_token_ids(options, generate, tmp_path):
    write_model(tmp_path / "model.gguf", **options, layers=1)
    out, _ = generate(tmp_path / "model.gguf", "--prompt-tokens", "3", "--max-new", 4)
    assert len(out.split()) == 4
    _, error = generate(tmp_path / "model.gguf", "--prompt", "ab", "--max-new", 4, code=2)
    assert "a prompt of text needs a tokenizer" in error


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of one layer without a tokenizer, which is imported once."""
    path = tmp_path_factory.mktemp("model") / "model.gguf"
    write_model(path, layers=1)
    return path


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_generated_is_one_line(wrong, model, generate, tmp_path):
    if wrong == "a cut file":
        whole, model = model, tmp_path / "model.gguf"
        model.write_bytes(whole.read_bytes()[:300])
    arguments, words = WRONG[wrong]
    _, error = generate(model, *(("--max-new", "9") if "--max-new" not in arguments else ()), *arguments, code=2)
    (line,) = [line for line in error.splitlines() if "default schedules" not in line]
    assert re.search(words, line)


def test_an_interrupt_ends_it_cleanly(tmp_path):
    write_model(tmp_path / "model.gguf", fields={"context_length": 1 << 14}.items(), layers=1)
    command = [
        Path(sys.executable).with_name("autotune"),
        "generate",
        str(tmp_path / "model.gguf"),
        "--prompt-tokens",
        "1",
    ]
    process = subprocess.Popen([*command, "--max-new", "16000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = process.stdout.read(1)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert first.isdigit(), said
    assert process.returncode in (130, 0)
    assert b"Traceback" not in said
