"""Ends of rows: masked or in powers of two, any number of columns is what NumPy computes."""

import numpy as np
import pytest
from test_sliding_window import conv_text, convolution
from tuning_support import MACHINES, agrees, contraction_payload, loaded, product_of, run_steps

from autotune.compiler.tasks.partition import partition
from autotune.core.scripts.assembly import write_step
from autotune.registry import family_for
from autotune.worker.loading.reading import open_payload
from schedules.blocking import cut
from schedules.ends import MASKED, PEELED, knobs_of_ends

MACHINE = MACHINES["avx512"]
TILE = {"strip": 2, "rows": 1, "vectors": 2}
COLUMNS = (3, 7, 13, 24, 29, 31, 45, 67, 79, 127)


def run_ends(payload, inputs, ends, **knobs):
    """What a payload writes with default configs whose ends are cut so, and what its configs were."""
    parts, steps, used = partition(payload), [], []
    for task in parts.tasks:
        family = family_for(task)
        config = dict(family.default(task, MACHINE))
        config |= {name: value for name, value in {"ends": ends, **knobs}.items() if name in config}
        used.append(config)
        steps.append(write_step(task, family, config, MACHINE))
    return run_steps(payload, parts, inputs, steps), used


@pytest.mark.parametrize(("number", "n"), list(enumerate(COLUMNS)))
def test_products_of_any_number_of_columns_are_right_either_way(number, n):
    """All pairs of a role and a number of rows, over all numbers of columns."""
    m, k = ((1, 33), (37, 5), (150, 64))[number % 3]
    payload = contraction_payload(m, n, k, role_b=("input", "weight")[number % 2])
    inputs = payload.make_inputs(0)
    for ends in (MASKED, PEELED):
        got, (config,) = run_ends(payload, inputs, ends)
        assert config["ends"] == ends
        agrees(payload, got, [product_of(payload, inputs)])


@pytest.mark.parametrize(("number", "n"), list(enumerate([13, 29, 77])))
@pytest.mark.parametrize(("a", "b", "batch"), [("mk", "nk", 0), ("km", "kn", 0), ("km", "nk", 0), ("mk", "nk", 3)])
def test_transposed_products_are_right_with_any_ends(number, n, a, b, batch):
    """Ends with copies of B and without, each layout with all four, two of them with the same columns."""
    payload = contraction_payload(37, n, 100, a=a, b=b, batch=batch)
    inputs = payload.make_inputs(0)
    ways = [(MASKED, "none"), (PEELED, "panels"), (MASKED, "panels"), (PEELED, "none")]
    for ends, pack in ways[number::3]:
        got, _ = run_ends(payload, inputs, ends, pack_b=pack, tile_k=64)
        agrees(payload, got, [product_of(payload, inputs, a=a, b=b)])


@pytest.mark.parametrize(("m", "n", "k", "batch"), [(2, 3, 40, 0), (7, 13, 131, 0), (8, 9, 160, 0), (5, 6, 150, 3)])
def test_sums_in_tiles_of_rows_and_columns_are_right_with_any_ends(m, n, k, batch):
    payload = contraction_payload(m, n, k, b="nk", batch=batch)
    inputs = payload.make_inputs(0)
    for ends, of_odd, of_even in ((MASKED, {}, TILE), (PEELED, TILE, {})):
        got, (config,) = run_ends(payload, inputs, ends, **(of_odd if m % 2 else of_even))
        assert "strip" in config
        agrees(payload, got, [product_of(payload, inputs, b="nk")])


@pytest.mark.parametrize(("channels", "filters", "columns"), [(1, 37, 23), (2, 21, 44), (3, 30, 9)])
def test_convolutions_along_rows_keep_filters_while_positions_pass(channels, filters, columns, tmp_path):
    steps = {"stride": 1, "gap": 1, "pad": 0, "groups": 1}
    payload = loaded(tmp_path, conv_text((2, channels, 6, columns + 1), (filters, channels, 2, 2), **steps))
    inputs = payload.make_inputs(0)
    x, k, b = (inputs[argument.name] for argument in payload.arguments[:3])
    for number, ends in enumerate((MASKED, PEELED)):
        outside = ("rows", "places", "lanes")[(channels + number) % 3]  # each with both ends
        got, used = run_ends(payload, inputs, ends, outside=outside)
        assert any("outside" in config for config in used)
        agrees(payload, got, [convolution(x, k, b, **steps)])


def test_rows_are_outside_where_all_positions_share_their_operand(tmp_path):
    text = conv_text((1, 2, 9, 24), (37, 2, 3, 3), stride=1, gap=1, pad=0)
    (along_rows,) = partition(loaded(tmp_path, text)).tasks
    config = family_for(along_rows).default(along_rows, MACHINE)
    assert config["outside"] == "rows"
    assert config["width"] == 2 * MACHINE.lanes  # of 22 columns, the last masked


@pytest.mark.parametrize("filters", [5, 13, 67])
def test_convolutions_of_any_number_of_filters_are_right_either_way(filters, tmp_path):
    steps = {"stride": 1, "gap": 1, "pad": 1, "groups": 1}
    payload = loaded(tmp_path, conv_text((1, 2, 9, 11), (filters, 2, 3, 3), **steps))
    inputs = payload.make_inputs(0)
    x, k, b = (inputs[argument.name] for argument in payload.arguments[:3])
    for ends in (MASKED, PEELED):
        got, used = run_ends(payload, inputs, ends)
        assert any(config.get("ends") == ends for config in used)
        agrees(payload, got, [convolution(x, k, b, **steps)])


def test_copies_of_odd_length_store_nothing_behind_their_end(tmp_path):
    text = """func.func @f(%x: tensor<3x26xf32>) -> tensor<3x4x26xf32> {
  %e = tensor.empty() : tensor<3x4x26xf32>
  %r = linalg.broadcast ins(%x : tensor<3x26xf32>) outs(%e : tensor<3x4x26xf32>) dimensions = [1]
  return %r : tensor<3x4x26xf32>
}"""
    payload = loaded(tmp_path, text)
    inputs = payload.make_inputs(0)
    got, _ = run_ends(payload, inputs, MASKED)
    agrees(payload, got, [np.repeat(next(iter(inputs.values()))[:, None], 4, axis=1)])


@pytest.mark.parametrize(("pad", "places"), [(0, 6 * 20 + 18), (1, 8 * 22 + 20)])
def test_rows_follow_each_other_where_much_of_their_vectors_would_be_empty(pad, places, tmp_path):
    steps = {"stride": 1, "gap": 1, "pad": pad, "groups": 1}
    payload = loaded(tmp_path, conv_text((2, 8, 9, 20), (21, 8, 3, 3), **steps))
    inputs = payload.make_inputs(0)
    x, k, b = (inputs[argument.name] for argument in payload.arguments[:3])
    assert any(places in op.nest.sizes for task in partition(payload).tasks for op in task.ops)
    for ends in (MASKED, PEELED):
        got, _ = run_ends(payload, inputs, ends)
        agrees(payload, got, [convolution(x, k, b, **steps)])


def test_an_end_beside_an_odd_vector_is_masked_in_tiles_alone():
    assert knobs_of_ends((24,), MACHINE, is_tiled=True)
    assert not knobs_of_ends((40,), MACHINE, is_tiled=True)  # no tile fewer
    assert not knobs_of_ends((8,), MACHINE, is_tiled=True)
    assert not knobs_of_ends((24,), MACHINE)


GROUPS = {
    "attention of odd vectors": ("attention,heads=2,seq=24,d=24", {}),
    "attention": ("attention,heads=3,seq=29,d=13", {}),
    "causal attention": ("attention,heads=2,seq=45,d=29,causal=1", {}),
    "softmax": ("softmax,rows=7,cols=45", {}),
    "apart": ("softmax,rows=7,cols=45", {"fuse": False, "rows": 7}),
    "layer norm": ("layer_norm,rows=5,cols=29", {}),
    "gelu": ("gelu,rows=5,cols=13", {}),
}


@pytest.mark.parametrize("name", GROUPS)
def test_rows_of_any_length_are_right_either_way(name):
    source, knobs = GROUPS[name]
    payload = open_payload(source)
    inputs = payload.make_inputs(0)
    expected = payload.reference(**inputs)
    for ends in (MASKED, PEELED):
        got, used = run_ends(payload, inputs, ends, **knobs)
        assert used[0]["ends"] == ends
        agrees(payload, got, expected)


def test_masked_ends_are_one_vector_where_powers_of_two_are_several():
    assert [piece.size for piece in cut(13, 0, 16, powers_of_two=True)] == [8, 4, 1]
    assert [piece.size for piece in cut(13, 0, 16, masked=16)] == [13]
    assert [piece.size for piece in cut(90, 0, 64, masked=16)] == [64, 26]  # two vectors
    assert [piece.size for piece in cut(100, 0, 64, masked=16)] == [64, 32, 4]  # three would be taken apart


@pytest.mark.parametrize("machine", ["avx2", "sse", "neon"])
def test_machines_without_masks_have_no_choice_of_ends(machine):
    (task,) = partition(contraction_payload(20, 13, 20)).tasks
    assert "ends" not in family_for(task).default(task, MACHINES[machine])
