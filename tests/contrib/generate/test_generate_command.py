"""The command that generates tokens, and how fast they come."""

import json
import os
import sys

import gpt_in_numpy
import numpy as np
import pytest
from bundle_support import make_bundle
from generate_support import CONFIG, SIZES
from payload_support import hugging_face
from safetensors.numpy import save_file

from autotune.contrib.generate.pace import Pace, cache_gain, follow, follow_both
from payload.weights import random_weights


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a prompt must be --prompt-tokens, or --prompt with --tokenizer"),
        (["--prompt", "hello"], "a prompt must be --prompt-tokens, or --prompt with --tokenizer"),
        (["--prompt-tokens", "1,x"], "tokens must be whole numbers with commas between, got '1,x'; try 1,2,3"),
        (["--prompt-tokens", "1", "--weights", "/nowhere"], "weights must be a readable safetensors file"),
        (["--prompt-tokens", "400"], "tokens must be from 0 to 255, got 400"),
        (["--prompt-tokens", ",".join(["1"] * 129), "--max-new", "1"], "must fit 128 positions, they are 129"),
        (["--prompt-tokens", "1", "--bundles", "nowhere"], "--bundles must be a folder of bundles, nowhere is none"),
        (["--prompt", "hi", "--tokenizer", "nowhere.json"], "a tokenizer must be a readable tokenizer.json"),
        (["--prompt-tokens", "1", "--max-new", "400"], "prompt and new tokens must fit 128 positions, they are 400"),
    ],
)
def test_command_refuses_what_makes_no_sense(autotune, arguments, message):
    code, out, error = autotune("generate", "nano", *arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(error.split())


@pytest.mark.parametrize(("kind", "words"), [("fifo", "it is a FIFO"), ("device", "it is a device")])
def test_a_tokenizer_that_never_ends_is_refused_at_once(autotune, tmp_path, kind, words):
    path = tmp_path / "tokenizer.json"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    code, _, error = autotune("generate", "nano", "--prompt", "hi", "--tokenizer", str(path))
    assert code == 2
    assert words in error


def test_command_prints_tokens_and_their_rate(autotune):
    sizes = ",".join(f"{name}={value}" for name, value in SIZES.items())
    code, out, error = autotune("generate", f"gpt,{sizes}", "--prompt-tokens", "1,2,3", "--max-new", "5")
    assert code == 0, error
    assert len(out.split()) == 5
    assert "tokens a second" in error


SPEC = "gpt," + ",".join(f"{name}={value}" for name, value in SIZES.items())


class Escaping:
    """A tokenizer whose tokens are texts that command a terminal."""

    def decode(self, tokens):
        return "\x1b[31m\n" * len(tokens)


@pytest.mark.parametrize(("is_terminal", "wanted"), [(True, "\\x1b[31m\n"), (False, "\x1b[31m\n")])
def test_tokens_command_no_terminal(autotune, monkeypatch, is_terminal, wanted):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setattr("autotune.contrib.generate.verb.open_tokenizer", lambda path: Escaping())
    code, out, error = autotune("generate", SPEC, "--prompt-tokens", "1", "--max-new", "2", "--tokenizer", "any.json")
    assert code == 0, error
    assert out == wanted * 2 + "\n"


def test_a_generation_is_timed_token_by_token():
    seen = []
    pace = follow(iter([4, 5, 6]), seen.append)
    assert pace.tokens == (4, 5, 6) == tuple(seen)
    assert len(pace.seconds) == 3
    assert min(pace.seconds) > 0


def test_with_and_without_the_cache_take_turns_and_all_is_compiled_before():
    happened = []

    def start(cached):
        happened.append(("compiled", cached))

        def tokens():
            happened.append(("run", cached))
            yield from (1, 2)

        return tokens()

    paces = follow_both(start)
    order = [True, False, True]
    assert happened == [*(("compiled", c) for c in order), *(("run", c) for c in order)]
    assert [pace.cached for pace in paces] == order


def test_gain_is_over_the_first_tokens():
    paces = (Pace(True, (1, 2), (1.0, 1.0)), Pace(False, (1, 2), (6.0, 14.0)), Pace(True, (1, 2), (3.0, 1.0)))
    assert cache_gain(paces, 1) == 3.0
    assert cache_gain(paces, 2) == pytest.approx(20 / 3)


def test_command_sets_the_cache_beside_none(autotune, tmp_path):
    code, out, said = autotune(
        "generate", SPEC, "--prompt-tokens", "1,2,3", "--max-new", "6", "--both", "--json", "--bundles", tmp_path
    )
    assert code == 0, said
    assert "times as fast with the cache as without" in said
    found = json.loads(out)
    assert [run["cached"] for run in found["runs"]] == [True, False, True]
    assert len({tuple(run["tokens"]) for run in found["runs"]}) == 1
    assert all(len(run["seconds"]) == 6 for run in found["runs"])
    assert (found["model"], found["prompt"]) == (SPEC, [1, 2, 3])


def test_command_says_so_if_the_cache_changes_tokens(autotune, monkeypatch):
    def pretend(name, parameters, request, load):
        return iter([1, 2 + request.cached])

    monkeypatch.setattr("autotune.contrib.generate.generator.load_generator", lambda name: pretend)
    code, _, said = autotune("generate", "nano", "--prompt-tokens", "1", "--both")
    assert code == 1
    assert "tokens must be the same with and without the cache, they differ" in said


def test_command_uses_the_bundle_of_each_function_that_has_one(autotune, tmp_path):
    command = ("generate", SPEC, "--prompt-tokens", "1,2,3", "--max-new", "9", "--bundles", tmp_path)
    code, wanted, said = autotune(*command)
    assert code == 0, said
    assert said.count("default schedules") == 2
    make_bundle(tmp_path, f"{SPEC},function=decode").rename(tmp_path / "decode")
    code, out, said = autotune(*command)
    assert (code, out) == (0, wanted)
    assert said.count("default schedules") == 1
    assert f"schedules of {tmp_path / 'decode'}" in said.replace("\n", "")


def write_tokenizer(path):
    """A tokenizer of whole words, number 0 for all others."""
    tokenizers = pytest.importorskip("tokenizers")
    words = ["?", "the", "cat", "sat", "on", "a", "mat", *(f"word{i}" for i in range(7, 31))]
    coder = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="?")
    )
    coder.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    coder.save(str(path))
    return words


def test_text_goes_in_and_comes_out_with_the_weights_of_a_file(autotune, tmp_path):
    words = write_tokenizer(tmp_path / "tokenizer.json")
    weights = random_weights(CONFIG, seed=7)
    save_file(hugging_face(weights, CONFIG), tmp_path / "model.safetensors")
    command = ("generate", SPEC, "--weights", tmp_path / "model.safetensors", "--max-new", 6, "--bundles", tmp_path)
    prompts = {
        "--prompt-tokens": ("1,2,3,0",),
        "--prompt": ("the cat sat quietly", "--tokenizer", tmp_path / "tokenizer.json"),
    }
    outputs = {}
    for option, values in prompts.items():
        code, outputs[option], said = autotune(*command, option, *values)
        assert code == 0, said
    tokens = [int(number) for number in outputs["--prompt-tokens"].split()]
    assert outputs["--prompt"].split() == [words[token] for token in tokens]
    assert tokens == greedy_by_hand(weights, [1, 2, 3, 0], 6)
    code, _, said = autotune(*command, "--prompt", "", "--tokenizer", tmp_path / "tokenizer.json")
    assert code == 2, said


def greedy_by_hand(weights, prompt, count):
    """What the oracle says, a whole forward pass a token."""
    text = list(prompt)
    for _ in range(count):
        (logits,) = gpt_in_numpy.forward_outputs(CONFIG, tokens=np.array(text), **weights)
        text.append(int(np.argmax(logits[-1])))
    return text[len(prompt) :]
