"""The gallery of scripts for newcomers: short, commented, right with the configs they begin with and with others."""

from pathlib import Path

import numpy as np
import pytest
from own_support import read
from tuning_support import run

import autotune as at
from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.compiler.script.instantiate import concrete_text

FOLDER = Path(__file__).parents[2] / "schedules" / "examples"
PAYLOADS = {
    "attention": "attention,seq=64,d=32",
    "convolution": str(FOLDER / "convolution.mlir"),
    "fuse_a_consumer": str(FOLDER / "fuse_a_consumer.mlir"),
    "matmul": "matmul,m=256,n=256,k=256",
    "two_vectorizations": "matmul,m=128,n=128,k=128",
}


def test_the_gallery_is_what_is_tested_here():
    assert sorted(path.stem for path in FOLDER.glob("*.mlir")) == sorted(PAYLOADS)


@pytest.mark.parametrize("name", PAYLOADS)
def test_an_example_is_short_and_says_how_it_is_run(name):
    text = (FOLDER / f"{name}.mlir").read_text()
    assert len(text.splitlines()) < 60
    assert max(map(len, text.splitlines())) <= 120
    assert text.startswith("// ")
    assert f"schedules/examples/{name}.mlir" in text
    assert "//   autotune tune " in text


@pytest.mark.parametrize("name", PAYLOADS)
def test_an_example_computes_what_it_should_with_its_default_and_its_last_config(name):
    payload, machine = at.payload(PAYLOADS[name]), at.this_machine()
    script = read((FOLDER / f"{name}.mlir").read_text())
    *_, last = script.space(machine).configs()
    inputs = payload.make_inputs(0)
    if payload.reference is not None:
        (wanted,) = payload.reference(**inputs)
    else:
        (wanted,) = run(payload, inputs, None, PLAIN)
    for config in (script.default(machine), last):
        (found,) = run(payload, inputs, concrete_text(script.choose(config, machine)), TAIL)
        np.testing.assert_allclose(found, wanted, atol=2e-4)
