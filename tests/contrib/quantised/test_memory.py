"""What a language model's bundle says of the memory that it takes beside its weights."""

import pytest

pytest.importorskip("gguf")

from bundle_support import make_bundle
from gguf_support import CONTEXT, DEPTH, GROUPS, VOCAB, write_model

from autotune.reports.memory import memory_beside_weights
from autotune.store.bundle import read_bundle
from autotune.worker.loading.importing import import_model

pytestmark = pytest.mark.usefixtures("warm_converters")


def test_show_says_the_memory_of_caches_and_arena_for_its_tokens(tmp_path, autotune):
    write_model(tmp_path / "model.gguf", kind="Q4_0", layers=1)
    import_model(f"{tmp_path / 'model.gguf'},tokens=1,positions={CONTEXT}", tmp_path / "m")
    bundle = make_bundle(tmp_path / "made", str(tmp_path / "m"))
    cache = GROUPS * CONTEXT * DEPTH * 4
    arena = read_bundle(bundle).manifest.buffers.peak_bytes
    inputs = 4 + 8 + VOCAB * 4
    code, _, said = autotune("show", bundle, "--stage", "tasks")
    line = " ".join(said.split())
    assert code == 0
    assert f"memory for {(2 * cache + arena + inputs) / 1024:.3g} KiB" in line
    assert f"state (keys 1x2x{CONTEXT}x16, values 1x2x{CONTEXT}x16) {2 * cache / 1024:.3g} KiB" in line
    assert f"arena {arena / 1024:.3g} KiB" in line
    assert "of weights, " in line


def test_a_program_that_keeps_nothing_says_nothing(tmp_path):
    assert memory_beside_weights(read_bundle(make_bundle(tmp_path, "matmul,m=8,n=8,k=8"))) == ""
