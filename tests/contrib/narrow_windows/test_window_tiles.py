"""Convolutions by a matrix unit: bit for bit what its sums are, of kernels in any type, where they are worth it."""

from functools import cache

import numpy as np
import pytest
from c_support import NEEDS_C
from convolution_support import check_c_words, convolved, error_of, steps_of, windows_of
from precision_support import by_unit
from tuning_support import MACHINES, loaded, random_configs, run

from autotune.bundles.call import compile_payload
from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.pipelines import TAIL, tail
from autotune.compiler.tasks.partition import partition
from autotune.contrib.narrow_windows.family import WINDOW_BF16, WINDOW_INT16, WINDOW_TILE_BF16, WINDOW_TILE_BF16X2
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import ask_for_tiles
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import load_payload, roof_of_family
from autotune.tuning.candidates import candidate_alone, default_candidate
from autotune.tuning.half_results import step_of_results

TILED = [WINDOW_TILE_BF16, WINDOW_TILE_BF16X2]
of_both = pytest.mark.parametrize("family", TILED, ids=lambda family: family.name)
CONVOLUTIONS = [  # parameters, and the step, dilation and padding of windows
    ("size=14,channels=32,filters=32", (1, 1, 1)),
    ("size=9,channels=45,filters=37,batch=3", (1, 1, 1)),  # odd channels, ragged filters, several images
    ("size=7,channels=150,filters=20", (1, 1, 1)),
    ("size=19,channels=16,filters=33,kernel=5,padding=2", (1, 1, 2)),  # several tiles a line
    ("size=10,channels=16,filters=16,stride=2", (2, 1, 1)),
    ("size=21,channels=33,filters=24,dilation=2", (1, 2, 1)),
    ("size=13,channels=70,filters=48,kernel=2,padding=0", (1, 1, 0)),
]


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Tiles are emulated."""
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")


def specs(sizes):
    return f"conv,layout=nhwc,{sizes}"


def convolved_by_unit(precision, x, kernel, window=(1, 1, 0)):
    """A convolution as the unit sums it: one tap after the other, each of whole tiles of channels."""
    side, _, channels, filters = kernel.shape
    whole = precision.part_words(channels) * precision.values - channels
    rows = windows_of(np.pad(x, [(0, 0), (0, 0), (0, 0), (0, whole)]), side, *window).transpose(0, 1, 2, 4, 5, 3)
    columns = np.pad(kernel, [(0, 0), (0, 0), (0, whole), (0, 0)]).reshape(-1, filters)
    return by_unit(precision, rows.reshape(-1, len(columns)), columns).reshape(*rows.shape[:3], filters)


def computed(family, payload, inputs, **config):
    parts, steps, taken = steps_of(payload, family, this_machine(), **config)
    assert taken == 1
    (got,) = run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text, panels=panels_of(steps))
    return got


@cache
def summed(precision, sizes, window):
    """A convolution, its inputs, and what the unit gives."""
    payload = load_payload(specs(sizes))
    inputs = payload.make_inputs(0)
    return payload, inputs, convolved_by_unit(precision, inputs["x"], inputs["kernel"], window)


def check(family, sizes, window):
    payload, inputs, expected = summed(family.precision, sizes, window)
    np.testing.assert_array_equal(computed(family, payload, inputs), expected)


@of_both
@pytest.mark.parametrize(("sizes", "window"), CONVOLUTIONS)
def test_convolutions_have_the_bits_of_the_unit(family, sizes, window):
    check(family, sizes, window)


@pytest.mark.skipif(not ask_for_tiles(), reason="needs a matrix unit")
@of_both
@pytest.mark.parametrize(("sizes", "window"), CONVOLUTIONS)
def test_the_unit_itself_has_them(family, sizes, window, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_TILES", "")
    check(family, sizes, window)


@of_both
@pytest.mark.parametrize("size", [9, 20])
def test_every_config_has_the_same_bits(family, size):
    payload, machine = load_payload(specs(f"size={size},channels=48,filters=72")), this_machine()
    task = next(task for task in partition(payload).tasks if family.covers(task))
    inputs = payload.make_inputs(0)
    configs = random_configs(family, task, machine, 6, seed=1)
    assert len({(config["rows"], config["width"]) for config in configs}) > 2
    found = [computed(family, payload, inputs, **config) for config in configs]
    assert all(np.array_equal(found[0], other) for other in found[1:])


@of_both
@pytest.mark.parametrize("sizes", ["size=11,channels=20,filters=20,batch=2", "size=20,channels=16,filters=33"])
def test_what_follows_a_convolution_is_done_with_its_blocks(family, sizes):
    assert error_of(f"resnet_block,layout=nhwc,{sizes}", family, taken=2) < 2 * family.error


@of_both
def test_what_is_behind_an_image_reaches_no_result(family):
    payload, machine = load_payload(specs("size=9,channels=32,filters=16,batch=2")), this_machine()
    parts, steps, _ = steps_of(payload, family, machine)
    inputs = payload.make_inputs(0)
    inputs["x"][1] = np.nan
    (got,) = run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text, panels=panels_of(steps))
    (expected,) = payload.reference(**inputs)
    assert np.abs(got[0] - expected[0]).max() < 2 * family.error * np.abs(expected[0]).max()
    assert np.isnan(got[1]).all()


@pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
@of_both
@pytest.mark.parametrize("sizes", ["size=40,channels=32,filters=32", "size=16,channels=32,filters=64,batch=4"])
def test_threads_share_rows_or_images(family, sizes):
    assert error_of(specs(sizes), family, machine=this_machine(2), pipeline=tail(2)) < 2 * family.error


STORED = """
func.func @stored(%x: tensor<1x12x12x40xT>,
    %k: tensor<3x3x40x24xT> {autotune.role = "weight"}) -> tensor<1x10x10x24xR> {
  %zero = arith.constant 0.0 : R
  %e = tensor.empty() : tensor<1x10x10x24xR>
  %i = linalg.fill ins(%zero : R) outs(%e : tensor<1x10x10x24xR>) -> tensor<1x10x10x24xR>
  %y = linalg.conv_2d_nhwc_hwcf ins(%x, %k : tensor<1x12x12x40xT>, tensor<3x3x40x24xT>)
    outs(%i : tensor<1x10x10x24xR>) -> tensor<1x10x10x24xR>
  return %y : tensor<1x10x10x24xR>
}
"""


def stored(folder, kind, result):
    return loaded(
        folder, STORED.replace("xT>", f"x{kind}>").replace("xR>", f"x{result}>").replace(": R", f": {result}")
    )


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_a_kernel_in_16_bits_is_read_as_it_is_stored(kind, tmp_path):
    payload = stored(tmp_path, kind, "f32")
    task = next(task for task in partition(payload).tasks if any(op.has_products for op in task.ops))
    able = [family for family in (WINDOW_INT16, WINDOW_BF16, *TILED) if family.covers(task)]
    assert able == [WINDOW_BF16, WINDOW_TILE_BF16, *([WINDOW_TILE_BF16X2] if kind == "f16" else [])]
    inputs = payload.make_inputs(0)
    x, kernel = (each.astype("f4") for each in inputs.values())
    for family in able[1:]:
        got = computed(family, payload, inputs)
        np.testing.assert_array_equal(got, convolved_by_unit(family.precision, x, kernel))


@pytest.mark.parametrize(("kind", "family"), [("bf16", WINDOW_TILE_BF16), ("f16", WINDOW_TILE_BF16X2)])
def test_a_model_in_16_bits_goes_by_tiles_by_default(kind, family, tmp_path):
    payload = stored(tmp_path, kind, kind)
    assert f'= "{family.name}"' in default_candidate(partition(payload), this_machine()).script
    inputs = payload.make_inputs(0)
    got = compile_payload(payload)(**inputs).astype("f8")
    x, kernel = (each.astype("f8") for each in inputs.values())
    exact = convolved(x, kernel)
    assert np.abs(got - exact).max() < step_of_results(payload) * np.abs(exact).max()


def test_channels_and_rows_that_fill_no_tile_are_left_alone():
    for sizes, taken in (("size=14,channels=16,filters=8", True), ("size=14,channels=15,filters=32", False)):
        tasks = partition(load_payload(specs(sizes))).tasks
        assert any(family.covers(task) for family in TILED for task in tasks) is taken
    narrow = partition(load_payload(specs("size=3,channels=64,filters=32"))).tasks
    assert not any(family.covers(task) for family in TILED for task in narrow)


ROWS_MOVE = """
#x = affine_map<(h, w, f, i, c) -> (PLACE, c)>
#k = affine_map<(h, w, f, i, c) -> (i, c, f)>
#y = affine_map<(h, w, f, i, c) -> (h, w, f)>
func.func @rows(%x: tensor<SHAPEx32xf32>, %k: tensor<3x32x16xf32> {autotune.role = "weight"}) -> tensor<9x20x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9x20x16xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<9x20x16xf32>) -> tensor<9x20x16xf32>
  %y = linalg.generic {indexing_maps = [#x, #k, #y],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %k : tensor<SHAPEx32xf32>, tensor<3x32x16xf32>) outs(%i : tensor<9x20x16xf32>) {
    ^bb0(%a: f32, %b: f32, %sum: f32):
      %product = arith.mulf %a, %b : f32
      %more = arith.addf %sum, %product : f32
      linalg.yield %more : f32
    } -> tensor<9x20x16xf32>
  return %y : tensor<9x20x16xf32>
}
"""


@pytest.mark.parametrize(
    ("place", "shape", "taken"),
    [
        ("h + i, w", "11x20", True),
        ("h, h + w + i", "9x30", True),  # a diagonal, along which each line begins further on
        ("h + i", "11", False),  # all rows read the same
        ("h + w, w + i", "28x22", False),  # each reads a line of its own
    ],
)
def test_rows_of_a_tile_are_equally_far_apart(place, shape, taken, tmp_path):
    payload = loaded(tmp_path, ROWS_MOVE.replace("PLACE", place).replace("SHAPE", shape))
    (task,) = partition(payload).tasks
    assert all(family.covers(task) is taken for family in TILED)
    assert WINDOW_BF16.covers(task)
    if taken:
        inputs = payload.make_inputs(0)
        expected = compile_payload(payload, scheduled=False)(**inputs)
        for family in TILED:
            got = computed(family, payload, inputs)
            assert np.abs(got - expected).max() < 2 * family.error * np.abs(expected).max()


@of_both
def test_stand_ins_become_the_instruction(family, monkeypatch):
    (task,) = partition(load_payload(specs("size=14,channels=32,filters=32"))).tasks
    machine = MACHINES["avx512"]
    assert not family.runs_on(machine)
    step = write_step(task, family, family.default(task, machine), machine, alone=True)
    emulation = compile_to("llvm", task.payload, candidate_alone(step)).text
    assert "__autotune_tile_bf16" in emulation
    assert "tdpbf16ps" not in emulation
    monkeypatch.setenv("AUTOTUNE_TILES", "")
    if ask_for_tiles():
        assert "tdpbf16ps" in compile_to("llvm", task.payload, candidate_alone(step)).text


def test_roofs_are_those_of_the_unit():
    rates = {"flops": 1e11, "bf16": 1.8e11, "tile_bf16": 1.2e12}
    assert [roof_of_family(family.name, rates) for family in TILED] == [1.2e12, 4e11]


@NEEDS_C
@of_both
@pytest.mark.parametrize("kind", ["f32", "bf16", "f16"])
def test_c_stores_the_same_words(family, kind, tmp_path):
    taken = check_c_words(stored(tmp_path, kind, "f32"), family, tmp_path)
    assert taken is ((family, kind) != (WINDOW_TILE_BF16X2, "bf16"))
