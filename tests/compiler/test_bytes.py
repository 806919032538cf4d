"""Products of bytes by a weight of bytes, summed in 32 bits: exact by every family, at every size."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from precision_support import computed
from tuning_support import MACHINES, product_of_bytes

from autotune.compiler.lowering.stages import compile_to
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import ask_for_tiles
from autotune.core.precision import BYTES
from autotune.core.scripts.assembly import write_step
from autotune.registry import families_for, family_for, load_family
from autotune.tuning.candidates import candidate_alone
from schedules.narrow import NARROW_BYTES, TILED_BYTES

SIZES, COLUMNS = st.integers(1, 70), st.integers(2, 70)
LEAST = -128


def assert_exact(family, a, b, **config):
    (got,) = computed(family, product_of_bytes(len(a), b.shape[1], len(b)), {"a": a, "b": b}, **config)
    np.testing.assert_array_equal(got, a.astype(np.int64) @ b.astype(np.int64))


def random_bytes(*shape):
    return np.random.default_rng(0).integers(LEAST, -LEAST, shape).astype(np.int8)


@pytest.fixture(params=[NARROW_BYTES, TILED_BYTES], ids=lambda family: family.name)
def family(request, monkeypatch):
    """A family of exact products; tiles are emulated."""
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")
    if request.param.lacking:
        pytest.skip(request.param.lacking)
    return request.param


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(m=SIZES, n=COLUMNS, k=SIZES)
@example(m=1, n=2, k=1)
@example(m=13, n=70, k=66)
@example(m=3, n=33, k=257)
def test_dot_products_are_exact(family, m, n, k):
    rows, length = (least - 1 for least in family.precision.worth)
    assert_exact(family, random_bytes(m + rows, k + length), random_bytes(k + length, n))


@pytest.mark.parametrize("ends", [(-128, -128), (-128, 127), (127, -128), (127, 127)])
def test_the_largest_sums_are_exact(family, ends):
    of_a, of_b = ends
    assert_exact(family, np.full((9, 700), of_a, np.int8), np.full((700, 20), of_b, np.int8))


@pytest.mark.parametrize("b", ["kn", "nk"])
@pytest.mark.parametrize("sizes", [(0, 8, 33, 70), (3, 17, 16, 130), (2, 9, 70, 35), (0, 8, 17, 64)])
def test_a_b_that_a_call_packs_is_exact(family, sizes, b):
    """Rows that are interleaved and columns that are turned, whole panels and the rest of one."""
    batch, m, n, k = sizes
    shape = {"m": m, "n": n, "k": k}
    left, right = random_bytes(*[batch][:batch], m, k), random_bytes(*[batch][:batch], *(shape[side] for side in b))
    payload = product_of_bytes(m, n, k, batch=batch, b=b, role="input")
    (got,) = computed(family, payload, {"a": left, "b": right})
    wide = right.swapaxes(-1, -2) if b == "nk" else right
    np.testing.assert_array_equal(got, left.astype(np.int64) @ wide.astype(np.int64))


def test_the_largest_sums_of_a_b_that_a_call_packs_are_exact(family):
    left, right = np.full((9, 700), LEAST, np.int8), np.full((700, 20), LEAST, np.int8)
    (got,) = computed(family, product_of_bytes(9, 20, 700, role="input"), {"a": left, "b": right})
    assert (got == 700 * LEAST * LEAST).all()


@pytest.mark.parametrize(("rows", "length", "chosen"), [(7, 32, "bytes"), (8, 31, "bytes"), (8, 32, "tile_bytes")])
def test_a_matrix_unit_comes_first_where_half_a_tile_is_full(rows, length, chosen, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")
    monkeypatch.setattr("autotune.core.precision.cpu_flags", lambda: {BYTES.flag})
    (task,) = partition(product_of_bytes(rows, 33, length)).tasks
    assert families_for(task)[0].name == chosen


def test_a_matrix_unit_gives_the_bits_of_its_emulation():
    if not ask_for_tiles():
        pytest.skip("needs a matrix unit")
    assert_exact(TILED_BYTES, random_bytes(37, 200), random_bytes(200, 50))


def test_other_families_copy_a_b_of_bytes_that_is_no_weight():
    left, right = random_bytes(64, 64), random_bytes(64, 64)
    payload = product_of_bytes(64, 64, 64, role="input")
    (got,) = computed(load_family("matmul"), payload, {"a": left, "b": right}, pack_b="panels")
    np.testing.assert_array_equal(got, left.astype(np.int64) @ right.astype(np.int64))


def test_without_such_instructions_other_families_are_exact():
    assert_exact(load_family("matmul"), random_bytes(9, 40), random_bytes(40, 33))


@pytest.mark.skipif(bool(NARROW_BYTES.lacking), reason=NARROW_BYTES.lacking or "here")
def test_dot_products_come_first_where_the_processor_has_them():
    (task,) = partition(product_of_bytes(5, 33, 40)).tasks
    assert families_for(task)[0] is NARROW_BYTES
    assert task.tag == "matmul_5x33x40_i8_w"


@pytest.mark.parametrize(
    ("isa", "chosen"), [("avx512f", "bytes"), ("avx2", "matmul"), ("sse2", "matmul"), ("neon", "matmul")]
)
def test_another_machine_gets_them_where_its_vectors_have_them(isa, chosen, monkeypatch):
    """Whatever this one has: it compiles for the others."""
    monkeypatch.setattr("autotune.core.precision.cpu_flags", lambda: {BYTES.flag})
    (task,) = partition(product_of_bytes(5, 33, 40)).tasks
    assert family_for(task, replace(this_machine(), isa=isa)).name == chosen


@pytest.mark.parametrize("b", ["kn", "nk"])
@pytest.mark.parametrize("batch", [0, 3])
def test_without_such_instructions_bytes_are_widened_in_vectors(b, batch):
    """As products of one number after the other they took twenty times as long."""
    payload = product_of_bytes(12, 32, 40, batch=batch, b=b, role="input")
    (task,), family, machine = partition(payload).tasks, load_family("matmul"), MACHINES["avx512"]
    step = write_step(task, family, family.default(task, machine), machine, alone=True)
    text = compile_to("bufferized", task.payload, candidate_alone(step)).text
    assert "arith.muli" in text
    assert "vector.reduction" not in text
