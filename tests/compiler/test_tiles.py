"""Products by a matrix unit: bit for bit what its sums are, which instructions they become, who may run them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from precision_support import WORDS, by_unit, computed, error_of_whole
from tuning_support import MACHINES, contraction_payload

from autotune import tensor
from autotune.bundles.call import compile_candidate
from autotune.compiler.codegen.object_code import disassemble
from autotune.compiler.lowering.emit import Emission, emit_program
from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.tasks.partition import partition
from autotune.contrib.targets.target_file import SHIPPED, find_target, read_target
from autotune.core.candidate import Claim
from autotune.core.errors import CompileError, MachineError
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import are_emulated, ask_for_tiles, describe_unit, has_unit, why_no_tiles
from autotune.core.precision import INT16
from autotune.core.scripts.assembly import precisions_in, write_step
from autotune.registry import family_for, load_family, load_payload
from autotune.tuning.candidates import candidate_alone, candidate_whole, default_candidate
from autotune.worker.loading.reading import open_payload
from schedules.fused import FUSED
from schedules.matmul_space import fits_unit, tiles_of

TILED = [family for family in WORDS if family.precision.by_tiles]
SHAPES = ((32, 32), (16, 64), (48, 16), (16, 48), (32, 16), (16, 16))  # of register tiles
XEON = find_target("sapphirerapids")
of_every_kind = pytest.mark.parametrize("family", TILED, ids=lambda family: family.name)
SIZES = st.integers(1, 90)


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Tiles are emulated."""
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")


def check(family, m, n, k, *, scale=1.0, **config):
    payload = contraction_payload(m, n, k, role_b="weight")
    inputs = payload.make_inputs(0)
    inputs["a"] *= np.float32(scale)
    (got,) = computed(family, payload, inputs, **config)
    np.testing.assert_array_equal(got, by_unit(family.precision, inputs["a"], inputs["b"]))


STORED = """
func.func @stored(%a: tensor<19x70xf32>, %b: tensor<70x33xT> {autotune.role = "weight"}) -> tensor<19x33xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<19x33xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<19x33xf32>) -> tensor<19x33xf32>
  %m = linalg.matmul ins(%a, %b : tensor<19x70xf32>, tensor<70x33xT>) outs(%i : tensor<19x33xf32>) -> tensor<19x33xf32>
  return %m : tensor<19x33xf32>
}
"""


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_a_weight_that_is_stored_in_halves_is_multiplied_as_one_of_f32(kind, tmp_path):
    (tmp_path / "stored.mlir").write_text(STORED.replace("T>", f"{kind}>").replace("T {", f"{kind} {{"))
    payload = open_payload(str(tmp_path / "stored.mlir"))
    (task,) = partition(payload).tasks
    able = [family for family in TILED if family.covers(task)]  # others round it in f32
    assert [family.name for family in able] == ["tile_bf16x2"] * (kind == "f16") + ["tile_bf16"]
    inputs = payload.make_inputs(0)
    a, b = inputs.values()
    for family in able:
        (got,) = computed(family, payload, inputs)
        np.testing.assert_array_equal(got, by_unit(family.precision, a, b.astype(np.float32)))


@settings(max_examples=2, deadline=None)
@given(family=st.sampled_from(TILED), m=SIZES, n=st.integers(2, 90), k=SIZES)
@example(family=TILED[0], m=1, n=2, k=1)
@example(family=TILED[1], m=37, n=53, k=70)
@example(family=TILED[2], m=33, n=17, k=129)
@example(family=TILED[3], m=50, n=70, k=65)
def test_products_of_any_size_have_the_bits_of_the_unit(family, m, n, k):
    check(family, m, n, k)


@pytest.mark.parametrize(("number", "shape"), list(enumerate(SHAPES)), ids=str)
def test_register_tiles_of_every_shape_have_them(number, shape):
    rows, columns = shape
    check(TILED[number % len(TILED)], 52, 70, 40, register_m=rows, register_n=columns // 16)


@pytest.mark.parametrize("change", [{"tile_m": 32, "order": "mnk"}, {"tile_n": 64, "order": "nmk"}], ids=str)
def test_blocks_of_caches_have_them(change):
    check(TILED[2], 80, 150, 40, register_m=32, register_n=2, **change)


@pytest.mark.skipif(not ask_for_tiles(), reason="needs a matrix unit")
@of_every_kind
def test_the_unit_itself_has_them(family, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_TILES", "")
    for sizes, scale in (
        ((37, 53, 70), 2.0**-100),
        ((64, 128, 256), 1.0),
        ((5, 9, 30), 2.0**-100),
        ((129, 65, 1030), 1.0),
    ):
        check(family, *sizes, scale=scale)


@pytest.mark.parametrize("scale", [2.0**-120, 2.0**-135])
def test_what_is_too_small_is_zero(scale):
    check(next(f for f in TILED if f.name == "tile_bf16"), 5, 9, 30, scale=scale)


@of_every_kind
def test_a_group_has_its_epilogue_in_f32_behind_the_unit(family):
    off = error_of_whole(family, "gpt,seq=24,d_model=32,layers=1,heads=2,d_ff=80,vocab=50,positions=24")
    assert off < {"tile_bf16x3": 1e-6, "tile_bf16x2": 3e-5}.get(family.name, 0.05)


@pytest.mark.parametrize("weights", ["bf16", "int8"])
def test_a_model_whose_weights_are_stored_in_less_has_its_products_by_tiles(weights):
    spec = "gpt,seq=24,d_model=32,layers=1,heads=2,d_ff=80,vocab=50,positions=24"
    assert error_of_whole(load_family("tile_bf16"), f"{spec},weights={weights}") < 0.05


def test_split_products_are_as_exact_as_their_parts_allow():
    payload = contraction_payload(20, 24, 300, role_b="weight")
    inputs = payload.make_inputs(0)
    exact = inputs["a"].astype("f8") @ inputs["b"].astype("f8")
    size = np.abs(inputs["a"]).astype("f8") @ np.abs(inputs["b"]).astype("f8")
    for family in TILED:
        if family.precision.most:
            continue
        (got,) = computed(family, payload, inputs)
        parts = family.precision.parts
        bound = (parts + 2) * family.precision.error + 300 * 2.0**-24
        assert (np.abs(got - exact) <= bound * size).all()
        assert parts == 3 or np.abs(got - exact).max() > 2.0**-24 * size.max() * 2.0 ** (3 * (3 - parts)) / 300


# Code for a processor that has the unit.


def code_for(family, target, spec="matmul,m=64,n=64,k=256,constant_b=1", **config):
    (task,) = partition(load_payload(spec)).tasks
    machine = target.machine
    step = write_step(task, family, {**family.default(task, machine), **config}, machine, alone=True)
    found = emit_program(Emission(Claim(task.payload, candidate_alone(step)), "object", target))
    return found, disassemble(found.data, task.payload.entry)


@of_every_kind
def test_a_processor_with_the_unit_gets_its_instructions_configured_once_and_without_a_spill(family):
    _, text = code_for(family, XEON)
    dots = re.findall(r"tdpbssd|tdpbf16ps", text)
    assert set(dots) == {"tdpbssd" if family.precision.most else "tdpbf16ps"}
    assert len(re.findall("ldtilecfg", text)) == 1
    spilled = len(re.findall(r"tilestored[^\n]*\(%rsp", text))
    assert spilled <= (len(dots) / 24 if family.precision.parts == 3 else 0), "all eight hold something there"
    wanted = {"tile_bf16x3": 14 / 24, "tile_bf16x2": 8 / 12}.get(family.name, 1.0)
    loads = text.count("tileloadd") - spilled
    assert loads == pytest.approx(wanted * len(dots)), "four for four products, and fewer where parts stay loaded"


@pytest.mark.parametrize("order", ["mn", "nm"])
def test_only_what_the_next_tile_needs_again_is_kept_in_l1(order):
    family = next(f for f in TILED if f.name == "tile_bf16")
    _, text = code_for(family, XEON, "matmul,m=256,n=256,k=64,constant_b=1", register_order=order)
    assert text.count("tileloaddt1") == len(re.findall(r"tileloadd\b", text)) > 0


@pytest.mark.parametrize(("words", "apart"), [(128, 144), (144, 144), (160, 176)])
def test_rows_of_a_tile_lie_in_sets_of_their_own_and_results_where_they_are_wanted(words, apart):
    parts = partition(load_payload(f"matmul,m=512,n=32,k={2 * words},constant_b=1"))
    family = next(f for f in TILED if f.name == "tile_bf16")
    (task,) = parts.tasks
    step = write_step(task, family, family.default(task, XEON.machine), XEON.machine)
    whole = candidate_whole([step], 1, parts.payload.text)
    found = emit_program(Emission(Claim(parts.payload, whole), "object", XEON))
    assert (found.arena_bytes, found.allocations) == (4 * 512 * apart, 0)


def test_a_group_that_shrinks_its_empty_tensors_leaves_rows_apart():
    family = next(f for f in TILED if f.name == "tile_bf16")
    parts = partition(load_payload("gpt,seq=32,d_model=256,layers=1,heads=2,d_ff=32,vocab=48,positions=32"))
    groups = [task for task in parts.tasks if task.is_group and task.contractions and family.covers(task)]
    task = next(task for task in groups if task.contractions[0].constant_b and task.contractions[0].k == 256)
    step = write_step(task, family, family.default(task, XEON.machine), XEON.machine, alone=True)
    assert "strided<[144, 1]" in compile_to("arena", task.payload, candidate_alone(step)).text


def test_an_object_asks_for_the_registers_when_it_is_loaded():
    family = TILED[-1]
    found, _ = code_for(family, XEON)
    assert b".init_array" in found.data
    assert "x86.tileloadd64.internal" in found.intrinsics
    plain, text = code_for(family, replace(XEON, machine=MACHINES["avx512"]))
    assert b".init_array" not in plain.data
    assert "tileloadd" not in text


# Who may run them, and who says there is a unit.


def test_a_space_has_whole_tiles_that_fit_the_unit():
    (task,) = partition(contraction_payload(100, 100, 64, role_b="weight")).tasks
    for family in TILED:
        space = family.space(task, XEON.machine)
        (c,) = family.inner(task)[1].contractions
        values = {knob.name: knob.values for knob in space.knobs}
        able = (
            {"register_m": rows, "register_n": vectors, "vector_width": 16}
            for rows in values["register_m"]
            for vectors in values["register_n"]
        )
        found = {tiles_of(c, config) for config in able if fits_unit(c, config)}
        assert found == {(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (3, 1)}
        assert tiles_of(c, family.default(task, XEON.machine)) == (2, 2)


def test_a_machine_without_the_unit_is_told_in_one_line(monkeypatch):
    assert are_emulated()
    assert why_no_tiles() == ""
    assert "as the environment asks" in describe_unit()
    monkeypatch.setenv("AUTOTUNE_TILES", "")
    if has_unit():
        return
    assert re.fullmatch("products by tiles need a CPU with amx_tile, .* AUTOTUNE_TILES=emulate .*", why_no_tiles())
    assert describe_unit() == "none"
    payload = contraction_payload(8, 8, 8, role_b="weight")
    with pytest.raises(CompileError, match="products by tiles need a CPU with amx_tile"):
        computed(TILED[0], payload, payload.make_inputs(0))


def test_the_environment_asks_for_what_there_is(monkeypatch):
    monkeypatch.setenv("AUTOTUNE_TILES", "yes")
    with pytest.raises(MachineError, match="AUTOTUNE_TILES must be 'emulate' or empty, got 'yes'"):
        are_emulated()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("avx512f", "avx2"), "tiles of amx need isa avx512f of x86_64, got avx2 of x86_64"),
        (('tiles = "amx"', 'tiles = "sme"'), "tiles must be 'amx', got 'sme'"),
        (('tiles = "amx"', "tiles = 8"), "tiles must be 'amx', got 8"),
    ],
)
def test_a_machine_file_must_have_vectors_beside_its_tiles(change, message):
    with pytest.raises(MachineError, match=message):
        read_target((SHIPPED / "sapphirerapids.toml").read_text().replace(*change), "mine.toml")


def test_machines_with_and_without_tiles_are_not_compared():
    plain = MACHINES["avx512"]
    assert len({replace(plain, tiles=tiles).fingerprint for tiles in ("", "amx", "emulated")}) == 3


@pytest.mark.skipif(bool(INT16.lacking), reason=INT16.lacking or "here")
def test_emulated_tiles_and_dot_products_of_vectors_are_in_one_program():
    """Nothing is left that the passes must free, which know no side effects of the latter's instructions."""
    payload = load_payload("gpt,d_model=32,heads=2,d_ff=64,vocab=40,seq=8,layers=1")
    names = iter(("tile_bf16", "int16") * 8)

    def mixed(task, machine):
        family = load_family(next(names)) if task.contractions else None
        return family if family is not None and family.covers(task) else family_for(task, machine)

    candidate = default_candidate(partition(payload), this_machine(), mixed)
    assert {"tile_bf16", "int16"} <= {*precisions_in(candidate.script)}
    assert not compile_candidate(payload, candidate).buffers.others


def test_a_product_whose_rows_are_needed_whole_has_a_default():
    arrays = [np.ones(shape, np.float32) for shape in ((3, 40, 24), (3, 24, 48))]
    payload = tensor.payload(lambda a, b: tensor.softmax(tensor.matmul(a, b)), *arrays)
    (task,) = partition(payload).tasks
    assert "columns" not in {knob.name for knob in TILED[0].space(task, this_machine()).knobs}
    (found,), (exact,) = (computed(each, payload, payload.make_inputs(0)) for each in (TILED[0], FUSED))
    assert 0 < np.abs(found - exact).max() < 1e-2
