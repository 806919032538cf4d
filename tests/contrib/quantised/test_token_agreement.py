"""Greedy tokens beside a reference: the first other one, and whether it was as likely."""

import numpy as np
import pytest

pytest.importorskip("gguf")

from gguf_support import VOCAB, logits_of, write_model

from autotune.contrib.quantised.agreement import TokenAgreement, agree
from autotune.contrib.quantised.gguf_file import read_gguf
from autotune.contrib.quantised.llama_config import read_config
from autotune.contrib.quantised.llama_reference import LlamaReference
from autotune.contrib.quantised.llama_weights import take_weights

WANTED = np.array([[0.0, 2.0, 1.0], [3.0, 2.5, 0.0], [0.0, 1.0, 4.0]])


def test_logits_that_are_close_have_the_same_tokens():
    found = agree(WANTED + 0.1, WANTED)
    assert (found.steps, found.equal, found.gap) == (3, 3, 0.0)
    assert found.error == pytest.approx(0.1)
    assert found.is_explained


@pytest.mark.parametrize("off", [[-0.3, 0.3, 0.0], [0.0, 0.6, 0.0]])
def test_the_first_other_token_within_the_error_is_explained(off):
    logits = WANTED.copy()
    logits[1] += off
    logits[2] = 0.0
    found = agree(logits, WANTED)
    assert (found.equal, found.gap) == (1, 0.5)
    assert found.is_explained


def test_one_beyond_the_error_is_not_explained():
    assert not TokenAgreement(steps=3, equal=1, gap=0.5, error=0.2, largest=4.0).is_explained


def test_the_reference_reads_a_text_as_an_independent_one_does(tmp_path):
    held, tokens = write_model(tmp_path / "model.gguf"), np.array([3, 1, 4, 1, 5])
    file = read_gguf(tmp_path / "model.gguf")
    config = read_config(file, {"tokens": 5, "positions": 8})
    found = LlamaReference(config, take_weights(file, config)).read(tokens)
    assert found.shape == (len(tokens), VOCAB)
    for count in range(1, len(tokens) + 1):
        np.testing.assert_allclose(found[count - 1], logits_of("llama", held, tokens[:count]), atol=1e-6)
