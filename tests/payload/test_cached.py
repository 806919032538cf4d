"""Prefill and decode: what is computed with a cache is what is computed without; states are kept in place."""

from dataclasses import replace

import numpy as np
import pytest
from payload_support import Program

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.program import compile_program
from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.core.candidate import Candidate
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Effort, Job
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument, Case
from autotune.core.scripts.assembly import assemble
from autotune.reports.show import show
from autotune.worker.bench.evaluate import evaluate
from autotune.worker.bench.testbench import Testbench
from payload import gpt, reference
from payload.config import NANO
from payload.interface import arguments, read_request

SMALL = {"d_model": "16", "heads": "2", "d_ff": "24", "vocab": "31", "layers": "2", "seq": "8", "positions": "16"}
ODD = {"d_model": "30", "heads": "3", "d_ff": "41", "vocab": "37", "layers": "3", "seq": "7", "positions": "11"}
SEQUENCES = 3


def build(parameters, **changes):
    return gpt.gpt({**parameters, **changes})


def with_positions(parameters, scheme):
    return {**parameters, "positions": f"rope:{parameters['positions']}"} if scheme == "rope" else parameters


def random_tokens(parameters, count, seed):
    return np.random.default_rng(seed).integers(0, int(parameters["vocab"]), count).astype(np.int32)


class Oracle:
    """The reference with the interface of `payload_support.Program`: states change in place."""

    def __init__(self, payload):
        self.payload = payload

    def __call__(self, **arrays):
        *states, logits = self.payload.reference(**arrays)
        for name, state in zip(("keys", "values"), states, strict=bool(states)):
            arrays[name][...] = state
        return (logits,)


PROGRAMS = {}


def compiled(run, payload):
    """A payload's program, compiled once for all tests."""
    key = (run, payload.name)
    if key not in PROGRAMS:
        PROGRAMS[key] = run(payload)
    return PROGRAMS[key]


def logits_with_cache(run, parameters, weights, tokens, prompt):
    """Logits from the last token of the prompt on, by one prefill and one decode a token."""
    prefill, decode = (build(parameters, function=name) for name in ("prefill", "decode"))
    padded = np.resize(tokens[:prompt], int(parameters["seq"]))
    padded[prompt:] = 1  # what stands behind the prompt must not matter
    states = {a.name: np.full(a.shape, 7, np.float32) for a in decode.arguments if a.role == "state"}
    found = [compiled(run, prefill)(tokens=padded, length=np.array([prompt]), **weights, **states)[0][0]]
    step = compiled(run, decode)
    for position in range(prompt, len(tokens)):
        one = {"tokens": tokens[position : position + 1], "position": np.array([position])}
        found.append(step(**one, **weights, **states)[0][0])
    return np.array(found)


@pytest.mark.parametrize("run", [Program, Oracle])
@pytest.mark.parametrize("scheme", ["learned", "rope"])
@pytest.mark.parametrize("sizes", [SMALL, ODD])
def test_cached_equals_uncached_at_every_position(run, scheme, sizes):
    parameters = with_positions(sizes, scheme)
    count = int(sizes["positions"])
    forward = build(parameters, seq=str(count))
    weights = {n: array for n, array in forward.make_inputs(0).items() if n != "tokens"}
    whole = run(forward)
    for seed in range(SEQUENCES):
        tokens, prompt = random_tokens(sizes, count, seed), (1, 4, int(sizes["seq"]))[seed]
        (wanted,) = whole(tokens=tokens, **weights)
        got = logits_with_cache(run, parameters, weights, tokens, prompt)
        np.testing.assert_allclose(got, wanted[prompt - 1 :], atol=2e-5)


@pytest.mark.parametrize("storage", ["bf16", "int8"])
@pytest.mark.parametrize("function", ["forward", "prefill", "decode"])
def test_stored_weights_match_the_oracle(storage, function):
    payload = build(SMALL, function=function, weights=storage)
    bench = Testbench(payload, seed=1)
    program = compile_program(payload, Candidate(None, PLAIN), level=0).bind(bench.arrays)  # numbers alone
    for case, expected in zip(bench.cases, bench.expected, strict=True):
        bench.restart(case)
        program.run()
        for got, wanted in zip(bench.written, expected, strict=True):
            np.testing.assert_allclose(got, wanted, atol=2e-5)


def test_a_batch_is_its_sequences_one_by_one():
    together, alone = build(SMALL, function="decode", batch="3"), build(SMALL, function="decode")
    arrays = together.make_inputs(3)
    arrays["position"][:] = 9
    caches = {name: arrays[name].copy() for name in ("keys", "values")}
    (got,) = Program(together)(**arrays)
    step = Program(alone)
    for row in range(3):
        mine = {name: np.ascontiguousarray(cache[:, 2 * row : 2 * row + 2]) for name, cache in caches.items()}
        (wanted,) = step(**{**arrays, **mine, "tokens": arrays["tokens"][row : row + 1]})
        np.testing.assert_allclose(got[row], wanted[0], atol=1e-5)
        for name, cache in mine.items():
            np.testing.assert_allclose(arrays[name][:, 2 * row : 2 * row + 2], cache, atol=1e-5)


def test_decode_leaves_other_rows_of_the_caches_as_they_were():
    payload = build(SMALL, function="decode")
    arrays = payload.make_inputs(4)
    arrays["position"][:] = 5
    before = {name: arrays[name].copy() for name in ("keys", "values")}
    Program(payload)(**arrays)
    for name, cache in before.items():
        same = np.all(arrays[name] == cache, axis=(0, 1, 3))
        assert np.flatnonzero(~same).tolist() == [5]


def test_decode_ignores_rows_behind_its_position():
    payload = build(SMALL, function="decode")
    step = Program(payload)
    arrays = payload.make_inputs(5)
    arrays["position"][:] = 5
    (first,) = step(**arrays)
    for name in ("keys", "values"):
        arrays[name][:, :, 6:] = np.nan
    np.testing.assert_array_equal(step(**arrays)[0], first)


def test_rotary_scores_depend_on_distance_alone():
    q, k = np.random.default_rng(0).standard_normal((2, 1, 1, 8))
    scores = [reference.rotate(q, 3 + s) @ reference.rotate(k, s).swapaxes(-1, -2) for s in (0, 1, 500)]
    np.testing.assert_allclose(scores[1:], [scores[0]] * 2, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(reference.rotate(q, 77)), np.linalg.norm(q))


def test_caches_are_updated_in_place():
    for function in ("prefill", "decode"):
        text = show(f"nano,function={function}", "bufferized").text
        (cache, *_) = [a for a in arguments(NANO, function) if a.role == "state"]
        sizes = "x".join(map(str, cache.shape))
        assert f"memref<{sizes}xf32>" in text
        made = [line for line in text.splitlines() if sizes in line and ("alloc" in line or "linalg.copy" in line)]
        assert [line for line in made if line.split(" : ")[-1].count(sizes) > ("subview" in line)] == []


def evaluate_decode(text=None):
    payload = build(SMALL, function="decode")
    candidate = Candidate(assemble([]), TAIL, text and text(payload.text))
    job = Job(payload, (candidate,), this_machine(), effort=Effort(samples=3, seconds=1.0, sample_seconds=1e-4))
    return evaluate(job)[0]


def test_a_payload_with_states_is_verified_and_timed_at_every_case():
    assert [case.values for case in build(SMALL, function="decode").cases] == [(("position", 0),), (("position", 15),)]
    found = evaluate_decode()
    assert found.outcome == "ok", found.diagnostic
    assert found.samples is not None


def test_a_state_that_is_wrong_is_a_wrong_result():
    """The last insertion of a layer, that of the values, goes to row 0."""

    def misplace(text):
        place = text.rindex("tensor.insert_slice")
        wrong = text[place:].replace("%position_index, 0] [1, 2", "%start, 0] [1, 2", 1)
        assert wrong != text[place:]
        return text[:place] + wrong

    found = evaluate_decode(misplace)
    assert found.outcome == "wrong-result"
    assert "keys[1" in found.diagnostic  # of the next layer, which read what the first one made of it


def test_states_start_anew_before_each_verification():
    payload = build(SMALL, function="decode")
    bench = Testbench(payload, seed=0)
    start = [array.copy() for array in bench.written]
    bench.written[0].fill(3)
    bench.restart(Case((("position", 2),)))
    np.testing.assert_array_equal(bench.written[0], start[0])
    assert bench.inputs["position"].tolist() == [2]
    assert np.isnan(bench.written[-1]).all()


def test_one_module_holds_all_three_functions():
    config = replace(NANO, rope=True)
    with context():
        module = parse(gpt.write_gpt(config, ("forward", "prefill", "decode")), "gpt")
        assert module.operation.verify()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"function": "encode"}, "function must be one of forward, prefill, decode; got 'encode'"),
        ({"position": "3"}, "position is for function=decode, got function=forward; leave it out"),
        ({"function": "decode", "position": "128"}, "position must be from 0 to 127, got 128; change positions"),
        ({"function": "decode", "position": "-1"}, "position must be from 0 to 127, got -1; change positions"),
        ({"batch": "2"}, "batch must be 1 but for function=decode, got 2; add function=decode"),
        ({"positions": "round"}, "positions must be a whole number, got 'round'; try positions=128"),
        ({"positions": "rope", "d_model": "6", "heads": "2"}, "d_model / heads must be even for rotary positions, got"),
    ],
)
def test_bad_parameter_is_one_line_with_law_value_and_way_out(parameters, message):
    with pytest.raises(PayloadError) as raised:
        gpt.gpt(parameters)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    "spec",
    [
        {"function": "decode"},
        {"function": "decode", "position": "7", "batch": "2"},
        {"positions": "rope", "function": "prefill"},
        {"positions": "rope:64", "weights": "int8"},
        {"weights": "bf16"},
    ],
)
def test_names_parse_back_to_the_same_payload(spec):
    payload = gpt.gpt(spec)
    again = gpt.gpt(dict(part.split("=", 1) for part in payload.name.split(",")[1:]))
    assert (again.name, again.text, again.cases) == (payload.name, payload.text, payload.cases)


def test_weights_are_the_same_model_however_they_are_stored():
    plain = read_request("gpt", {}, NANO).config
    assert all(isinstance(argument, Argument) for argument in arguments(plain, "decode"))
    f32, stored = (build(SMALL, **extra).make_inputs(2) for extra in ({}, {"weights": "int8"}))
    for name in ("wte", "qkv_weight", "down_weight"):
        scale = stored[f"{name}_scale"]
        scale = scale[:, None] if name == "wte" else scale[:, None, :]
        assert np.all(np.abs(stored[name] * scale - f32[name]) <= scale * 0.5001)
        assert stored[name].dtype == np.int8
