"""Convolutions of rounded words: what they compute, to the last bit of a sum; what they leave alone; C that packs."""

from dataclasses import replace

import numpy as np
import pytest
from c_support import NEEDS_C
from convolution_support import check_c_words, convolved, error_of, filled_convolution, steps_of
from tuning_support import MACHINES, random_configs, run

from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.pipelines import TAIL, tail
from autotune.compiler.tasks.partition import partition
from autotune.contrib.narrow_windows.family import WINDOW_BF16, WINDOW_INT16
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError
from autotune.core.host.machine import this_machine
from autotune.core.precision import BF16X2
from autotune.core.scripts.assembly import assemble, panels_of, write_step
from autotune.registry import load_payload, roof_of_family, rounding_families, weight_form
from autotune.tuning.candidates import candidate_alone
from autotune.tuning.stages.budget import rounding_here

FAMILIES = [WINDOW_INT16, WINDOW_BF16]
HERE = {
    "argvalues": [
        pytest.param(
            family, id=family.name, marks=pytest.mark.skipif(bool(family.lacking), reason=family.lacking or "here")
        )
        for family in FAMILIES
    ]
}
CONVOLUTIONS = [  # parameters, and the step, dilation and padding of windows
    ("size=14,channels=32,filters=32", 1, 1, 1),
    ("size=9,channels=13,filters=37,batch=3", 1, 1, 1),  # odd channels, ragged filters, several images
    ("size=7,channels=150,filters=20", 1, 1, 1),  # more words than a chunk
    ("size=11,channels=9,filters=65,kernel=5,padding=2", 1, 1, 2),
    ("size=10,channels=16,filters=16,stride=2", 2, 1, 1),
    ("size=12,channels=8,filters=24,dilation=2", 1, 2, 1),
    ("size=13,channels=70,filters=48,kernel=2,padding=0", 1, 1, 0),
]


def specs(sizes):
    return f"conv,layout=nhwc,{sizes}"


def rounded_inputs(precision, x):
    """Inputs as their words hold them: those of an image have one scale."""
    if not precision.most:
        return precision.split(x)[0].astype("f8")
    largest = np.abs(x).max(axis=(1, 2, 3), keepdims=True)
    steps = np.float32(precision.most) / largest
    return np.rint(x.astype("f8") * steps) * (largest * np.float32(1 / precision.most)).astype("f8")


def rounded_kernel(precision, kernel):
    """A kernel as its words hold it."""
    if not precision.most:
        return precision.split(kernel)[0].astype("f8")
    scale, rounded = precision.quantise(filled_up(kernel).reshape(-1, kernel.shape[-1]))
    whole = (rounded.astype("f8") * scale).reshape(*kernel.shape[:2], -1, kernel.shape[-1])
    return whole[:, :, : kernel.shape[2]]


def filled_up(kernel):
    """A kernel with channels filled up to pairs."""
    return np.pad(kernel, [(0, 0), (0, 0), (0, kernel.shape[2] % 2), (0, 0)])


@pytest.mark.parametrize("family", **HERE)
@pytest.mark.parametrize(("sizes", "step", "apart", "padding"), CONVOLUTIONS)
def test_what_is_computed_is_the_convolution_of_rounded_operands(family, sizes, step, apart, padding):
    payload, machine = load_payload(specs(sizes)), this_machine()
    parts, steps, taken = steps_of(payload, family, machine)
    assert taken == 1
    inputs = payload.make_inputs(0)
    (got,) = run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text, panels=panels_of(steps))
    x = rounded_inputs(family.precision, inputs["x"])
    expected = convolved(x, rounded_kernel(family.precision, inputs["kernel"]), step, apart, padding)
    np.testing.assert_allclose(got, expected, rtol=0, atol=3e-6 * np.abs(expected).max())


@pytest.mark.parametrize("family", **HERE)
@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ("size=11,channels=20,filters=20,batch=2", 2),
        ("size=12,channels=16,filters=33", 2),  # another convolution, of 1 x 1, is rounded too
        ("size=16,channels=16,filters=48,stride=2", 2),
    ],
)
def test_what_follows_a_convolution_is_done_with_its_blocks(family, sizes, taken):
    assert error_of(f"resnet_block,layout=nhwc,{sizes}", family, taken=taken) < 20 * family.error


@pytest.mark.parametrize("family", **HERE)
def test_every_config_is_near_the_oracle(family):
    spec, machine = "resnet_block,layout=nhwc,size=12,channels=44,filters=44", this_machine()
    task = next(task for task in partition(load_payload(spec)).tasks if family.covers(task))
    for config in random_configs(family, task, machine, 4, 3):
        names = {knob.name for knob in family.space(task, machine).knobs}
        off = error_of(spec, family, taken=2, **{name: config[name] for name in names})
        assert off < 20 * family.error


@pytest.mark.skipif(bool(WINDOW_INT16.lacking), reason=WINDOW_INT16.lacking or "here")
@pytest.mark.parametrize("sizes", ["channels=130,kernel=2", "channels=48", "channels=16", "channels=9,kernel=5"])
def test_no_values_overflow_sums_of_32_bits(sizes):
    payload, machine = load_payload(f"conv,layout=nhwc,size=8,filters=16,padding=0,{sizes}"), this_machine()
    parts, steps, _ = steps_of(payload, WINDOW_INT16, machine)
    inputs = payload.make_inputs(0)
    (got,) = run(
        payload,
        {"x": np.full_like(inputs["x"], 3.0), "kernel": np.full_like(inputs["kernel"], -1.0)},
        assemble(steps),
        TAIL,
        text=parts.payload.text,
        panels=panels_of(steps),
    )
    side, _, channels, _ = inputs["kernel"].shape
    np.testing.assert_allclose(got[0, 2, 2], -3.0 * side * side * channels, rtol=1e-3)


@pytest.mark.parametrize("family", **HERE)
def test_what_is_no_number_stays_none_and_images_are_rounded_apart(family):
    payload, machine = load_payload(specs("size=6,channels=24,filters=16,batch=3")), this_machine()
    parts, steps, _ = steps_of(payload, family, machine)
    inputs = payload.make_inputs(0)
    inputs["x"][0, 2, 2, 21], inputs["x"][1] = np.nan, 1e30
    (got,) = run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text, panels=panels_of(steps))
    assert np.isnan(got[0, 1:4, 1:4]).all()
    (expected,) = payload.reference(**inputs)
    assert np.abs(got[2] - expected[2]).max() < 20 * family.error * np.abs(expected[2]).max()


@pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
@pytest.mark.parametrize("family", **HERE)
@pytest.mark.parametrize("sizes", ["size=40,channels=32,filters=32", "size=16,channels=32,filters=64,batch=4"])
def test_threads_share_rows_or_images(family, sizes):
    spec, machine = specs(sizes), this_machine(2)
    _, (step,), _ = steps_of(load_payload(spec), family, machine)
    assert step.config["pieces_m"] > 1
    assert error_of(spec, family, machine=machine, pipeline=tail(2)) < 20 * family.error


@pytest.mark.parametrize(
    "spec",
    [
        specs("size=14,channels=4,filters=32"),
        specs("size=14,channels=32,filters=32,groups=2"),  # channels of a group are side by side, its filters are not
        specs("size=14,channels=32,filters=32,groups=32"),
        "conv,size=14,channels=32,filters=32",  # its kernel is transposed in every call
        "matmul,m=64,n=64,k=64,constant_b=1",
    ],
)
def test_what_it_cannot_do_or_would_not_speed_up_is_left_alone(spec):
    tasks = partition(load_payload(spec)).tasks
    assert not any(family.covers(task) for family in FAMILIES for task in tasks)


def test_sums_that_do_not_start_from_zero_are_left_alone(tmp_path):
    (task,) = partition(filled_convolution(tmp_path, 5.0)).tasks
    assert not any(family.covers(task) for family in FAMILIES)
    (task,) = partition(filled_convolution(tmp_path, 0.0)).tasks
    assert all(family.covers(task) for family in FAMILIES)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_stand_ins_become_the_instruction_also_where_it_is_not(family):
    (task,) = partition(load_payload(specs("size=14,channels=32,filters=32"))).tasks
    machine = MACHINES["avx512"]
    step = write_step(task, family, family.default(task, machine), machine, alone=True)
    before = compile_to("panels", task.payload, candidate_alone(step)).text
    assert before.count("autotune.window_sums") == before.count("autotune.window_rounded") == 1
    text = compile_to("llvm", task.payload, candidate_alone(step)).text
    assert {"int16": "vpdpwssd.512", "bf16": "dpbf16ps.512"}[family.precision.name] in text


def test_they_compete_only_where_an_error_is_allowed():
    names = {family.name for family in FAMILIES if not family.lacking}
    assert not names & {family.name for family in rounding_here(rounding_families(), 0.0, {})[0]}
    assert names <= {family.name for family in rounding_here(rounding_families(), 1e-3, {"flops": 1e11})[0]}
    assert BF16X2.error < WINDOW_INT16.error < WINDOW_BF16.error


def test_vectors_of_256_bits_have_none_and_roofs_are_those_of_the_instruction():
    assert [family.runs_on(MACHINES[name]) for family in FAMILIES for name in ("avx512", "avx2")] == [True, False] * 2
    rates = {"flops": 1e11, "bf16": 1.8e11, "int16": 2e11}
    assert [roof_of_family(family.name, rates) for family in FAMILIES] == [2e11, 1.8e11]


@NEEDS_C
@pytest.mark.parametrize("family", **HERE)
@pytest.mark.parametrize("sizes", ["size=9,channels=11,filters=21", "size=6,channels=80,filters=40,kernel=2,padding=0"])
def test_c_stores_the_same_words(family, sizes, tmp_path):
    assert check_c_words(load_payload(specs(sizes)), family, tmp_path)


def test_an_int16_kernel_has_steps_as_fine_as_its_sums_allow():
    kernel = np.random.default_rng(0).standard_normal((3, 3, 20, 5)).astype(np.float32)
    kernel[..., 3] = 0
    form = weight_form("window_int16")
    words = form.pack(kernel, form.shape(kernel.shape), transposed=False)
    assert words.shape == (3, 3, 11, 5)
    values = np.stack([words[:, :, :10] << 16 >> 16, words[:, :, :10] >> 16], axis=3).reshape(3, 3, 20, 5)
    scales = words[0, 0, 10].view("f4")
    assert (words[:, :, 10] == words[0, 0, 10]).all()
    assert np.abs(values * scales - kernel).max() <= 0.5001 * scales.max()
    assert not values[..., 3].any()
    three_taps = np.abs(values).reshape(9, 20, 5).sum(axis=1)
    together = max((three_taps[first : first + 3].sum(axis=0).max()) for first in range(7))
    assert 16383 * together < 2**31
    assert together > 16383 * 4  # no more than a bit is given away


def test_a_machine_without_the_instruction_is_told_what_it_lacks():
    lacking = replace(WINDOW_INT16, precision=replace(WINDOW_INT16.precision, flag="avx1024"))
    assert lacking.lacking == "int16 needs a CPU with avx1024, which this one lacks"


@pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
@pytest.mark.parametrize("family", **HERE)
@pytest.mark.parametrize(
    ("sizes", "loops"),
    [
        ("size=48,channels=24,filters=16", 2),  # one image: its largest by rows, then its words
        ("size=24,channels=24,filters=16,batch=3", 1),  # images, each by one thread
        ("size=20,channels=24,filters=16", 0),  # too few to wake threads up
    ],
)
def test_threads_share_the_rounding_of_large_inputs(family, sizes, loops):
    spec, machine = specs(sizes), this_machine(2)
    parts, steps, _ = steps_of(load_payload(spec), family, machine, pieces_m=1)
    candidate = Candidate(assemble(steps), tail(2), text=parts.payload.text, panels=tuple(panels_of(steps)))
    text = compile_to("panel-loads", load_payload(spec), candidate).text
    assert text.count("scf.forall") == (loops if family.precision.most else min(loops, 1))
    assert error_of(spec, family, machine=machine, pipeline=tail(2), pieces_m=1) < 20 * family.error


@pytest.mark.skipif(bool(WINDOW_INT16.lacking), reason=WINDOW_INT16.lacking or "here")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-35, 1e-30, 1e30])
def test_inputs_and_filters_of_any_size_have_finite_steps(size):
    payload, machine = load_payload(specs("size=8,channels=16,filters=16")), this_machine()
    parts, steps, _ = steps_of(payload, WINDOW_INT16, machine)
    inputs = payload.make_inputs(0)
    inputs["x"] *= np.float32(size)
    inputs["kernel"] *= np.array([1e-37, 1e6, 0.0, 1.0] * 4, np.float32)
    (got,) = run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text, panels=panels_of(steps))
    (expected,) = payload.reference(**inputs)
    least = [
        2.0**-126 * 16 * 9 * most for most in (np.abs(inputs["kernel"]).max(axis=(0, 1, 2)), np.abs(inputs["x"]).max())
    ]
    off = np.abs(got.astype("f8") - expected).max(axis=(0, 1, 2))
    assert (off <= 1e-3 * np.abs(expected).max(axis=(0, 1, 2)) + sum(least) + 2.0**-126).all()


@pytest.mark.skipif(bool(WINDOW_INT16.lacking), reason=WINDOW_INT16.lacking or "here")
def test_a_precision_of_matrices_is_refused_for_windows_in_a_line():
    payload, machine = load_payload(specs("size=8,channels=16,filters=16")), this_machine()
    parts, steps, _ = steps_of(payload, WINDOW_INT16, machine)
    script = assemble(steps).replace('"window_int16"', '"int16"')
    with pytest.raises(CompileError, match=r"int16 must be of products of matrices, got another op, linalg\.generic"):
        compile_to("panels", payload, Candidate(script, TAIL, parts.payload.text, tuple(panels_of(steps))))
