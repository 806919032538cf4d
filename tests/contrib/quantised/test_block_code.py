"""Products with weights in blocks by code of ours: what is rounded, bit for bit, with and without the instructions."""

from dataclasses import replace
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from bundle_support import make_bundle
from precision_support import computed
from tuning_support import MACHINES, run

import autotune as at
from autotune.bundles.candidates import recorded_candidate
from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.lowering.emit import Emission, emit_program
from autotune.compiler.passes.pipelines import tail
from autotune.compiler.tasks.partition import partition
from autotune.contrib.quantised.family import BLOCKS
from autotune.contrib.quantised.panel_family import BLOCK_PANELS
from autotune.contrib.quantised.rounded_family import BLOCK_DOTS, BLOCK_TILES, BLOCK_WIDENED_TILES
from autotune.contrib.quantised.widened_family import WIDENED_BLOCKS
from autotune.contrib.targets.target_file import find_target
from autotune.core.candidate import Claim
from autotune.core.errors import BundleError, CompileError
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import ask_for_tiles
from autotune.core.payload import Argument, Payload
from autotune.core.scripts.assembly import assemble, write_step
from autotune.registry import rounding_families
from autotune.store.bundle import read_bundle
from autotune.tuning.candidates import candidate_whole
from payload.block_products import StoredBlocks, multiply_blocks
from payload.blocks import FORMATS, format_named
from payload.builder import write_function, write_module

XEON = find_target("sapphirerapids")
ROUNDED = (BLOCK_DOTS, BLOCK_TILES, BLOCK_PANELS)
ALL = (BLOCKS, *ROUNDED, BLOCK_WIDENED_TILES, WIDENED_BLOCKS)
FEW_ROWS = ((1, 6, 128), (1, 5, 416), (3, 4, 96), (8, 6, 32), (7, 1, 544))
of_every_family = pytest.mark.parametrize("family", ROUNDED, ids=lambda family: family.name)


def in_turn(ways, of_each=1):
    """Formats by ways, so many of the ways with each format: each way has some formats, and each format some ways."""
    apart = len(ways) // of_each
    return [(form, way) for i, form in enumerate(FORMATS) for j, way in enumerate(ways) if (i + j) % apart == 0]


def with_formats(*shapes, first=0, step=2):
    """Formats by shapes, one shape in so many with each, others with the next."""
    pairs = [(form, *shape) for i, form in enumerate(FORMATS) for shape in shapes[(first + i) % step :: step]]
    return pytest.mark.parametrize(("form", "m", "n", "k"), pairs)


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Tiles are emulated."""
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")


def product(m=1, n=16, k=128, form="q4_0"):
    whole = format_named(form).whole_rows
    return at.payload(f"qmatmul,m={m},n={n},k={-(-k // whole) * whole},format={form}")


def in_steps(x, block):
    """Activations rounded to 127 steps of the largest of a block, which are numbers of f32."""
    blocks = x.reshape(len(x), -1, block)
    largest = np.abs(blocks).max(axis=2, keepdims=True)
    steps = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 0)
    whole = np.rint(blocks.astype("f8") * steps)
    return (whole * (largest * np.float32(1 / 127)).astype("f8")).reshape(x.shape)


def rounded_product(form, given):
    """What is computed, in float64: whole numbers by rounded activations, less least numbers by exact ones."""
    kept, rounded = format_named(form), in_steps(given["x"], format_named(form).block)
    weight = kept.restore("w", given)
    if not kept.least:
        return rounded @ weight.T
    least = np.repeat(kept.number("w_least", given), kept.block, axis=1)
    return rounded @ (weight + least).T - given["x"].astype("f8") @ least.T


def check(family, payload, form, inputs=None, **config):
    given = inputs or payload.make_inputs(0)
    (found,) = computed(family, payload, given, **config)
    wanted = rounded_product(form, given)
    assert np.abs(found - wanted).max() < 3e-6 * np.abs(wanted).max()
    return found


@with_formats(*FEW_ROWS)
def test_few_rows_are_multiplied_in_steps(form, m, n, k):
    check(BLOCK_DOTS, product(m, n, k, form), form)


@with_formats(*FEW_ROWS, first=1)
def test_few_rows_are_multiplied_in_f32(form, m, n, k):
    check_in_f32(form, m, n, k)


@with_formats(*FEW_ROWS, step=len(FEW_ROWS))
def test_few_rows_are_multiplied_in_f32_a_column_at_a_time(form, m, n, k):
    check_in_f32(form, m, n, k, columns=1, unroll=4, ahead=0)


def check_in_f32(form, m, n, k, **config):
    payload = product(m, n, k, form)
    given = payload.make_inputs(0)
    (found,), (wanted,) = computed(BLOCKS, payload, given, **config), payload.reference(**given)
    assert np.abs(found - wanted).max() < 1e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("form", ["q4_0", "q4_k"])
def test_nibbles_are_the_same_by_a_table_and_by_arithmetic(form):
    if this_machine().isa != "avx512f":
        pytest.skip("needs the instruction")
    payload = product(3, 6, 544, form)
    given = payload.make_inputs(0)
    (by_table,), (by_arithmetic,) = (computed(BLOCKS, payload, given, lookup=lookup) for lookup in (True, False))
    np.testing.assert_array_equal(by_table, by_arithmetic)


@with_formats((8, 16, 128), (37, 48, 416), (16, 32, 96))
def test_many_rows_are_multiplied_by_tiles_in_steps(form, m, n, k):
    check(BLOCK_TILES, product(m, n, k, form), form)


@with_formats((16, 16, 32), (37, 48, 416), (21, 32, 1056), (16, 32, 96), first=1)
def test_many_rows_are_multiplied_by_panels_in_steps(form, m, n, k):
    check(BLOCK_PANELS, product(m, n, k, form), form)


@pytest.mark.parametrize("form", ["q4_0", "q4_k", "q8_0"])
def test_panels_of_pieces_of_a_row_add_up(form):
    check(BLOCK_PANELS, product(19, 32, 1120, form), form, columns=32, rows=4, vectors=2, piece=2)


@pytest.mark.parametrize(
    ("family", "config"),
    [
        (BLOCK_DOTS, {"columns": 8, "unroll": 1, "rows": 2, "ahead": 1024}),
        (BLOCK_DOTS, {"columns": 1, "unroll": 4, "rows": 4}),
        (BLOCK_TILES, {"columns": 16, "unroll": 1}),
        (BLOCK_TILES, {"columns": 64, "unroll": 4}),
        (BLOCK_PANELS, {"columns": 16, "rows": 14, "vectors": 1, "piece": 32}),
        (BLOCK_PANELS, {"columns": 64, "rows": 2, "vectors": 4, "piece": 2}),
    ],
    ids=str,
)
def test_knobs_change_no_result(family, config):
    check(family, product(16, 64, 256), "q4_0", **config)


# Few: LLVM unrolls steps.
WAYS = ((BLOCK_DOTS, {}), (BLOCK_PANELS, {"columns": 16, "rows": 2, "vectors": 1, "piece": 32}))


@pytest.mark.parametrize(("form", "way"), in_turn(WAYS))
def test_the_instructions_give_the_bits_of_their_emulation(form, way, monkeypatch):
    family, config = way
    payload = product(16, 16, 160, form)
    inputs = payload.make_inputs(0)
    (by_instruction,) = computed(family, payload, inputs, **config)
    monkeypatch.setattr("autotune.compiler.passes.rounding.cpu_flags", frozenset)
    (emulated,) = computed(family, payload, inputs, **config)
    np.testing.assert_array_equal(by_instruction, emulated)


@pytest.mark.parametrize(("form", "family"), in_turn((BLOCK_TILES, BLOCK_WIDENED_TILES)))
def test_a_matrix_unit_gives_the_bits_of_its_emulation(form, family, monkeypatch):
    if not ask_for_tiles():
        pytest.skip("needs a matrix unit")
    payload = product(21, 16, 160, form)
    inputs = payload.make_inputs(0)
    (emulated,) = computed(family, payload, inputs)
    monkeypatch.setenv("AUTOTUNE_TILES", "")
    (by_unit,) = computed(family, payload, inputs)
    np.testing.assert_array_equal(by_unit, emulated)


@of_every_family
def test_the_whole_range_of_bytes_is_multiplied(family):
    payload = product(16, 16, 64, "q8_0")
    inputs = payload.make_inputs(0)
    inputs["w"][...] = np.resize(np.array([-128, 127, -1, 0], np.int8), inputs["w"].shape)
    inputs["x"][...] = np.resize(np.array([1, -1, 0.5], np.float32), inputs["x"].shape)
    check(family, payload, "q8_0", inputs)


@of_every_family
def test_zeros_and_what_is_no_number_stay(family):
    payload = product(16, 16, 64, "q4_0")
    inputs = payload.make_inputs(0)
    inputs["x"][0] = 0
    inputs["x"][1, 3] = np.nan
    (found,) = computed(family, payload, inputs)
    assert not found[0].any()
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[2:]).all()


@pytest.mark.parametrize(("form", "family"), in_turn(ALL, of_each=2))
def test_a_task_alone_computes_the_same(form, family):
    """Whole payloads have every family with every format, above and below."""
    payload, given, exact = alone(form)
    (found,) = computed(family, payload, given)
    assert np.abs(found - exact).max() < 0.02 * np.abs(exact).max()


@cache
def alone(form):
    """The task of a product, its inputs, and what it gives of the weights as they are."""
    (task,) = partition(product(16, 16, 96, form)).tasks
    given = task.payload.make_inputs(0)
    return task.payload, given, computed(BLOCKS, task.payload, given)[0]


@with_formats((8, 16, 32), (37, 48, 416), (64, 32, 272))
def test_tiles_of_bf16_multiply_rounded_operands(form, m, n, k):
    kept, payload = format_named(form), product(m, n, k, form)
    given = payload.make_inputs(0)
    (found,) = computed(BLOCK_WIDENED_TILES, payload, given)
    pair = given["x"], kept.restore("w", given).astype("f4")
    operands = [each.astype(ml_dtypes.bfloat16).astype("f8") for each in pair]
    wanted = operands[0] @ operands[1].T
    assert np.abs(found - wanted).max() < 2e-4 * np.abs(wanted).max()


PIECES = ((512, 256, 16), (0, 512, 32), (1024, 0, 32))


@pytest.mark.parametrize(("number", "form"), list(enumerate(FORMATS)))
def test_pieces_of_a_row_have_the_same_sums(number, form):
    """Sums that wait between pieces are not rounded, so the bits are those of a row in one piece.

    Each format has two of three kinds of pieces.
    """
    payload = product(37, 32, 1280 if format_named(form).group else 1312, form)
    given = payload.make_inputs(0)
    (whole,) = computed(BLOCK_WIDENED_TILES, payload, given, tile_k=0, piece=0)
    stream = bool(number % 2)
    for tile_k, piece, columns in (PIECES[number % len(PIECES)], PIECES[(number + 1) % len(PIECES)]):
        config = {"tile_k": tile_k, "piece": piece, "columns": columns, "stream": stream}
        (found,) = computed(BLOCK_WIDENED_TILES, payload, given, **config)
        assert (found == whole).all()


def test_results_that_pass_by_the_caches_are_intermediates_like_others():
    """What asks where a buffer begins keeps no hold of it: nothing is left to allocate and free in a call."""
    form = format_named("q4_0")
    arguments = (
        Argument("x", "input", (37, 64)),
        *form.declare("v", (64, 64), 1.0),
        *form.declare("w", (32, 64), 1.0),
        Argument("y", "output", (37, 32)),
    )

    def body(f, tensors):
        between = multiply_blocks(f, tensors["x"], StoredBlocks.named(form, tensors, "v"), "between")
        return [multiply_blocks(f, between, StoredBlocks.named(form, tensors, "w"), "y")]

    text = write_module(write_function("chain", arguments, body))
    payload = Payload(name="chain", text=text, entry="chain", arguments=arguments, flops=1.0)
    given = payload.make_inputs(0)
    found = [computed(BLOCK_WIDENED_TILES, payload, given, stream=stream)[0] for stream in (False, True)]
    assert (found[0] == found[1]).all()


def test_a_piece_of_a_row_is_what_a_cache_holds():
    (task,) = partition(product(512, 64, 4096)).tasks
    machine = MACHINES["avx512"]
    depth = BLOCK_WIDENED_TILES.default(task, machine)["tile_k"]
    assert 0 < 512 * depth * 2 <= machine.l2_bytes // 2


@with_formats((16, 16, 32), (21, 48, 416), (64, 32, 1056))
def test_widened_panels_give_the_product(form, m, n, k):
    payload = product(m, n, k, form)
    given = payload.make_inputs(0)
    (found,), (wanted,) = computed(WIDENED_BLOCKS, payload, given), payload.reference(**given)
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("config", [{"rows": 4, "vectors": 1, "piece": 8}, {"columns": 16, "vectors": 1, "piece": 64}])
def test_widened_panels_of_every_size_give_it(config):
    payload = product(37, 64, 416)
    given = payload.make_inputs(0)
    (found,), (wanted,) = computed(WIDENED_BLOCKS, payload, given, **config), payload.reference(**given)
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_defaults_are_valid_on_every_machine(family, threads):
    (task,) = partition(product(16, 96, 416)).tasks
    for machine in MACHINES.values():
        here = replace(machine, threads=threads)
        space, default = family.space(task, here), family.default(task, here)
        assert space.broken_constraint(default) is None
        assert default.get("pieces_n", 1) == (threads if 96 // threads % 16 == 0 else default.get("pieces_n", 1))
        assert family.build(task, default, here)


@pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_threads_share_columns(family):
    payload = product(16, 64, 128)
    parts = partition(payload)
    (task,) = parts.tasks
    machine, given = this_machine(2), payload.make_inputs(0)
    step = write_step(task, family, family.default(task, machine), machine)
    assert step.config["pieces_n"] == 2
    (together,) = run(payload, given, assemble([step]), tail(2), text=parts.payload.text)
    (alone,) = computed(family, payload, given)
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)


def test_activations_are_rounded_only_where_an_error_is_allowed():
    assert set(ROUNDED) <= set(rounding_families())
    (few,), (many,) = (at.tasks(product(rows, 32, 128)) for rows in (1, 16))
    assert (few.family().name, many.family().name) == ("blocks", "blocks_widened")
    assert BLOCKS.error == WIDENED_BLOCKS.error == 0 < BLOCK_DOTS.error


def test_other_sums_over_bytes_are_refused_in_a_line(monkeypatch):
    monkeypatch.setattr("payload.block_products.widen_bytes", absolute_bytes)
    payload = product(16, 16, 128, "q8_0")
    with pytest.raises(CompileError, match="a product in blocks must be one of those of qmatmul, it computes"):
        computed(BLOCK_DOTS, payload, payload.make_inputs(0))


def absolute_bytes(count):
    """Bytes whose signs are lost."""
    found = []
    for i in range(count):
        found += [f"%a{i} = math.absi %w{i} : i8", f"%f{i} = arith.sitofp %a{i} : i8 to f32"]
    return found


@pytest.mark.parametrize("family", [BLOCK_TILES, BLOCK_WIDENED_TILES], ids=lambda family: family.name)
def test_an_object_asks_for_a_matrix_unit_that_its_blocks_need(family):
    parts = partition(product(16, 32, 128))
    (task,) = parts.tasks
    step = write_step(task, family, family.default(task, XEON.machine), XEON.machine)
    claim = Claim(parts.payload, candidate_whole([step], 1, parts.payload.text))
    code = emit_program(Emission(claim, "object", XEON)).data
    assert b".init_array" in code
    plain = emit_program(Emission(claim, "object", replace(XEON, machine=MACHINES["avx512"]))).data
    assert b".init_array" not in plain


def test_a_bundle_of_blocks_by_tiles_is_refused_where_there_are_none(tmp_path, monkeypatch):
    bundle = read_bundle(make_bundle(tmp_path, "qmatmul,m=16,n=16,k=64"))
    ((tag, task),) = bundle.manifest.tasks.items()
    of_tiles = {tag: replace(task, schedule=BLOCK_TILES.name)}
    tiled = replace(bundle, manifest=replace(bundle.manifest, tasks=of_tiles))
    assert recorded_candidate(tiled).script is not None  # they are emulated here
    monkeypatch.setenv("AUTOTUNE_TILES", "")
    if not ask_for_tiles():
        with pytest.raises(BundleError, match="cannot run here: products by tiles need"):
            recorded_candidate(tiled)
