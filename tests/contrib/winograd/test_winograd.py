"""Convolutions by Winograd's transform: exact in exact numbers, near direct sums in f32, only where that is allowed."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from c_support import NEEDS_C, call_from_c, emit
from convolution_support import error_of, filled_convolution, steps_of
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_support import MACHINES, random_configs, run

from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.passes.pipelines import TAIL, tail
from autotune.compiler.tasks.partition import partition
from autotune.contrib.winograd.family import WINOGRAD_F2, WINOGRAD_F4
from autotune.contrib.winograd.transform import POINTS, TAPS, Filtering
from autotune.core.candidate import Candidate
from autotune.core.host.machine import this_machine
from autotune.core.precision import TILE_BF16X2
from autotune.core.scripts.assembly import assemble, panels_of
from autotune.registry import load_payload, roof_of_family, rounding_families, weight_form
from autotune.tuning.stages.budget import rounding_here

FAMILIES = [WINOGRAD_F2, WINOGRAD_F4]
BY_NAME = {"argvalues": FAMILIES, "ids": lambda family: family.name}
ALLOWED = 1e-5  # of the largest output: direct sums are off by 1e-6, tiles of four outputs by up to three times that
NUMBERS = st.integers(-9, 9)


@settings(deadline=None)
@given(outputs=st.sampled_from(sorted(POINTS)), data=st.data())
def test_in_exact_numbers_a_tile_is_the_sums_over_its_windows(outputs, data):
    tile = Filtering(outputs)
    d = [Fraction(data.draw(NUMBERS)) for _ in range(tile.inputs)]
    g = [Fraction(data.draw(NUMBERS)) for _ in range(TAPS)]
    products = [
        sum(a * b for a, b in zip(of_g, g, strict=True)) * sum(a * b for a, b in zip(of_d, d, strict=True))
        for of_g, of_d in zip(tile.of_taps, tile.of_inputs, strict=True)
    ]
    found = [sum(a * b for a, b in zip(row, products, strict=True)) for row in tile.of_outputs]
    assert found == [sum(g[j] * d[i + j] for j in range(TAPS)) for i in range(outputs)]


@pytest.mark.parametrize("family", **BY_NAME)
@pytest.mark.parametrize(
    "sizes",
    [
        "size=14,channels=32,filters=32",
        "size=7,channels=24,filters=40",
        "size=9,channels=13,filters=37,batch=3",
        "size=6,channels=8,filters=9,padding=0",
        "size=23,channels=17,filters=50,padding=2",
        "size=4,channels=70,filters=16",
    ],
)
def test_a_convolution_is_near_the_oracle(family, sizes):
    assert error_of(f"conv,layout=nhwc,{sizes}", family) < ALLOWED


@pytest.mark.parametrize("family", **BY_NAME)
@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ("size=11,channels=20,filters=20,batch=2", 2),
        ("size=12,channels=16,filters=33", 2),  # another convolution, of 1 x 1, goes past
        ("size=16,channels=16,filters=48,stride=2", 1),
    ],
)
def test_what_follows_a_convolution_is_done_with_its_blocks(family, sizes, taken):
    assert error_of(f"resnet_block,layout=nhwc,{sizes}", family, taken=taken) < ALLOWED


@pytest.mark.parametrize("family", **BY_NAME)
def test_every_config_is_near_the_oracle(family):
    spec, machine = "resnet_block,layout=nhwc,size=12,channels=44,filters=44", this_machine()
    task = next(task for task in partition(load_payload(spec)).tasks if family.covers(task))
    for config in random_configs(family, task, machine, 4, 3):
        names = {knob.name for knob in family.space(task, machine).knobs}
        assert error_of(spec, family, taken=2, **{name: config[name] for name in names}) < ALLOWED


@pytest.mark.parametrize("family", **BY_NAME)
@pytest.mark.parametrize("name", ["avx2", "sse"])
def test_shorter_vectors_and_fewer_registers_do(family, name):
    machine = replace(MACHINES[name], threads=1)
    assert (
        error_of("resnet_block,layout=nhwc,size=9,channels=11,filters=11", family, machine=machine, taken=2) < ALLOWED
    )


@pytest.mark.parametrize("family", **BY_NAME)
@pytest.mark.parametrize("sizes", ["size=23,channels=40,filters=24", "size=19,channels=80,filters=17,batch=2"])
def test_tiles_come_a_few_rows_at_a_time_where_l2_holds_no_more(family, sizes):
    spec, machine = f"conv,layout=nhwc,{sizes}", replace(this_machine(), l2_bytes=64 << 10)
    _, (step,), _ = steps_of(load_payload(spec), family, machine)
    assert step.config["lines"] < family.plane(partition(load_payload(spec)).tasks[0]).down(step.config["block"])
    assert error_of(spec, family, machine=machine) < ALLOWED


@pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
@pytest.mark.parametrize("family", **BY_NAME)
@pytest.mark.parametrize(
    ("sizes", "shared"),
    [
        ("size=40,channels=32,filters=32", True),
        ("size=16,channels=32,filters=64,batch=4", True),
        ("size=7,channels=64,filters=128", False),  # seven pieces of a row each are none of a tile
    ],
)
def test_threads_share_rows_or_images(family, sizes, shared):
    spec, machine = f"conv,layout=nhwc,{sizes}", this_machine(2)
    _, (step,), _ = steps_of(load_payload(spec), family, machine)
    assert (step.config.get("pieces_m", 1) > 1) == shared
    assert error_of(spec, family, machine=machine, pipeline=tail(2)) < ALLOWED


@pytest.mark.parametrize(
    "spec",
    [
        "conv,layout=nhwc,size=14,channels=32,filters=32,stride=2",
        "conv,layout=nhwc,size=14,channels=32,filters=32,dilation=2",
        "conv,layout=nhwc,size=14,channels=32,filters=32,groups=2",
        "conv,layout=nhwc,size=14,channels=32,filters=32,kernel=5",
        "conv,layout=nhwc,size=14,channels=32,filters=32,kernel=1,padding=0",
        "conv,layout=nhwc,size=14,channels=4,filters=32",
        "conv,layout=nhwc,size=3,channels=32,filters=32,padding=0",
        "conv,size=14,channels=32,filters=32",  # its kernel is transposed in every call
        "matmul,m=64,n=64,k=64,constant_b=1",
    ],
)
def test_what_it_cannot_do_or_would_not_speed_up_is_left_alone(spec):
    assert not any(family.covers(task) for family, task in product(FAMILIES, partition(load_payload(spec)).tasks))


def test_sums_that_do_not_start_from_zero_are_left_alone(tmp_path):
    (task,) = partition(filled_convolution(tmp_path, 5.0)).tasks
    assert not any(family.covers(task) for family in FAMILIES)
    (task,) = partition(filled_convolution(tmp_path, 0.0)).tasks
    assert all(family.covers(task) for family in FAMILIES)


def test_it_competes_only_where_an_error_is_allowed():
    names, all_of_them = {family.name for family in FAMILIES}, rounding_families()
    assert not names & {family.name for family in rounding_here(all_of_them, 0.0, {})[0]}
    assert names <= {family.name for family in rounding_here(all_of_them, 1e-3, {"flops": 1e11})[0]}
    assert WINOGRAD_F2.error < WINOGRAD_F4.error < TILE_BF16X2.error


def test_its_roof_counts_what_a_tile_saves():
    assert [roof_of_family(name, {"flops": 1e11}) for name in ("matmul", "winograd_f2", "winograd_f4", "bf16")] == [
        1e11,
        2.25e11,
        4e11,
        None,
    ]


@NEEDS_C
@pytest.mark.parametrize("family", **BY_NAME)
def test_c_stores_transformed_filters(family, tmp_path):
    payload, machine = load_payload("conv,layout=nhwc,size=9,channels=11,filters=21"), this_machine()
    parts, steps, _ = steps_of(payload, family, machine)
    inputs, panels = payload.make_inputs(0), panels_of(steps)
    weights = emit(payload, Candidate(assemble(steps), TAIL, parts.payload.text, tuple(panels)), tmp_path)
    assert [weight.precision for weight in weights] == [family.name]
    (found,) = call_from_c(tmp_path, payload, weights, inputs).values()
    (expected,) = run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text, panels=panels)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max(), rtol=0)


def test_filters_are_transformed_in_double_precision():
    kernel = np.random.default_rng(0).standard_normal((TAPS, TAPS, 3, 5)).astype(np.float32)
    form = weight_form("winograd_f4")
    found = form.pack(kernel.reshape(TAPS * TAPS, 3, 5), form.shape(kernel.shape), transposed=False)
    of_taps = [[Fraction(each) for each in row] for row in form.filtering.of_taps]
    exact = sum(
        of_taps[2][y] * of_taps[4][x] * Fraction(float(kernel[y, x, 1, 4])) for y, x in product(range(TAPS), repeat=2)
    )
    assert found[2, 4, 1, 4] == np.float32(float(exact))
