"""Every single-operator payload against its oracle, by plain lowering."""

import pickle

import numpy as np
import pytest
from payload_support import outputs_and_reference

from autotune.core.errors import PayloadError
from payload import kernels

SPECS = {
    "matmul,m=17,n=9,k=33": 2 * 17 * 9 * 33,
    "matmul,m=17,n=9,k=33,transpose_b=1": 2 * 17 * 9 * 33,
    "batch_matmul,batch=3,m=5,n=7,k=11": 2 * 3 * 5 * 7 * 11,
    "batch_matmul,batch=3,m=5,n=7,k=11,transpose_b=1": 2 * 3 * 5 * 7 * 11,
    "attention,heads=3,seq=13,d=8": 4 * 3 * 13 * 13 * 8,
    "attention,heads=3,seq=13,d=8,causal=1": 4 * 3 * 13 * 14 // 2 * 8,
    "layer_norm,rows=7,cols=33": 8 * 7 * 33 + 4 * 7,
    "softmax,rows=7,cols=33": 5 * 7 * 33,
    "softmax,rows=1,cols=1": 5,
    "gelu,rows=7,cols=33": 9 * 7 * 33,
    "embedding,rows=7,cols=33,vocab=19": 0,
}


def parse(spec):
    name, *pairs = spec.split(",")
    return getattr(kernels, name)(dict(pair.split("=", 1) for pair in pairs))


@pytest.mark.parametrize("spec", SPECS)
def test_kernel_matches_the_oracle(spec):
    (out,), (expected,) = outputs_and_reference(parse(spec))
    assert expected.dtype == np.float64
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "spec", [*SPECS, "matmul", "batch_matmul", "attention", "layer_norm", "softmax", "gelu", "embedding"]
)
def test_name_parses_back_and_payload_pickles(spec):
    payload = parse(spec)
    again = pickle.loads(pickle.dumps(payload))
    assert payload.name == again.name == spec
    assert parse(payload.name).text == payload.text


@pytest.mark.parametrize(("spec", "flops"), SPECS.items())
def test_flops_are_the_documented_counts(spec, flops):
    assert parse(spec).flops == flops


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("matmul,m=0", "m must be at least 1, got 0; try m=1"),
        ("matmul,transpose_b=2", "transpose_b must be 0 or 1, got 2; try transpose_b=1"),
        ("attention,causal=yes", "causal must be a whole number, got 'yes'; try causal=0"),
        ("softmax,m=4", "parameters of softmax are rows, cols; got 'm'; leave it out"),
    ],
)
def test_bad_parameter_is_one_line_with_law_value_and_way_out(spec, message):
    with pytest.raises(PayloadError) as raised:
        parse(spec)
    assert str(raised.value) == message
