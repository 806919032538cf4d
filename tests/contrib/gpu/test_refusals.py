"""What strangers give: scripts that abort or never end are outcomes, and what no kernel can be of is one line."""

import re

import pytest

from autotune.contrib.gpu import vulkan
from autotune.contrib.gpu.device import VULKAN
from autotune.contrib.gpu.examine import KernelCall, KernelJob, examine
from autotune.contrib.gpu.kernel import KernelSource
from autotune.contrib.gpu.tune import only_task
from autotune.registry import load_payload
from autotune.worker.worker import Worker

ANY = "!transform.any_op"
TOGETHER = (
    'lower_contraction lowering_strategy = "outerproduct"',
    "lower_outerproduct",
    "lower_transfer max_transfer_rank = 1",
    "lower_transpose",
    "lower_broadcast",
    "lower_shape_cast",
    "reduction_to_contract",
)
NEVER_ENDING = "\n".join(f"transform.apply_patterns.vector.{each}" for each in TOGETHER)


def pads_without_operands(script):
    return script.replace('memcpy_op = "linalg.copy"', 'bufferize_destination_only, memcpy_op = "linalg.copy"')


def copies_of_buffers(script):
    head, _ = script.split("    %tile_3, ")
    call = "transform.structured.gpu.map_copy_to_threads %part_0 total_num_threads = 64 desired_bit_alignment = 128"
    return f"{head}    %x, %y = {call} : ({ANY}) -> ({ANY}, {ANY})\n    transform.yield\n  }}\n}}\n"


def patterns_together(script):
    plain = script.replace(" {create_named_contraction}", "")
    together = (
        f"transform.apply_patterns to %f {{\n{NEVER_ENDING}\ntransform.apply_patterns.canonicalization }} : {ANY}"
    )
    return re.sub(r"transform\.apply_patterns to %f \{.*?\} : !transform.any_op", together, plain, count=1, flags=re.S)


@pytest.fixture(scope="module")
def product():
    payload = load_payload("matmul,m=32,n=32,k=16")
    text, task, family = only_task(payload)
    return payload, text, family.build(task, family.default(task, VULKAN), VULKAN)


@pytest.mark.parametrize(
    ("spoil", "outcome", "words"),
    [
        (pads_without_operands, "crashed", "SIGABRT"),
        (copies_of_buffers, "crashed", "SIGABRT"),
        (patterns_together, "timed-out", "took longer than 4 s"),
    ],
)
def test_a_script_that_aborts_or_never_ends_is_an_outcome_and_the_next_one_is_right(product, spoil, outcome, words):
    payload, text, script = product
    hostile = spoil(script)
    assert hostile != script
    with Worker(4) as worker:
        jobs = [KernelJob(KernelCall(payload), KernelSource(text, each, VULKAN)) for each in (hostile, script)]
        wrong, right = (examine(job, None, worker, None) for job in jobs)
    assert wrong.outcome == outcome
    assert words in wrong.diagnostic
    assert right.outcome == "ok"


DOUBLE = """
func.func @double(%x: tensor<4x8xf64>) -> tensor<4x8xf64> {
  %e = tensor.empty() : tensor<4x8xf64>
  %y = linalg.exp ins(%x : tensor<4x8xf64>) outs(%e : tensor<4x8xf64>) -> tensor<4x8xf64>
  return %y : tensor<4x8xf64>
}
"""


@pytest.fixture
def double(tmp_path):
    (tmp_path / "double.mlir").write_text(DOUBLE)
    return tmp_path / "double.mlir"


@pytest.mark.parametrize(
    "words", [["tune", "--target", "vulkan"], ["tune", "--for", "nvptx"], ["show", "--target", "nvptx"]]
)
def test_a_payload_of_f64_is_one_line(refused, monkeypatch, tmp_path, double, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(vulkan, "missing_parts", list)
    monkeypatch.setattr(vulkan, "library", lambda name: tmp_path / name)
    refused(words[0], double, *words[1:], words="must be of f32, i32, i64")


def test_no_driver_is_one_line(refused, monkeypatch):
    monkeypatch.setattr(vulkan, "library", lambda name: None)
    said = refused("tune", "matmul,m=8,n=8,k=8", "--target", "vulkan", words="--target needs lavapipe")
    assert "apt-get install mesa-vulkan-drivers libvulkan1 spirv-tools" in said


@pytest.mark.parametrize(
    ("verb", "option"), [("tune", "--target"), ("show", "--target"), ("compare", "--target"), ("tune", "--for")]
)
def test_a_device_of_another_vendor_is_one_line(refused, verb, option):
    spec = "nvptx:gfx942" if option == "--for" else "rocm:gfx942"
    refused(verb, "matmul,m=8,n=8,k=8", option, spec, words=f"{option} of a GPU must be vulkan, nvptx or nvptx:CHIP of")


@pytest.mark.parametrize(
    ("spec", "knobs", "words"),
    [
        (
            "matmul,m=64,n=64,k=8",
            "thread_m=1,thread_n=1",
            "a block has at most 1024 threads; got thread_m=1,thread_n=1",
        ),
        ("softmax,rows=64,cols=1024", "rows=32", "workgroup memory of a block is at most 32768 bytes; got rows=32"),
        ("softmax,rows=64,cols=1024", "lanes=32", "lanes"),
        ("softmax,rows=64,cols=1024", "rows", "--config must read name=value"),
    ],
)
def test_a_block_that_no_device_holds_is_one_line(refused, spec, knobs, words):
    refused("show", spec, "--target", "vulkan", "--stage", "spirv", "--config", knobs, words=words)


def test_a_script_of_such_a_block_is_one_line(refused, product, tmp_path):
    _, _, script = product
    (tmp_path / "large.mlir").write_text(script.replace("block_dims = [8, 8, 1]", "block_dims = [64, 64, 1]"))
    words = ["show", "matmul,m=32,n=32,k=16", "--target", "vulkan", "--schedule", tmp_path / "large.mlir"]
    refused(*words, "--stage", "spirv", words="block_dims")
    (tmp_path / "large.mlir").write_text("module {")
    refused(*words, "--stage", "spirv", words="")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["show", "matmul,m=8,n=8,k=8", "--target", "vulkan", "--stage", "ptx"], "must be of a chip, vulkan has none"),
        (["show", "matmul,m=8,n=8,k=8", "--target", "vulkan", "--stage", "spriv"], "did you mean 'spirv'"),
        (["show", "matmul,m=8,n=8,k=8", "--target", "vulkan", "--task", "other"], "--task must be one of matmul_8x8x8"),
        (["show", "matmul,m=8,n=8,k=8", "--target", "vulkan", "--family", "fused"], "drop --family"),
        (
            ["compare", "matmul,m=8,n=8,k=8", "--target", "nvptx", "--against", "numpy"],
            "nothing is timed; drop --against",
        ),
        (["tune", "softmax,rows=3,cols=20011", "--target", "vulkan"], "workgroup memory of a block is at most 32768"),
        (["show", "layer_norm,rows=70001,cols=2", "--target", "nvptx"], "a grid has at most 65535 blocks along"),
        (["tune", "matmul,m=65537,n=1,k=2", "--target", "vulkan"], "a grid has at most 65535 blocks along an axis"),
        (["tune", "matmul,m=8,n=8,k=8", "--for", "nvptx", "--target", "vulkan"], "drop one of them"),
        (["tune", "matmul,m=8,n=8,k=8", "--for", "nvptx", "--threads", "2"], "drop --threads"),
        (["tune", "matmul,m=4096,n=4096,k=4096", "--target", "vulkan"], "or --for nvptx, which verifies none"),
    ],
)
def test_what_cannot_be_told_of_kernels_is_one_line(refused, monkeypatch, tmp_path, words, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(vulkan, "missing_parts", list)
    monkeypatch.setattr(vulkan, "library", lambda name: tmp_path / name)
    refused(*words, words=sentence)
