"""Generating tokens: choosing them, errors before compiled code runs, with and without a cache, and the command."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from payload_support import hugging_face
from safetensors.numpy import save_file

from autotune.bundles.pace import Pace, cache_gain, follow, follow_both
from autotune.bundles.session import Session
from autotune.core.errors import GenerationError, PayloadError
from autotune.core.generator import GenerationRequest, Sampling
from payload import gpt, reference
from payload.config import NANO, GPTConfig
from payload.generate import (
    CachedModel,
    PlainModel,
    choose_token,
    generate,
    make_function,
    nucleus,
    open_gpt,
    soften,
)
from payload.weights import random_weights

SIZES = {"d_model": "16", "heads": "2", "d_ff": "24", "vocab": "31", "layers": "1", "positions": "24"}
CONFIG = GPTConfig(seq=16, d_model=16, layers=1, heads=2, d_ff=24, vocab=31, positions=24)
GREEDY = GenerationRequest((3, 1, 4), 12)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return Session(tmp_path_factory.mktemp("bundles"))


@pytest.fixture(scope="module")
def model(session):
    return CachedModel(CONFIG, lambda name, tokens: session.load(make_function("gpt", SIZES, name, tokens)), 16)


def rng():
    return np.random.default_rng(0)


class Counting:
    """A model whose likeliest token is one more than the last."""

    def start(self, prompt):
        return self.step(prompt[-1])

    def step(self, token):
        logits = np.zeros(50, np.float32)
        logits[(token + 1) % 50] = 10
        return logits


def test_greedy_takes_the_likeliest_and_the_first_of_equals():
    assert choose_token(np.array([1, 5, 5, 2.0]), Sampling(), rng()) == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(0, 99))
def test_top_k_draws_among_the_k_likeliest(k, seed):
    logits = np.random.default_rng(seed).standard_normal(20)
    drawn = {choose_token(logits, Sampling(5.0, top_k=k, seed=s), np.random.default_rng(s)) for s in range(40)}
    assert drawn <= set(np.argsort(-logits)[:k].tolist())


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    draws = [choose_token(logits, Sampling(1.0, top_p=0.6), np.random.default_rng(s)) for s in range(200)]
    assert set(draws) == {0, 1}
    assert {choose_token(logits, Sampling(1.0, top_p=1e-9), np.random.default_rng(s)) for s in range(20)} == {0}


def test_draws_follow_the_probabilities():
    logits = np.log(np.array([0.7, 0.2, 0.1]))
    generator = rng()
    draws = np.bincount([choose_token(logits, Sampling(1.0), generator) for _ in range(4000)], minlength=3) / 4000
    np.testing.assert_allclose(draws, [0.7, 0.2, 0.1], atol=0.03)


def test_top_p_looks_at_all_of_a_flat_vocabulary_if_it_must():
    flat = np.zeros(20_000, np.float32)
    assert len(nucleus(soften(flat, 1.0), 0.5)) == 10_000
    peaked = flat.copy()
    peaked[[7, 9]] = 30, 29.5
    assert nucleus(soften(peaked, 1.0), 0.99).tolist() == [7, 9]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.floats(0.01, 1), st.integers(0, 99))
def test_top_k_then_top_p_keep_what_sorting_everything_keeps(k, p, seed):
    logits = np.random.default_rng(seed).standard_normal(60).astype(np.float32)
    order = np.argsort(-logits)[:k]
    shares = np.exp(logits[order]) / np.exp(logits[order]).sum()
    kept = order[(np.cumsum(shares) - shares) < p + 1e-6].tolist()
    drawn = {choose_token(logits, Sampling(1.0, k, p), np.random.default_rng(s)) for s in range(60)}
    assert drawn <= set(kept)


def test_low_temperature_is_greedy_and_extreme_logits_are_fine():
    logits = np.array([-3e38, 3e38, 0.0], np.float32)
    assert choose_token(logits, Sampling(1e-3), rng()) == 1
    assert choose_token(logits, Sampling(1e-60), rng()) == 1


def test_stops_at_a_stop_token_which_is_given_too():
    seen = []
    assert generate(Counting(), GenerationRequest((1,), 9, stop=frozenset({4})), seen.append) == [2, 3, 4] == seen


def test_stops_at_the_first_token_if_it_is_a_stop_token():
    assert generate(Counting(), GenerationRequest((1,), 9, stop=frozenset({2}))) == [2]


def test_gives_as_many_as_asked_for():
    assert generate(Counting(), GenerationRequest((47,), 5)) == [48, 49, 0, 1, 2]


@pytest.mark.parametrize("positions", ["24", "rope:24"])
def test_tokens_are_the_same_with_and_without_the_cache(session, positions, tmp_path):
    fresh = session if positions == "24" else Session(tmp_path)

    def load(name, tokens):
        return fresh.load(make_function("gpt", {**SIZES, "positions": positions}, name, tokens))

    models = CachedModel(CONFIG, load, 2), PlainModel(CONFIG, load, range(2, 22))
    for sampling in (Sampling(), Sampling(1.0, seed=5), Sampling(0.8, top_k=7, top_p=0.9, seed=6)):
        both = [generate(model, GenerationRequest((5, 7), 20, sampling)) for model in models]
        assert both[0] == both[1]
        assert len(both[0]) == 20


def test_a_session_refuses_a_weight_of_another_shape(session):
    session.load(make_function("gpt", SIZES, "decode", 16))
    with pytest.raises(PayloadError, match=r"wte must be .* as in this session"):
        session.load(make_function("gpt", {**SIZES, "vocab": "32"}, "decode", 16))


def test_functions_share_weights_and_states(session, model):
    first = session.kept
    session.load(make_function("gpt", SIZES, "decode", 16))
    assert all(session.kept[name] is array for name, array in first.items())
    assert {"keys", "values", "wte"} <= set(first)
    assert model.config == CONFIG


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda m: m.start([]), "a prompt must have 1 to 16 tokens here, got 0"),
        (lambda m: m.start([1] * 17), "a prompt must have 1 to 16 tokens here, got 17"),
        (lambda m: m.start([1, 31]), "tokens must be from 0 to 30, got 31"),
        (lambda m: m.step(-1), "tokens must be from 0 to 30, got -1"),
        (lambda m: m.step(31), "tokens must be from 0 to 30, got 31"),
        (lambda m: m.step(2**40), "tokens must be from 0 to 30, got 1099511627776"),
        (lambda m: m.step(1.5), "tokens must be whole numbers, got 1.5"),
        (lambda m: m.start([1, float("nan")]), "tokens must be whole numbers, got nan"),
        (lambda m: m._decode(tokens=np.array([31]), position=np.array([3])), "tokens must be from 0 to 30, got 31"),
        (lambda m: m._decode(tokens=np.array([1]), position=np.array([3.0])), "position must hold whole numbers"),
        (lambda m: m._decode(tokens=np.array([1]), position=np.array(3)), r"position must have shape \(1,\), got"),
        (lambda m: m._decode(tokens=np.array([1]), position=np.array([2**40])), "got 1099511627776"),
        (lambda m: m._prefill(tokens=np.ones(16, int), length=np.array([0])), "length must be from 1 to 16, got 0"),
        (lambda m: m._prefill(tokens=np.full(16, -1), length=np.array([1])), "tokens must be from 0 to 30, got -1"),
        (lambda m: m._decode(tokens=np.array([1]), position=np.array([24])), "position must be from 0 to 23, got 24"),
        (lambda m: m._decode(tokens=np.array([1]), position=np.array([-1])), "position must be from 0 to 23, got -1"),
        (lambda m: m._decode(tokens=np.array([1])), "inputs of gpt.* must be tokens, position; got tokens"),
        (lambda m: m._decode(tokens=np.array([1, 2]), position=np.array([3])), r"tokens must have shape \(1,\)"),
        (lambda m: m._decode(tokens=np.array([1.5]), position=np.array([3])), "tokens must hold whole numbers"),
        (lambda m: m._prefill(tokens=np.ones(16, int), length=np.array([17])), "length must be from 1 to 16, got 17"),
    ],
)
def test_an_error_is_raised_before_compiled_code_runs_and_changes_nothing(session, model, act, message):
    before = model.start([1, 2, 3]).copy()
    states = {name: array.copy() for name, array in session.kept.items()}
    with pytest.raises(GenerationError, match=message):
        act(model)
    assert model.filled == 3
    assert all(np.array_equal(session.kept[name], array) for name, array in states.items())
    np.testing.assert_array_equal(model.start([1, 2, 3]), before)


@pytest.mark.parametrize("positions", ["24", "rope:24"])
def test_text_goes_on_after_an_error_as_if_there_had_been_none(positions, tmp_path):
    fresh = Session(tmp_path)
    sizes = {**SIZES, "positions": positions}
    found = CachedModel(CONFIG, lambda name, tokens: fresh.load(make_function("gpt", sizes, name, tokens)), 16)
    found.start([5, 7])
    wanted = [found.step(token).copy() for token in (1, 2, 3)]
    found.start([5, 7])
    got = []
    for token in (1, 2, 3):
        for bad in (31, -1, 0.5):
            with pytest.raises(GenerationError):
                found.step(bad)
        with pytest.raises(GenerationError):
            found.start([31])
        got.append(found.step(token).copy())
    np.testing.assert_array_equal(got, wanted)


def test_a_batch_is_checked_row_by_row(tmp_path):
    step = Session(tmp_path).load(gpt.gpt({**SIZES, "function": "decode", "batch": "3"}))
    for tokens, message in ([[1, 2, 31], "got 31"], [[1, 2], r"must have shape \(3,\), got \(2,\)"]):
        with pytest.raises(GenerationError, match=message):
            step(tokens=np.array(tokens), position=np.array([0]))
    assert np.isfinite(step(tokens=np.array([1, 2, 30]), position=np.array([0]))[0]).all()


def test_text_without_a_cache_goes_on_after_an_error(session):
    plain = PlainModel(
        CONFIG, lambda name, tokens: session.load(make_function("gpt", SIZES, name, tokens)), range(2, 25)
    )
    plain.start([5, 7])
    wanted = plain.step(1).copy()
    plain.start([5, 7])
    for bad, message in ((31, "tokens must be from 0 to 30"), (0.5, "tokens must be whole numbers")):
        with pytest.raises(GenerationError, match=message):
            plain.step(bad)
    np.testing.assert_array_equal(plain.step(1), wanted)
    plain.start([1] * 24)
    with pytest.raises(GenerationError, match="must fit 24 positions, they are 25"):
        plain.step(1)
    with pytest.raises(GenerationError, match="prompt must have at least one token"):
        plain.start([])


def test_a_text_may_fill_the_cache_to_its_last_row(session):
    found = open_gpt("gpt", SIZES, GenerationRequest((1, 2, 3, 4), 21), session.load)
    assert len(list(found)) == 21  # the last token is not fed back: 24 rows


def test_a_full_cache_is_refused_and_stays_as_it_was(session, model):
    model.start([1] * 16)
    for _ in range(8):
        model.step(2)
    keys = session.kept["keys"].copy()
    with pytest.raises(GenerationError, match="the cache must have a free row, all 24 are filled"):
        model.step(2)
    np.testing.assert_array_equal(session.kept["keys"], keys)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    ("parameters", "prompt", "count", "message"),
    [
        ({}, (1,) * 20, 6, "prompt and new tokens must fit 24 positions, they are 25"),
        ({}, (1, 31), 1, "tokens must be from 0 to 30, got 31"),
        ({"function": "decode"}, (1,), 1, "have no 'function'"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_before_compiling(parameters, prompt, count, message, cached):
    def load(payload):
        raise AssertionError(payload.name)

    with pytest.raises(GenerationError, match=message):
        open_gpt("gpt", {**SIZES, **parameters}, GenerationRequest(prompt, count, cached=cached), load)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sampling(-1.0), "temperature must be at least 0, got -1.0; try 1"),
        (lambda: Sampling(float("nan")), "temperature must be at least 0, got nan; try 1"),
        (lambda: Sampling(top_k=-2), "top_k must be at least 0, got -2; try 40"),
        (lambda: Sampling(top_p=0.0), "top_p must be above 0 and at most 1, got 0.0; try 0.9"),
        (lambda: GenerationRequest((), 1), "a prompt must have at least one token, it has none; try --prompt-tokens 0"),
        (lambda: GenerationRequest((1,), 0), "max_new must be at least 1, got 0; try 16"),
    ],
)
def test_impossible_requests_are_one_line(make, message):
    with pytest.raises(GenerationError) as raised:
        make()
    assert str(raised.value) == message


def test_plain_model_compiles_what_a_text_needs_beforehand():
    compiled = []

    def load(name, tokens):
        compiled.append((name, tokens))
        return lambda tokens: (np.zeros((len(tokens), NANO.vocab)),)

    PlainModel(NANO, load, range(30, 70))
    assert compiled == [("forward", 32), ("forward", 64), ("forward", 96)]


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


def test_command_prints_tokens_and_their_rate(autotune):
    sizes = ",".join(f"{name}={value}" for name, value in SIZES.items())
    code, out, error = autotune("generate", f"gpt,{sizes}", "--prompt-tokens", "1,2,3", "--max-new", "5")
    assert code == 0, error
    assert len(out.split()) == 5
    assert "tokens a second" in error


SPEC = "gpt," + ",".join(f"{name}={value}" for name, value in SIZES.items())


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

    monkeypatch.setattr("autotune.registry.load_generator", lambda name: pretend)
    code, _, said = autotune("generate", "nano", "--prompt-tokens", "1", "--both")
    assert code == 1
    assert "tokens must be the same with and without the cache, they differ" in said


def test_command_uses_the_bundles_of_prefill_and_decode(autotune, tmp_path):
    command = ("generate", SPEC, "--prompt-tokens", "1,2,3", "--max-new", "9", "--bundles", tmp_path)
    code, wanted, said = autotune(*command)
    assert code == 0, said
    assert said.count("default schedules") == 2
    functions = {"prefill": f"{SPEC},function=prefill,seq=16", "decode": f"{SPEC},function=decode"}
    for function, spec in functions.items():
        code, _, said = autotune(
            *("tune", spec, "--trials", 8, "--cold", "--store", tmp_path / "store", "--bundle", tmp_path / function)
        )
        assert code == 0, said
    code, out, said = autotune(*command)
    assert (code, out) == (0, wanted)
    for function in functions:
        assert f"schedules of {tmp_path / function}" in said.replace("\n", "")


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
        (logits,) = reference.forward_outputs(CONFIG, tokens=np.array(text), **weights)
        text.append(int(np.argmax(logits[-1])))
    return text[len(prompt) :]
