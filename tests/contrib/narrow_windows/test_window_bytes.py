"""Convolutions of bytes by dot products of words, and by a matrix unit: exact at every size, and the default."""

from dataclasses import replace

import numpy as np
import pytest
from byte_support import convolution_of_bytes
from c_support import NEEDS_C
from convolution_support import check_c_words, convolved, steps_of
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tuning_support import loaded, random_configs, run

from autotune.bundles.call import compile_payload
from autotune.compiler.codegen.openmp import find_openmp
from autotune.compiler.passes.pipelines import TAIL, tail
from autotune.compiler.tasks.partition import partition
from autotune.contrib.narrow_windows.family import WINDOW_BYTES, WINDOW_INT16, WINDOW_TILE_BF16, WINDOW_TILE_BYTES
from autotune.core.host.machine import this_machine
from autotune.core.host.matrix_unit import ask_for_tiles
from autotune.core.precision import BYTES
from autotune.core.scripts.assembly import assemble, panels_of
from autotune.registry import families_for, family_for, load_family

LEAST = -128
EXACT = [WINDOW_BYTES, WINDOW_TILE_BYTES]
of_both = pytest.mark.parametrize("family", EXACT, ids=lambda family: family.name)


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Tiles are emulated."""
    monkeypatch.setenv("AUTOTUNE_TILES", "emulate")
    if BYTES.lacking:
        pytest.skip(BYTES.lacking)


def convolution(folder, size, channels, filters, **more):
    """A convolution of bytes, channels last."""
    return loaded(folder, convolution_of_bytes(size, channels, filters, **more))


def computed(family, payload, inputs, **config):
    parts, steps, taken = steps_of(payload, family, this_machine(), **config)
    assert taken == 1
    (got,) = run(payload, inputs, assemble(steps), TAIL, text=parts.payload.text, panels=panels_of(steps))
    return got


def random_bytes(payload):
    rng = np.random.default_rng(0)
    given = payload.make_inputs(0)
    return {name: rng.integers(LEAST, -LEAST, each.shape).astype(np.int8) for name, each in given.items()}


def exact(inputs, step=1, apart=1):
    x, kernel = (each.astype(np.int64) for each in inputs.values())
    return convolved(x, kernel, step, apart)


def draw_sizes():
    """Sizes of a convolution, and how its windows lie."""
    return st.fixed_dictionaries(
        {
            "size": st.integers(8, 20),
            "channels": st.integers(32, 140),
            "filters": st.integers(2, 70),
            "side": st.integers(1, 3),
            "batch": st.integers(1, 2),
            "step": st.integers(1, 2),
            "apart": st.integers(1, 2),
        }
    )


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=draw_sizes())
@example(sizes={"size": 19, "channels": 64, "filters": 64})
@example(sizes={"size": 9, "channels": 67, "filters": 17, "side": 2, "batch": 2, "apart": 2})
@example(sizes={"size": 11, "channels": 129, "filters": 33, "step": 2})
@of_both
def test_sums_are_exact(family, sizes, tmp_path_factory):
    payload = convolution(tmp_path_factory.mktemp("bytes"), **sizes)
    inputs = random_bytes(payload)
    wanted = exact(inputs, sizes.get("step", 1), sizes.get("apart", 1))
    if not any(family.covers(task) for task in partition(payload).tasks):
        assert sizes["side"] == 1 or wanted.shape[2] < 4  # a product of matrices; few rows
        return
    np.testing.assert_array_equal(computed(family, payload, inputs), wanted)


@of_both
@pytest.mark.parametrize("ends", [(LEAST, LEAST), (LEAST, 127), (127, LEAST), (127, 127)])
def test_the_largest_sums_are_exact(family, ends, tmp_path):
    payload = convolution(tmp_path, 6, 300, 20)
    inputs = payload.make_inputs(0)
    for each, end in zip(inputs.values(), ends, strict=True):
        each.fill(end)
    np.testing.assert_array_equal(computed(family, payload, inputs), exact(inputs))


@pytest.mark.skipif(not ask_for_tiles(), reason="needs a matrix unit")
def test_the_unit_itself_is_exact(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_TILES", "")
    payload = convolution(tmp_path, 19, 70, 40, batch=2)
    inputs = random_bytes(payload)
    np.testing.assert_array_equal(computed(WINDOW_TILE_BYTES, payload, inputs), exact(inputs))


@of_both
def test_every_config_is_exact(family, tmp_path):
    payload, machine = convolution(tmp_path, 13, 40, 72), this_machine()
    (task,) = partition(payload).tasks
    inputs = random_bytes(payload)
    configs = random_configs(family, task, machine, 6, seed=1)
    assert len({(config["rows"], config["width"]) for config in configs}) > 2
    for config in configs:
        np.testing.assert_array_equal(computed(family, payload, inputs, **config), exact(inputs))


def test_other_families_are_exact(tmp_path):
    payload = convolution(tmp_path, 10, 20, 33)
    inputs = random_bytes(payload)
    np.testing.assert_array_equal(computed(load_family("sliding_window"), payload, inputs), exact(inputs))


@pytest.mark.skipif(find_openmp() is None, reason="no OpenMP runtime is installed")
@of_both
@pytest.mark.parametrize(("size", "batch"), [(42, 1), (18, 4)])
def test_threads_share_rows_or_images(family, size, batch, tmp_path):
    payload = convolution(tmp_path, size, 64, 48, batch=batch)
    inputs = random_bytes(payload)
    parts, steps, _ = steps_of(payload, family, this_machine(2))
    (got,) = run(payload, inputs, assemble(steps), tail(2), text=parts.payload.text, panels=panels_of(steps))
    np.testing.assert_array_equal(got, exact(inputs))


@pytest.mark.parametrize(("channels", "chosen"), [(8, "window_bytes"), (31, "window_bytes"), (32, "window_tile_bytes")])
def test_they_are_the_default_where_a_processor_has_them(channels, chosen, tmp_path, monkeypatch):
    (task,) = partition(convolution(tmp_path, 10, channels, 32)).tasks
    assert families_for(task)[0].name == chosen
    assert not any(family.covers(task) for family in (WINDOW_INT16, WINDOW_TILE_BF16))
    monkeypatch.setattr("autotune.core.precision.cpu_flags", set)
    monkeypatch.setattr("autotune.core.precision.why_no_tiles", lambda: "there are none")
    assert families_for(task)[0].name == "sliding_window"


@pytest.mark.parametrize(("isa", "chosen"), [("avx512f", "window_bytes"), ("avx2", "sliding_window")])
def test_another_machine_gets_them_where_its_vectors_have_them(isa, chosen, tmp_path):
    (task,) = partition(convolution(tmp_path, 10, 64, 32)).tasks
    machine = replace(this_machine(), isa=isa, tiles="")
    assert family_for(task, machine).name == chosen


def test_a_program_by_default_is_exact(tmp_path):
    payload = convolution(tmp_path, 12, 64, 48)
    inputs = random_bytes(payload)
    np.testing.assert_array_equal(compile_payload(payload)(**inputs), exact(inputs))


@NEEDS_C
@of_both
def test_c_stores_the_same_words(family, tmp_path):
    assert check_c_words(convolution(tmp_path, 9, 45, 37), family, tmp_path)
