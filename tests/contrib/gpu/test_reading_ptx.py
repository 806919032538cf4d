"""`show`, `compare`, `inspect` and `report` of kernels, stores of them, and searches by the model alone."""

import json
import re

import pytest

from autotune.contrib.gpu import nvptx, vulkan
from autotune.contrib.gpu.device import VULKAN, nvidia
from autotune.contrib.gpu.options import describe_nvidia
from autotune.contrib.gpu.page import changed, over_default, read_sweeps
from autotune.contrib.gpu.records import GpuRecord
from autotune.contrib.gpu.show import DEFAULT, show_difference, show_stage
from autotune.contrib.gpu.tune import KernelWorkshop, tune_kernel
from autotune.registry import load_payload
from autotune.store.store import Store, trials
from autotune.tuning.options import TuneOptions
from autotune.worker.worker import Worker

needs_lavapipe = pytest.mark.skipif(bool(vulkan.missing_parts()), reason=f"no lavapipe: {vulkan.way_out()}")
PRODUCT = "matmul,m=32,n=16,k=8"


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("payload", "linalg.matmul"),
        ("tasks", "matmul_32x16x8_f32  matmul,m=32,n=16,k=8  matmul"),
        ("space", "constraint: a block has at most 1024 threads"),
        ("schedule", "map_forall_to_blocks"),
        ("scheduled", "gpu.func @matmul_kernel"),
        ("spirv", "spirv.EntryPoint"),
        ("ptx", ".visible .entry matmul_kernel("),
    ],
)
def test_each_stage_of_a_kernel_is_shown(stage, words):
    assert words in show_stage(PRODUCT, "nvptx:sm_80", stage, task=None, config=None, script="")


def test_instructions_are_shown_where_their_programs_are_and_otherwise_what_brings_them(autotune, refused, monkeypatch):
    if nvptx.find_ptxas() is not None and nvptx.find_tool("nvdisasm") is not None:  # an extra
        code, stdout, _ = autotune("show", PRODUCT, "--target", "nvptx:sm_90", "--stage", "sass")
        assert code == 0
        assert "FFMA" in stdout
    monkeypatch.setattr(nvptx, "find_ptxas", lambda: None)
    refused("show", PRODUCT, "--target", "nvptx:sm_90", "--stage", "sass", words="pip install nvidia-cuda-nvcc-cu12")
    monkeypatch.setattr(nvptx, "find_ptxas", lambda: "ptxas")
    monkeypatch.setattr(nvptx, "find_tool", lambda name: None)
    monkeypatch.setattr(nvptx, "version_of", lambda tool: "12.9")
    refused("show", PRODUCT, "--target", "nvptx:sm_90", "--stage", "sass", words="pip install nvidia-cuda-nvdisasm")
    assert "nvdisasm missing for `show --stage sass`" in describe_nvidia()
    monkeypatch.setattr(nvptx, "find_ptxas", lambda: None)
    assert describe_nvidia().startswith("PTX is neither assembled nor disassembled")


def test_configs_and_stages_are_set_beside_each_other():
    said = show_difference(PRODUCT, "vulkan", "schedule", (DEFAULT, "block_k=4"), None)
    assert "+" in said
    assert "tile_sizes [0, 0, 4]" in said
    same = show_difference(PRODUCT, "vulkan", "schedule", ("schedule", "schedule"), None)
    assert same == "schedule and schedule are the same"


def test_a_search_by_the_model_alone_verifies_nothing_and_goes_on_where_it_was(tmp_path):
    payload, options = load_payload(PRODUCT), TuneOptions(trials=3, sampler="random")
    with Worker() as worker, Store.open(tmp_path / "kernels.journal") as store:
        workshop = KernelWorkshop(nvidia("sm_90"), worker, None, store)
        first = tune_kernel(payload, options, workshop)
        again = tune_kernel(payload, options, workshop)
        more = tune_kernel(payload, TuneOptions(trials=4, sampler="random"), workshop)
        other = tune_kernel(payload, options, KernelWorkshop(VULKAN, worker, None, store))
    assert [each.recorded for each in (first, again, more, other)] == [0, 3, 3, 0]
    assert [each.record for each in first.tried] == [each.record for each in again.tried]
    assert again.chosen.made.ptx == first.chosen.made.ptx
    assert not first.facts.verified
    assert first.to_json()["measured"] is False
    assert all(each.record.max_error is None for each in first.tried)
    found, _ = read_sweeps(tmp_path / "kernels.journal")
    assert len(found.records) == 4
    assert found.best.cycles == min(each.record.cycles for each in more.tried)
    assert over_default(found) >= 1
    assert set(changed(found, found.best)) <= set(found.facts.default)
    assert trials(tmp_path / "kernels.journal").empty  # whose rows have times


def test_sizes_that_cannot_be_verified_are_searched_by_the_model(autotune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["matmul,m=8192,n=8192,k=64", "--for", "nvptx:sm_90", "--trials", "1", "--bundle", "out", "--json"]
    code, stdout, stderr = autotune("tune", *words)
    assert code == 0, stderr
    told = json.loads(stdout)
    assert (told["verified"], told["measured"], told["max_error"]) == (False, False, None)
    assert told["config"]["block_m"] == 128
    assert ".entry" in (tmp_path / "out" / "kernel.ptx").read_text()
    code, stdout, _ = autotune("inspect", "tuned/for-nvptx_sm_90/store.journal")
    assert code == 0
    assert "not verified" in stdout
    assert "nothing was measured" in stdout


def test_records_of_a_store_are_checked(tmp_path, refused):
    with Store.open(tmp_path / "kernels.journal") as store, Worker() as worker:
        options = TuneOptions(trials=1)
        tune_kernel(load_payload(PRODUCT), options, KernelWorkshop(VULKAN, worker, None, store))
    path = tmp_path / "kernels.journal"
    recorded = path.read_text()
    spoiled = re.sub(r'("outcome": ?)"ok"', r'\1"fine"', recorded)
    assert spoiled != recorded
    path.write_text(spoiled)
    refused("inspect", path, words="kernels of a store must be whole")
    refused("report", path, "-o", tmp_path / "page.html", words="kernels of a store must be whole")
    with pytest.raises(TypeError):
        GpuRecord()


@needs_lavapipe
def test_kernels_are_compared_by_the_model_and_reported_on_a_page(autotune, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, stderr = autotune("tune", PRODUCT, "--target", "vulkan", "--trials", "2", "--bundle", "out")
    assert code == 0, stderr
    code, stdout, stderr = autotune("compare", PRODUCT, "--target", "vulkan", "--bundle", "out")
    assert code == 0, stderr
    assert all(row in stdout for row in ("default of matmul", "default of rows", "found"))
    assert "nothing is timed" in " ".join(stdout.split())
    code, stdout, _ = autotune("inspect", "out", "--json")
    assert code == 0
    (told,) = json.loads(stdout)
    assert (told["trials"], told["outcomes"], told["measured"]) == (2, {"ok": 2}, False)
    for source in ("out", "tuned/for-vulkan/store.journal"):
        code, _, stderr = autotune("report", source, "-o", "page.html")
        assert code == 0, stderr
        assert "nothing was measured" in (tmp_path / "page.html").read_text()
    code, stdout, _ = autotune("show", "out", "--stage", "spirv")
    assert code == 0
    assert "spirv.module" in stdout
    refused("inspect", "out", "--where", "rows > 2", words="no times to draw or to query; drop --where")
    refused("inspect", "out", "--store", "none.journal", words="none.journal is none; name it with --store")
