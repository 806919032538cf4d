"""Products of operands rounded to bf16 and int8: what they compute, which instructions they become, what is refused."""

import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from precision_support import FAMILIES, WORDS, computed, error_of_whole, product
from tuning_support import MACHINES, contraction_payload, run

from autotune.compiler.codegen.llvm_tools import find_tool
from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.passes.pipelines import tail
from autotune.compiler.tasks.partition import partition
from autotune.core.candidate import Candidate
from autotune.core.host.machine import this_machine
from autotune.core.precision import INT8, INT16, PRECISIONS
from autotune.core.scripts.assembly import assemble, write_step
from autotune.registry import family_for, load_family, load_payload, rounding_families
from autotune.tuning.candidates import candidate_alone
from schedules.matmul_space import columns_of

SIZES = st.integers(1, 70)
COLUMNS = st.integers(2, 70)  # a product with one column is a sum of rows
needs_runtime = pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
INSTRUCTIONS = {"i16": r"vpdpwssd\s.*zmm", "i8": r"vpdpbusd\s+%zmm|vpdpbusd\s.*zmm", "bf16": r"vdpbf16ps\s.*zmm"}
BY_VECTORS = [family for family in WORDS if not family.precision.by_tiles]


def check(family, payload, inputs, *, turned=False, **config):
    (got,) = computed(family, payload, inputs, **config)
    a, b = inputs["a"], inputs["b"]
    expected = product(family.precision, a, b.T if turned else b)
    np.testing.assert_allclose(got, expected, rtol=0, atol=3e-6 * max(1.0, np.abs(a).max() * np.abs(b).max() * len(b)))


@settings(max_examples=6, deadline=None)
@given(family=st.sampled_from(range(len(FAMILIES))), m=SIZES, n=COLUMNS, k=SIZES, turned=st.booleans())
@example(family=1, m=1, n=2, k=1, turned=False)
@example(family=1, m=13, n=70, k=66, turned=True)
@example(family=0, m=33, n=17, k=31, turned=False)
def test_what_is_computed_is_the_product_of_rounded_operands(family, m, n, k, turned):
    if FAMILIES[family].marks[0].args[0]:
        return
    payload = contraction_payload(m, n, k, b="nk" if turned else "kn", role_b="weight")
    check(FAMILIES[family].values[0], payload, payload.make_inputs(0), turned=turned)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_of_nest_computes_the_same(family):
    payload = contraction_payload(40, 200, 48, role_b="weight")
    (task,) = partition(payload).tasks
    machine = this_machine()
    space, default = family.space(task, machine), family.default(task, machine)
    tried = 0
    for change in ({"register_m": 1}, {"register_n": 1}, {"tile_m": 32, "order": "mnk"}, {"tile_n": 64}):
        if space.broken_constraint({**default, **change}) is None:
            check(family, payload, payload.make_inputs(1), **change)
            tried += 1
    assert tried > 1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rows", [[0.0], [1e30, 1e-30, -1.0, 0.0, 1e-3]])
def test_rows_of_any_size_are_rounded_by_themselves(family, rows):
    payload = contraction_payload(len(rows), 20, 24, role_b="weight")
    inputs = payload.make_inputs(0)
    inputs["a"] *= np.array(rows, "f4")[:, None]
    (got,) = computed(family, payload, inputs)
    for mine, row, x in zip(got, rows, inputs["a"], strict=True):
        expected = product(family.precision, x[None], inputs["b"])[0]
        np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-4 * abs(row))


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_no_number_stays_none(family):
    payload = contraction_payload(5, 8, 40, role_b="weight")
    inputs = payload.make_inputs(0)
    inputs["a"][[1, 3], 37] = np.nan, np.inf
    (got,) = computed(family, payload, inputs)
    assert not np.isfinite(got[[1, 3]]).any()
    assert np.isfinite(got[[0, 2, 4]]).all()


@pytest.mark.parametrize("precision", PRECISIONS.values(), ids=lambda precision: precision.name)
def test_packed_words_hold_the_rounded_columns(precision):
    b = np.random.default_rng(0).standard_normal((2, 7, 5)).astype("f4")
    words = precision.pack(b)
    assert words.shape == (2, precision.words(7), 5)
    assert words.dtype == np.int32
    values = np.ascontiguousarray(words[:, : precision.words(7) - precision.extra].swapaxes(-1, -2))
    if precision == INT8:
        rounded = values.view(np.int8)[..., :7].swapaxes(-1, -2) * words[:, -2:-1].view("f4")
        assert np.abs(rounded - b).max() <= np.abs(b).max() / 127
        assert (words[:, -1] == -128 * values.view(np.int8).sum(axis=-1, dtype=np.int32)).all()


@settings(max_examples=40, deadline=None)
@given(k=st.integers(1, 200), seed=st.integers(0, 99), kind=st.sampled_from(["normal", "alike", "one", "late"]))
def test_steps_of_int16_are_as_fine_as_no_sum_of_a_chunk_overflows(k, seed, kind):
    b = np.random.default_rng(seed).standard_normal((k, 3)).astype("f4")
    if kind != "normal":
        b = {"alike": np.full_like(b, 7.0), "one": b * (np.arange(k) == k - 1)[:, None], "late": b * 1e-9}[kind]
    b[k // 2 :] *= np.float32(1e9 if kind == "late" else 1)
    scale, rounded = INT16.quantise(b)
    assert np.abs(rounded * scale.astype("f8") - b).max() <= 0.504 * scale.max()  # 2^15 steps are multiplied in f32
    magnitudes = np.abs(rounded.astype("i8"))
    most = max(int(magnitudes[first : first + INT16.span].sum(axis=0).max()) for first in range(k))
    assert most * INT16.most < 2**31
    assert most > 1.9 * INT16.most * 2 or magnitudes.max() == 2**15 - 1  # a quarter of a bit is given away


@pytest.mark.parametrize("family", [family for family in WORDS if family.precision == INT16], ids=lambda f: f.name)
@pytest.mark.parametrize("k", [64, 65, 200, 1000])
def test_no_values_overflow_the_sums_of_a_chunk(family, k):
    if family.lacking:
        pytest.skip(family.lacking)
    payload = contraction_payload(3, 16, k, role_b="weight")
    inputs = {**payload.make_inputs(0), "a": np.full((3, k), -5.0, "f4"), "b": np.full((k, 16), 2.0, "f4")}
    (got,) = computed(family, payload, inputs)
    np.testing.assert_allclose(got, -10.0 * k, rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_whole_model_of_rounded_products_is_near_the_exact_one(family):
    off = error_of_whole(family, "gpt,seq=8,d_model=32,layers=1,heads=2,d_ff=64,vocab=50,positions=8")
    least, most = (1e-4, 0.05) if family.precision.parts == 1 else (1e-8, 1e-4)
    assert least < off < most


@needs_runtime
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pieces", [{"pieces_m": 2}, {"pieces_n": 2}, {"pieces_m": 2, "pieces_n": 2}])
def test_threads_share_a_product_of_rounded_operands(family, pieces):
    payload, machine = contraction_payload(50, 96, 40, role_b="weight"), this_machine(2)
    parts, inputs = partition(payload), payload.make_inputs(0)
    (task,) = parts.tasks
    space = family.space(task, machine)
    config = next(c for c in space.configs() if pieces.items() <= c.items())
    script = assemble([write_step(task, family, config, machine)])
    assert "tile_using_forall" in script
    (got,) = run(payload, inputs, script, tail(2), text=parts.payload.text, panels=((task.tag, columns_of(config)),))
    np.testing.assert_allclose(got, product(family.precision, inputs["a"], inputs["b"]), rtol=0, atol=2e-4)


@needs_runtime
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("rows", "loops"), [(70, 1), (5, 0)])
def test_threads_share_the_rounding_of_many_rows(family, rows, loops):
    payload, machine = contraction_payload(rows, 32, 520, role_b="weight"), this_machine(2)
    parts, inputs = partition(payload), payload.make_inputs(0)
    (task,) = parts.tasks
    config = {name: 1 if "pieces" in name else value for name, value in family.default(task, machine).items()}
    script, panels = assemble([write_step(task, family, config, machine)]), ((task.tag, columns_of(config)),)
    candidate = Candidate(script, tail(2), text=parts.payload.text, panels=panels)
    assert compile_to("panel-loads", payload, candidate).text.count("scf.forall") == loops
    (got,) = run(payload, inputs, script, tail(2), text=parts.payload.text, panels=panels)
    np.testing.assert_allclose(got, product(family.precision, inputs["a"], inputs["b"]), rtol=0, atol=2e-3)


# Text: also where the instructions are not.


def llvm_of(family, spec="matmul,m=24,n=64,k=64,constant_b=1"):
    (task,) = partition(load_payload(spec)).tasks
    machine = MACHINES["avx512"]
    step = write_step(task, family, family.default(task, machine), machine, alone=True)
    return task.payload, candidate_alone(step)


@pytest.mark.parametrize("family", BY_VECTORS, ids=lambda family: family.name)
def test_tiles_become_dot_products_of_whole_vectors_on_a_cpu_that_has_them(family, tmp_path):
    payload, candidate = llvm_of(family)
    text = compile_to("llvm", payload, candidate).text
    (tmp_path / "tile.ll").write_text(text)
    options = ("-mtriple=x86_64-linux-gnu", "-mcpu=cooperlake", "-O3", "-o", "-")
    made = subprocess.run(
        [find_tool("llc"), *options, tmp_path / "tile.ll"], check=True, capture_output=True, text=True
    ).stdout
    found = [line for line in made.splitlines() if re.search(INSTRUCTIONS[family.precision.element], line)]
    assert len(found) >= 16, "a tile has many sums"
    loop = made[made.index(found[0]) : made.index(found[-1])]
    assert "zmm" in loop
    assert "(%rsp)" not in loop or family.asked, "its sums stay in registers"


@pytest.mark.parametrize("family", BY_VECTORS, ids=lambda family: family.name)
def test_a_script_says_what_is_rounded_and_the_step_before_it_shows_how(family):
    payload, candidate = llvm_of(family)
    assert re.search(rf'autotune.precision = {{\w+ = "{family.name}"}}', candidate.script)
    before = compile_to("panels", payload, candidate).text
    assert before.count("autotune.narrow") == 2
    assert "linalg.matmul" not in before
    assert "autotune.narrow" not in compile_to("panel-loads", payload, candidate).text


def test_a_cpu_without_the_instructions_is_told_what_it_lacks():
    assert replace(INT8, flag="amx_int8x").lacking == "int8 needs a CPU with amx_int8x, which this one lacks"


# Who is covered.


@pytest.mark.parametrize(
    "payload",
    [
        contraction_payload(8, 8, 8, a="km", role_b="weight"),
        contraction_payload(8, 8, 8, a="km"),
        load_payload("softmax,rows=8,cols=8"),
        contraction_payload(4, 8, 8, b="nk"),
    ],
    ids=["turned a", "fresh turned a", "softmax", "few rows"],
)
def test_what_cannot_be_rounded_is_left_to_others(payload):
    for task in partition(payload).tasks:
        assert not any(family.covers(task) for family in rounding_families())


@pytest.mark.parametrize("batch", [0, 2])
def test_a_fresh_b_is_packed_in_bf16_alone(batch):
    (task,) = partition(contraction_payload(8, 8, 8, batch=batch)).tasks
    taken = [family for family in rounding_families() if family.covers(task)]
    assert taken == [family for family in WORDS if not family.precision.most]


def test_no_family_that_rounds_is_taken_unasked():
    (task,) = partition(contraction_payload(8, 8, 8, role_b="weight")).tasks
    assert family_for(task).name == "matmul"
    assert [load_family(family.name) for family in rounding_families()] == list(rounding_families())


def test_a_deep_product_has_a_whole_register_tile_by_default():
    machine = replace(this_machine(), l2_bytes=1 << 20)
    for k in (3072, 12000, 40000):
        (task,) = partition(contraction_payload(128, 96, k, role_b="weight")).tasks
        for family in WORDS:
            config = family.default(task, machine)
            assert family.space(task, machine).broken_constraint(config) is None
            assert config["register_m"] > 1
