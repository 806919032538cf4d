"""The GPT payload against its oracle, and the laws of a causal language model."""

import math
import pickle
import re

import numpy as np
import pytest
from payload_support import Program

from autotune.core.errors import PayloadError
from payload import gpt
from payload.config import GPT2, NANO, GPTConfig

ODD = {"d_model": "72", "heads": "3", "d_ff": "200", "vocab": "101", "seq": "17", "layers": "1"}


def parse(spec):
    name, *pairs = spec.split(",")
    return getattr(gpt, name)(dict(pair.split("=", 1) for pair in pairs))


@pytest.fixture(scope="module")
def nano():
    payload = gpt.nano({})
    return payload, Program(payload)


def contraction_flops(line):
    """2 * (product of A) * N, from the types a contraction is printed with."""
    a, b = (tuple(map(int, re.findall(r"\d+(?=x)", t))) for t in re.findall(r"tensor<([\dx]+)f32>", line)[:2])
    out = tuple(map(int, re.findall(r"\d+(?=x)", re.findall(r"tensor<([\dx]+)f32>", line)[-1])))
    return 2 * math.prod(a) * out[-1] if b else 0


def test_nano_logits_match_the_oracle(nano):
    payload, program = nano
    arrays = payload.make_inputs(0)
    np.testing.assert_allclose(program(**arrays)[0], payload.reference(**arrays)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("parameters", [ODD, {"layers": "3", "seq": "1", "vocab": "1", "d_ff": "1", "heads": "64"}])
def test_odd_sizes_match_the_oracle(parameters):
    payload = gpt.gpt(parameters)
    arrays = payload.make_inputs(1)
    np.testing.assert_allclose(Program(payload)(**arrays)[0], payload.reference(**arrays)[0], rtol=1e-4, atol=1e-4)


def test_a_call_leaves_inputs_as_they_were_and_repeats_exactly(nano):
    payload, program = nano
    arrays = payload.make_inputs(2)
    before = {name: array.copy() for name, array in arrays.items()}
    first, second = program(**arrays)[0], program(**arrays)[0]
    np.testing.assert_array_equal(first, second)
    assert all(np.array_equal(arrays[name], before[name]) for name in arrays)


@pytest.mark.parametrize("changed", [0, 7, 31])
@pytest.mark.parametrize("which", ["compiled", "oracle"])
def test_a_token_changes_no_logits_before_it(nano, which, changed):
    payload, program = nano
    call = program if which == "compiled" else payload.reference
    arrays = payload.make_inputs(3)
    other = {**arrays, "tokens": arrays["tokens"].copy()}
    other["tokens"][changed] = (other["tokens"][changed] + 1) % NANO.vocab
    (before,), (after,) = call(**arrays), call(**other)
    np.testing.assert_array_equal(before[:changed], after[:changed])
    assert np.all(np.any(before[changed:] != after[changed:], axis=1))


def test_every_weight_changes_the_logits(nano):
    payload, program = nano
    arrays = payload.make_inputs(4)
    before = program(**arrays)[0]
    for argument in payload.arguments:
        if argument.role == "weight":
            changed = {**arrays, argument.name: arrays[argument.name][..., ::-1].copy()}
            assert np.abs(program(**changed)[0] - before).max() > 1e-3, argument.name


def test_text_does_not_grow_with_depth():
    shallow, deep = gpt.gpt({"layers": "1"}).text, gpt.gpt({"layers": "9"}).text
    assert len(shallow) == len(deep)
    assert shallow.count("linalg.") == deep.count("linalg.")


@pytest.mark.parametrize("spec", ["nano", "gpt2", "gpt," + ",".join(f"{k}={v}" for k, v in ODD.items())])
def test_flops_are_those_of_the_contractions_in_the_text(spec):
    payload = parse(spec)
    layers, seq = (next(a.shape[0] for a in payload.arguments if a.name == name) for name in ("ln_1_gain", "tokens"))
    flops, times = 0, 1
    for line in payload.text.splitlines():
        times = layers if "scf.for" in line else 1 if "scf.yield" in line else times
        if re.search(r"linalg\.(batch_)?matmul", line):
            share = (seq + 1) / (2 * seq) if "batch_matmul" in line else 1  # attention sees half, and the diagonal
            flops += times * contraction_flops(line) * share
    assert payload.flops == pytest.approx(flops, rel=1e-12)


@pytest.mark.parametrize(
    "spec", ["nano", "gpt2", "gpt2,seq=64", "gpt,layers=1", "nano,vocab=101", "gpt,seq=17,d_model=72,heads=3"]
)
def test_name_parses_back_to_the_same_payload(spec):
    payload = parse(spec)
    again = parse(payload.name)
    assert payload.name == spec
    assert (again.name, again.text, again.arguments) == (payload.name, payload.text, payload.arguments)


def test_name_lists_only_what_differs_from_the_preset():
    assert gpt.gpt2({"layers": "12", "seq": "64"}).name == "gpt2,seq=64"
    assert gpt.nano({"heads": "04"}).name == "nano"


def test_payload_survives_a_process_boundary():
    payload = gpt.nano({})
    again = pickle.loads(pickle.dumps(payload))
    arrays = payload.make_inputs(5)
    np.testing.assert_array_equal(again.reference(**arrays)[0], payload.reference(**arrays)[0])


def test_random_activations_stay_sane_at_gpt2_width():
    payload = gpt.gpt2({"layers": "2", "seq": "16", "vocab": "500"})
    (logits,) = payload.reference(**payload.make_inputs(6))
    assert 0.3 < logits.std() < 3


def test_gpt2_has_the_published_number_of_parameters():
    weights = [a for a in gpt.arguments(GPT2) if a.role == "weight"]
    assert sum(math.prod(a.shape) for a in weights) == 124_439_808


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"heads": "3"}, "heads must divide d_model, got 3 and 64; try heads=4"),
        ({"seq": "200"}, "seq must be at most positions, got 200 and 128; try positions=200"),
        ({"layers": "0"}, "layers must be at least 1, got 0; try layers=1"),
        ({"vocab": str(10**12)}, "vocab must be at most 2147483647, got 1000000000000; try vocab=1024"),
        ({"d_model": "wide"}, "d_model must be a whole number, got 'wide'; try d_model=64"),
        ({"seq": ""}, "seq must be a whole number, got ''; try seq=32"),
        (
            {"depth": "4"},
            "parameters of gpt are seq, d_model, layers, heads, d_ff, vocab, batch, positions, weights, function, "
            "position; got 'depth'; leave it out",
        ),
    ],
)
def test_bad_parameter_is_one_line_with_law_value_and_way_out(parameters, message):
    with pytest.raises(PayloadError) as raised:
        gpt.gpt(parameters)
    assert str(raised.value) == message


def test_config_checks_itself():
    with pytest.raises(PayloadError, match="d_ff must be at least 1, got -1"):
        GPTConfig(seq=1, d_model=1, layers=1, heads=1, d_ff=-1, vocab=1, positions=1)
