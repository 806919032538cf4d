"""Generating tokens: choosing them, errors before compiled code runs, with and without a cache, and the command."""

import numpy as np
import pytest
from generate_support import CONFIG, SIZES, Counting, rng
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.bundles.session import Session
from autotune.contrib.generate.generator import GenerationRequest, Sampling
from autotune.contrib.generate.gpt import (
    PlainModel,
    cached_gpt,
    choose_token,
    generate,
    make_function,
    nucleus,
    open_gpt,
    soften,
)
from autotune.core.errors import GenerationError, OptionError, PayloadError
from payload import gpt
from payload.config import NANO


def test_greedy_takes_the_likeliest_and_the_first_of_equals():
    assert choose_token(np.array([1, 5, 5, 2.0]), Sampling(), rng()) == 1


@settings(max_examples=30)
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


@settings(max_examples=50)
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

    models = cached_gpt(CONFIG, load, 2), PlainModel(CONFIG, load, range(2, 10))
    for sampling in (Sampling(), Sampling(1.0, seed=5), Sampling(0.8, top_k=7, top_p=0.9, seed=6)):
        both = [generate(model, GenerationRequest((5, 7), 8, sampling)) for model in models]
        assert both[0] == both[1]
        assert len(both[0]) == 8


def test_a_session_refuses_a_weight_of_another_shape(session):
    session.load(make_function("gpt", SIZES, "decode", 16))
    with pytest.raises(PayloadError, match=r"wte must be .* as in this session"):
        session.load(make_function("gpt", {**SIZES, "vocab": "32"}, "decode", 16))


def test_functions_share_weights_and_states(session, model):
    first = session.kept
    session.load(make_function("gpt", SIZES, "decode", 16))
    assert all(session.kept[name] is array for name, array in first.items())
    assert {"keys", "values", "wte"} <= set(first)
    assert (model.vocab, model.rows) == (CONFIG.vocab, CONFIG.positions)


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
    found = cached_gpt(CONFIG, lambda name, tokens: fresh.load(make_function("gpt", sizes, name, tokens)), 16)
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
        (lambda: Sampling(-1.0), "temperature must be from 0 to 1e+06, got -1.0; try 1"),
        (lambda: Sampling(float("nan")), "temperature must be from 0 to 1e+06, got nan; try 1"),
        (lambda: Sampling(top_k=-2), "top_k must be from 0 to 2147483647, got -2; try 1"),
        (lambda: Sampling(top_p=0.0), "top_p must be from 1e-12 to 1, got 0.0; try 0.9"),
        (lambda: GenerationRequest((), 1), "a prompt must have at least one token, it has none; try --prompt-tokens 0"),
        (lambda: GenerationRequest((1,), 0), "max_new must be from 1 to 2147483647, got 0; try 1"),
    ],
)
def test_impossible_requests_are_one_line(make, message):
    with pytest.raises((GenerationError, OptionError)) as raised:
        make()
    assert str(raised.value) == message


def test_plain_model_compiles_what_a_text_needs_beforehand():
    compiled = []

    def load(name, tokens):
        compiled.append((name, tokens))
        return lambda tokens: (np.zeros((len(tokens), NANO.vocab)),)

    PlainModel(NANO, load, range(30, 70))
    assert compiled == [("forward", 32), ("forward", 64), ("forward", 96)]
