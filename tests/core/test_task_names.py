"""Names of tasks for people: what is computed and fused, unique in a payload, as their ops say."""

import doctest
from pathlib import Path

import pytest

from autotune.compiler.tasks.partition import partition
from autotune.core import task_names
from autotune.core.task_names import readable_name, tell_apart
from autotune.registry import load_payload
from autotune.store.bundle import digest, read_bundle
from autotune.worker.loading.reading import task_names as names_of

BUNDLES = sorted(Path(__file__).parents[2].glob("results/*/bundles/*"))
NANO = [
    "gather 32x64 + add",
    "layer norm 32x64",
    "matmul 32x192x64 + bias, stored",
    "transpose 4x32x16",
    "attention 4x32x16, causal",
    "transpose 32x4x16",
    "matmul 32x64x64 + bias + residual, stored",
    "matmul 32x256x64 + bias + gelu, stored",
    "matmul 32x64x256 + bias + residual, stored",
    "matmul 32x256x64, B transposed, stored",
]
MODULE = """
func.func @task(%x: tensor<8x4xf32>, %y: tensor<4xf32>, %out: tensor<8x4xf32>) -> tensor<8x4xf32> {{
  %cst = arith.constant 1.0 : f32
  %0 = linalg.generic {{
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]
  }} ins(%x, %y : tensor<8x4xf32>, tensor<4xf32>) outs(%out : tensor<8x4xf32>) {{
  ^bb0(%in: f32, %in_0: f32, %there: f32):
    {body}
    linalg.yield %7 : f32
  }} -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}}
"""


def name_of(tag, text):
    return names_of({tag: text})[tag]


def elementwise(body):
    """A module of one element-wise op; `body` reads %in, and %in_0, the same for every row."""
    return MODULE.format(body="\n    ".join(body))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("nano", NANO),
        ("matmul,m=64,n=32,k=16", ["matmul 64x32x16"]),
        ("batch_matmul,batch=2,m=8,n=8,k=8", ["batch matmul 2x8x8x8"]),
        ("attention,heads=2,seq=32,d=16", ["attention 2x32x16"]),
        ("softmax,rows=16,cols=64", ["softmax 16x64"]),
        ("layer_norm,rows=16,cols=64", ["layer norm 16x64"]),
        ("gelu,rows=16,cols=64", ["gelu 16x64"]),
        ("embedding,rows=16,cols=64,vocab=100", ["gather 16x64"]),
    ],
)
def test_tasks_are_called_what_they_compute(spec, expected):
    tasks = partition(load_payload(spec)).tasks
    assert [task.name for task in tasks] == expected
    assert list(names_of({task.tag: task.payload.text for task in tasks}).values()) == expected


def test_reductions_over_windows_are_convolutions_and_pools():
    (name,) = (task.name for task in partition(load_payload("conv")).tasks if "3x3x32_c" in task.tag)
    assert name == "conv2d 56x56x64x3x3x32"


def test_weights_of_other_types_and_growing_loops_are_told():
    tasks = partition(
        load_payload("gpt,d_model=32,heads=2,d_ff=64,vocab=50,seq=8,layers=1,function=decode,weights=int8")
    )
    names = {task.name for task in tasks.tasks}
    assert {"attention 2x1x16, growing to 128", "matmul 1x64x32 + scale + bias + gelu, stored i8"} <= names


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (["%7 = math.exp %in : f32"], "exp 8x4"),
        (["%7 = arith.maximumf %in, %cst : f32"], "relu 8x4"),
        (["%3 = arith.negf %in : f32", "%4 = math.exp %3 : f32", "%7 = arith.divf %in, %4 : f32"], "silu 8x4"),
        (["%3 = arith.negf %in : f32", "%4 = math.exp %3 : f32", "%7 = arith.divf %cst, %4 : f32"], "sigmoid 8x4"),
        (["%3 = math.sqrt %in : f32", "%7 = math.log %3 : f32"], "elementwise 8x4: sqrt + log"),
    ],
)
def test_elementwise_ops_are_called_by_what_they_do(body, expected):
    assert name_of("generic_8x4_0a1b2c", elementwise(body)) == expected


def test_what_is_added_to_every_row_is_a_bias():
    text = elementwise(["%7 = arith.addf %in, %in_0 : f32"])
    assert name_of("generic_8x4_0a1b2c", text) == "bias 8x4"


def test_a_tag_alone_tells_kind_sizes_and_layout():
    assert readable_name("matmul_128x768x3072_f32_w_fused_4adc51") == "matmul 128x768x3072 + fused, stored"
    assert readable_name("matmul_8x4x2_f64_ta") == "matmul 8x4x2, A transposed, f64"
    assert readable_name("generic_8x4_0a1b2c") == "elementwise 8x4"
    assert readable_name("first") == "first"


def test_equal_names_get_their_short_hash_and_only_they():
    tags = ("matmul_8x4x2_f32_fused_0a1b2c", "matmul_8x4x2_f32_fused_ffffff", "transpose_8x4_123456")
    assert list(names_of(dict.fromkeys(tags)).values()) == [
        "matmul 8x4x2 + fused (0a1b2c)",
        "matmul 8x4x2 + fused (ffffff)",
        "transpose 8x4",
    ]


@pytest.mark.parametrize(
    "text", ["", "linalg.generic {", "\n".join(["linalg.generic {indexing_maps = [#a], "] * 9), "%"]
)
def test_text_that_is_no_module_leaves_what_the_tag_tells(text):
    assert name_of("generic_8x4_0a1b2c", text) == "elementwise 8x4"


@pytest.mark.parametrize("folder", BUNDLES, ids=lambda path: "-".join(path.parts[-3::2]))
def test_tasks_of_every_recorded_bundle_are_made_again_as_recorded_with_names_that_show_no_hash(folder):
    bundle = read_bundle(folder)
    tasks = {task.tag: task for task in partition(bundle.payload).tasks}
    for tag in bundle.manifest.tasks:
        assert digest(tasks[tag].payload.text) == bundle.manifest.sha256[f"tasks/{tag}.mlir"]
    names = tell_apart({tag: tasks[tag].name for tag in bundle.manifest.tasks})
    assert len(set(names.values())) == len(names)
    assert not [name for tag, name in names.items() if "_" in name or tag[-6:] in name]


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(task_names).failed == 0
