"""llama.cpp as a comparator: what it is given, what it refuses, and, where it is installed, what it computes."""

import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("gguf")

from gguf_support import CONTEXT, VOCAB, logits_of, write_model

from autotune.contrib.quantised.llama_cpp import LLAMA_CPP, LlamaModel, in_neighbours, write_caches
from autotune.core.errors import ComparatorError
from autotune.core.listener import SILENT
from autotune.registry import load_comparator, load_payload
from autotune.reports import entries
from autotune.reports.entries import library_contender
from autotune.tuning.tunable import payload as payload_of
from autotune.worker.bench import libraries
from autotune.worker.bench.testbench import Testbench
from autotune.worker.loading.importing import import_model

LAYERS, GROUPS, ROWS, DEPTH = 2, 2, 3, 4
HERE = pytest.mark.skipif(not entries.is_installed("llama_cpp"), reason="llama.cpp is not installed")


def state_of(keys, values, *, turned):
    """A state as llama.cpp writes it: something first, then the caches of all layers."""
    parts = [np.arange(7, dtype=np.uint32), np.array([turned, LAYERS], np.uint32)]
    for cache in keys:
        parts += [np.array([1], np.int32), np.array([GROUPS * DEPTH * 2], np.uint64)]
        parts.append(cache.swapaxes(0, 1).astype(np.float16))
    for cache in values:
        parts.append(np.array([1], np.int32))
        flat = cache.swapaxes(0, 1).reshape(ROWS, -1).astype(np.float16)
        parts += [np.array([2, GROUPS * DEPTH], np.uint32) if turned else np.array([GROUPS * DEPTH * 2], np.uint64)]
        parts.append(flat.T if turned else flat)
    return np.frombuffer(b"".join(np.ascontiguousarray(part).tobytes() for part in parts), np.uint8).copy()


def caches(seed):
    """Keys and values of a small model."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, LAYERS, GROUPS, ROWS, DEPTH)).astype(np.float32)


@pytest.mark.parametrize("turned", [0, 1])
def test_caches_are_written_over_those_of_a_state_and_nothing_else_is(turned):
    state = state_of(*caches(0), turned=turned)
    write_caches(state, *caches(1))
    np.testing.assert_array_equal(state, state_of(*caches(1), turned=turned))


def test_a_state_of_another_form_is_refused():
    state, (keys, values) = state_of(*caches(0), turned=0), caches(1)
    for wrong in (state[:40], np.concatenate([state, state[:4]])):
        with pytest.raises(ComparatorError, match=r"must keep caches in f16, .* install 0\.3"):
            write_caches(wrong, keys, values)


def test_halves_of_a_head_become_neighbours():
    assert in_neighbours(np.arange(12.0).reshape(2, 6)).tolist() == [[0, 3, 1, 4, 2, 5], [6, 9, 7, 10, 8, 11]]


def test_where_it_is_missing_a_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(entries, "is_installed", lambda module: False)
    contender = library_contender(load_comparator("llama.cpp"), load_payload("qmatmul,m=1,n=32,k=32"), 0, SILENT)
    assert contender.entry is None
    assert re.fullmatch(r"llama_cpp must be installed; .*pip install .*llama-cpp\]'", contender.diagnostic)


def test_a_payload_that_is_no_gguf_model_is_refused():
    with pytest.raises(ComparatorError, match=r"must have the file of a GGUF model, matmul.* has none; import one"):
        LLAMA_CPP.prepare(load_payload("matmul,m=4,n=4,k=4"), {})


def without_tokenizer(writer):
    """What llama.cpp takes for a model of token ids alone."""
    writer.add_tokenizer_model("none")


def written(path, architecture, kind):
    """A model that llama.cpp loads too."""
    return write_model(path, architecture, kind=kind, coder=without_tokenizer, fields={"vocab_size": VOCAB}.items())


@HERE
@pytest.mark.usefixtures("warm_converters")
@pytest.mark.parametrize(("architecture", "kind"), [("llama", "Q8_0"), ("qwen2", "Q4_0")])
@pytest.mark.parametrize("sizes", [f"tokens=1,positions={CONTEXT}", "tokens=8,positions=16"], ids=["decode", "prefill"])
def test_it_computes_what_the_oracle_says_from_the_same_file_and_caches(architecture, kind, sizes, tmp_path):
    written(tmp_path / "model.gguf", architecture, kind)
    import_model(f"{tmp_path / 'model.gguf'},{sizes}", tmp_path / "m")
    payload = replace(payload_of(tmp_path / "m"), error=0.05)
    bench = Testbench(payload, seed=0)
    wanted = payload.reference(**bench.inputs)[-1]
    for variant in LLAMA_CPP.variants():
        found, run = libraries.admit(variant.comparator, bench, [[wanted]])
        assert found.status == "ok", found.diagnostic
        assert variant.name in found.version
        run(2)
    wrong = np.roll(wanted, 1)
    assert libraries.admit(LLAMA_CPP, bench, [[wrong]])[0].status == "wrong-result"


@HERE
def test_tokens_that_follow_are_those_of_an_independent_reference(tmp_path):
    held = written(tmp_path / "model.gguf", "llama", "Q8_0")
    model, tokens = LlamaModel(str(tmp_path / "model.gguf"), CONTEXT), [3, 1, 4]
    for filled in (0, 3, 4):
        logits = model.read(tokens[filled:], filled)
        wanted = logits_of("llama", held, np.array(tokens))
        np.testing.assert_allclose(logits, wanted, atol=0.05 * np.abs(wanted).max())
        tokens.append(int(np.argmax(wanted)))
