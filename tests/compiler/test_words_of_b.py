"""Products of rounded operands whose B is known in the call only: words are packed there, bit for bit as before it."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from precision_support import WORDS, by_unit, computed, matrices, product
from tuning_support import MACHINES, contraction_payload

from autotune.compiler.codegen.object_code import disassemble
from autotune.compiler.lowering.emit import Emission, emit_program
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.tasks.partition import partition
from autotune.contrib.targets.target_file import find_target
from autotune.core.candidate import Claim
from autotune.core.scripts.assembly import write_step
from autotune.registry import load_payload
from autotune.tuning.candidates import candidate_alone

FRESH = [family for family in WORDS if family.precision.packs_in_call]
TILED = [family for family in FRESH if family.precision.by_tiles]
VECTORS = [family for family in FRESH if not family.precision.by_tiles]
here = [family for family in VECTORS if not family.precision.lacking]
XEON = find_target("sapphirerapids")
LAYOUTS, BATCHES = st.sampled_from(["kn", "nk"]), st.sampled_from([0, 1, 3])
SIZES = st.integers(6, 90)
named = pytest.mark.parametrize("family", FRESH, ids=lambda family: family.name)


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Tiles are emulated."""
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")


def payload_of(sizes, layout, batch):
    return contraction_payload(*sizes, batch=batch, b=layout)


@settings(max_examples=1, deadline=None)
@given(family=st.sampled_from(TILED), sizes=st.tuples(SIZES, SIZES, SIZES), layout=LAYOUTS, batch=BATCHES)
@example(family=TILED[0], sizes=(37, 53, 71), layout="nk", batch=0)
@example(family=TILED[1], sizes=(33, 17, 129), layout="kn", batch=2)
@example(family=TILED[2], sizes=(6, 70, 1), layout="kn", batch=0)
@example(family=TILED[2], sizes=(50, 2, 65), layout="nk", batch=2)
def test_products_of_any_size_have_the_bits_of_the_unit(family, sizes, layout, batch):
    if batch and sizes[2] == 1:
        return  # no product of matrices
    payload = payload_of(sizes, layout, batch)
    inputs = payload.make_inputs(0)
    (got,) = computed(family, payload, inputs)
    for a, b, c in matrices(inputs, got, turned=layout == "nk"):
        np.testing.assert_array_equal(c, by_unit(family.precision, a, b))


@pytest.mark.skipif(not here, reason="needs AVX512-BF16")
@settings(max_examples=1, deadline=None)
@given(number=st.integers(0, 2), sizes=st.tuples(SIZES, SIZES, SIZES), layout=LAYOUTS, batch=BATCHES)
@example(number=0, sizes=(37, 53, 71), layout="nk", batch=0)
@example(number=1, sizes=(33, 17, 129), layout="kn", batch=2)
@example(number=2, sizes=(1, 70, 1), layout="kn", batch=0)
def test_vectors_multiply_the_words_of_a_weight(number, sizes, layout, batch):
    if batch and sizes[2] == 1:
        return
    family, inputs = here[number], payload_of(sizes, layout, batch).make_inputs(0)
    (got,) = computed(family, payload_of(sizes, layout, batch), inputs)
    for a, b, c in matrices(inputs, got, turned=layout == "nk"):
        weight = contraction_payload(*sizes, role_b="weight")
        (same,) = computed(family, weight, {"a": a, "b": np.ascontiguousarray(b)})
        np.testing.assert_array_equal(c, same)
        np.testing.assert_allclose(c, product(family.precision, a, b), rtol=0, atol=3e-6 * sizes[2])


@named
@pytest.mark.parametrize("layout", ["kn", "nk"])
def test_what_is_no_number_stays_none_in_its_column(family, layout):
    if family in VECTORS and family not in here:
        pytest.skip(family.precision.lacking)
    payload = payload_of((7, 20, 41), layout, 0)
    inputs = payload.make_inputs(0)
    for column, strange in ((3, np.nan), (18, np.inf)):
        inputs["b"][(40, column) if layout == "kn" else (column, 40)] = strange
    (got,) = computed(family, payload, inputs)
    assert not np.isfinite(got[:, [3, 18]]).any()
    assert np.isfinite(np.delete(got, [3, 18], axis=1)).all()


@pytest.mark.parametrize("layout", ["kn", "nk"])
@pytest.mark.parametrize("columns", [64, 32])
def test_a_block_of_columns_is_packed_in_the_loop_over_them(layout, columns):
    family, payload, machine = TILED[2], payload_of((40, 192, 70), layout, 0), XEON.machine
    (task,) = partition(payload).tasks
    config = {"register_n": columns // 16, "register_m": 32 * 32 // columns, "tile_n": 64, "order": "nmk"}
    script = family.build(task, {**family.default(task, machine), **config}, machine)
    assert script.count("fuse_into_containing_op") == 1
    inputs = payload.make_inputs(0)
    (got,) = computed(family, payload, inputs, **config)
    ((a, b, c),) = matrices(inputs, got, turned=layout == "nk")
    np.testing.assert_array_equal(c, by_unit(family.precision, a, b))


@pytest.mark.parametrize(
    ("spec", "number", "fuse"),
    [("heads=2,seq=32,d=16", 0, True), ("heads=3,seq=50,d=24,causal=1", 1, True), ("heads=2,seq=48,d=16", 2, False)],
)
def test_both_products_of_attention_are_rounded(spec, number, fuse):
    payload = load_payload(f"attention,{spec}")
    (task,) = partition(payload).tasks
    inputs = payload.make_inputs(0)
    (exact,) = payload.reference(**inputs)
    family = TILED[number]
    change = {} if fuse else {"fuse": False, "rows": task.nest.sizes[1]}
    (got,) = computed(family, payload, inputs, **change)
    off = np.abs(got - exact).max() / np.abs(exact).max()
    low, high = {1: (1e-5, 1e-2), 2: (1e-8, 2e-5), 3: (0, 1e-6)}[family.precision.parts]
    assert low <= off < high


def test_attention_by_a_script_rounds_scores_in_the_block_of_rows_that_they_are_in():
    (task,) = partition(load_payload("attention,heads=2,seq=64,d=32,causal=1")).tasks
    family = TILED[2]
    step = write_step(task, family, family.default(task, XEON.machine), XEON.machine, alone=True)
    assert "online" not in {knob.name for knob in family.space(task, XEON.machine).knobs}
    before = compile_to("script", task.payload, candidate_alone(step)).text
    loops, packed = before.index("scf.for"), before.index("autotune.words_of_b")
    assert before.count("autotune.words_of_b") == 2
    assert loops < packed < before.index("scf.for", loops + 1)


@pytest.mark.parametrize("layout", ["kn", "nk"])
@pytest.mark.parametrize("change", [{"tile_m": 32, "order": "mnk"}, {"tile_n": 64, "order": "nmk"}], ids=str)
def test_blocks_of_caches_read_the_same_words(layout, change):
    payload = payload_of((80, 150, 40), layout, 0)
    inputs = payload.make_inputs(0)
    (got,) = computed(TILED[2], payload, inputs, register_m=32, register_n=2, **change)
    ((a, b, c),) = matrices(inputs, got, turned=layout == "nk")
    np.testing.assert_array_equal(c, by_unit(TILED[2].precision, a, b))


# Text: also where the instructions are not.


def candidate_of(family, machine, layout, batch=0):
    (task,) = partition(payload_of((64, 64, 256), layout, batch)).tasks
    step = write_step(task, family, family.default(task, machine), machine, alone=True)
    return task.payload, candidate_alone(step)


@named
@pytest.mark.parametrize("batch", [0, 2])
def test_the_step_before_a_script_shows_what_is_packed(family, batch):
    payload, candidate = candidate_of(family, MACHINES["avx512"], "kn", batch)
    assert candidate.panels == ()
    before = compile_to("panels", payload, candidate).text
    assert before.count("autotune.narrow") == 3
    assert before.count('autotune.words_of_b = "kn"') == 1
    assert before.count("scf.for") == bool(batch)
    assert "autotune.narrow" not in compile_to("panel-loads", payload, candidate).text


@pytest.mark.parametrize("layout", ["kn", "nk"])
def test_rows_are_transposed_in_registers_and_tiles_are_not_spilled(layout):
    family = next(family for family in TILED if family.name == "tile_bf16")
    payload, candidate = candidate_of(family, XEON.machine, layout)
    text = disassemble(emit_program(Emission(Claim(payload, candidate), "object", XEON)).data, payload.entry)
    assert len(re.findall("tdpbf16ps", text)) >= 4
    assert not re.findall(r"tilestored[^\n]*\(%rsp", text)
    assert "vgather" not in text
    assert layout == "kn" or len(re.findall(r"vpermt2|vpunpck|vinsert|vshuf", text)) >= 48
