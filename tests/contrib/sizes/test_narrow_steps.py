"""Narrow steps: a program's loops end at more sizes, what it computes stays, and slow ones are not taken."""

import numpy as np
import pytest
from sizes_support import CLOSE, LONGEST, WIDTH, in_numpy, shortened_heads

from autotune.contrib.sizes.calls import AnySize, prepare
from autotune.contrib.sizes.folder import CompiledSize, SizedModel
from autotune.contrib.sizes.making import LoopSteps, choose_sizes, grains_of, possible_steps
from autotune.contrib.sizes.narrow_steps import ACROSS, FILE, find_narrow, narrowest, read_narrow, write_narrow
from autotune.contrib.sizes.paths import size_folder
from autotune.contrib.sizes.plan import SizeCosts
from autotune.contrib.sizes.proof import Dim
from autotune.contrib.sizes.tuning import mean_cost
from autotune.core.errors import PayloadError
from autotune.core.host.machine import this_machine
from autotune.core.listener import SILENT
from autotune.registry import load_payload
from autotune.worker.loading.reading import open_payload, partition


@pytest.fixture(scope="module")
def narrowed(tmp_path_factory, warm_converters):
    """The folder of a model whose loops end at more sizes, and the model as it was and as it is."""
    folder = tmp_path_factory.mktemp("narrow")
    model = shortened_heads(folder)
    (size,) = model.sizes
    _, narrow = possible_steps(folder, model.dims, model.axes, size.sizes, SILENT)
    write_narrow(size_folder(folder, size.sizes), narrow.narrow)
    (grain,) = grains_of(folder, model.dims, model.axes, [size.sizes])
    return folder, model, model.with_size(size.name, size.seconds * narrow.slower, grain)


def test_loops_end_at_more_sizes_and_results_are_the_same(narrowed):
    folder, before, model = narrowed
    grain, held = model.sizes[0].grain, read_narrow(size_folder(folder, model.sizes[0].sizes))
    assert 0 < grain < before.sizes[0].grain
    assert all(ACROSS.fullmatch(name) for knobs in held.values() for name in knobs)
    function, rng = AnySize(model, lambda number: prepare(folder, model, number)), np.random.default_rng(0)
    assert function.plan(batch=1, tokens=1) == [(f"batch=1,tokens={grain}", 1)]
    spoilt = np.full((1, LONGEST, WIDTH), np.nan, np.float32)
    for tokens in (1, grain - 1, grain, 3 * grain, LONGEST - 1, LONGEST):
        function(x=spoilt, mask=np.ones((1, LONGEST), np.float32))
        x, mask = rng.standard_normal((1, tokens, WIDTH)).astype(np.float32), np.ones((1, tokens), np.float32)
        np.testing.assert_allclose(function(x=x, mask=mask), in_numpy(x, mask), **CLOSE)


@pytest.mark.parametrize(("slower", "is_taken"), [(1.01, True), (10.0, False)])
def test_narrow_steps_are_taken_where_requests_cost_less(narrowed, monkeypatch, slower, is_taken):
    folder, before, model = narrowed
    (size,) = model.sizes
    place = size_folder(folder, size.sizes)
    held = read_narrow(place)
    ways = [LoopSteps({}, before.sizes[0].grain), LoopSteps(held, size.grain, slower)]
    monkeypatch.setattr("autotune.contrib.sizes.making.possible_steps", lambda *_: ways)
    write_narrow(place, {})
    costs = SizeCosts({"batch": [1], "tokens": [1, LONGEST]}, [1e-3, LONGEST * 1e-3])
    chosen = choose_sizes(folder, model.dims, model.axes, costs, 1, SILENT)
    found = read_narrow(place)
    write_narrow(place, held)
    assert chosen == [dict(size.sizes)]
    assert found == (held if is_taken else {})


def test_knobs_that_change_nothing_keep_their_defaults(narrowed):
    folder, _, model = narrowed
    parts, asked = partition(open_payload(size_folder(folder, model.sizes[0].sizes))), []

    def grain_with(narrow):
        asked.append(narrow)
        return 16 if any("vectors" in knobs for knobs in narrow.values()) else 64

    found, grain = find_narrow(parts, this_machine(), 64, grain_with)
    assert grain == 16
    assert [list(knobs) for knobs in found.values()] == [["vectors"]]
    assert find_narrow(parts, this_machine(), 64, lambda _: 64) == ({}, 64)


def test_damaged_knobs_are_refused(tmp_path):
    (tmp_path / FILE).write_text('{"a": 1}')
    with pytest.raises(PayloadError, match=r"must hold knobs by task, it does not; import the model again"):
        read_narrow(tmp_path)


def test_a_program_of_more_sizes_is_expected_to_cost_less():
    dims = (Dim("tokens", 1, 64, pad=True, results=(0,)),)
    coarse, fine = (
        SizedModel("m", "0" * 64, dims, {}, (CompiledSize({"tokens": 64}, seconds, grain),))
        for seconds, grain in ((1.0, 32), (1.05, 8))
    )
    assert mean_cost(fine) < mean_cost(coarse) < mean_cost(coarse.with_size("tokens=64", 1.0, 0))


def test_products_of_a_group_take_narrow_steps_each():
    (task,) = partition(load_payload("attention,heads=2,seq=128,d=64")).tasks
    assert {"vectors", "register_n_1", "register_n_2"} <= set(narrowest(task, this_machine()))
