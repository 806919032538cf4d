"""Laws of the default cache tiles, on recorded machines and on those whose L2 is from 256 kB to 4 MB."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from tuning_support import MACHINES

from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction
from schedules.blocking import cut
from schedules.matmul_model import DEEP, RegisterTile, default_config, gathered, is_tall
from schedules.matmul_space import columns_of, matmul_space

ROOT = Path(__file__).parents[2]
SIZES = [(1024, 1024, 1024), (1536, 1536, 1536), (2000, 2000, 2000), (2048, 2048, 2048)]
SIZES += [(4096, 4096, 512), (1024, 4096, 1024), (4096, 4096, 4096)]
L2 = [256 << 10, 512 << 10, 1 << 20, 1280 << 10, 2 << 20, 4 << 20]
KINDS = ["avx2", "avx512"]


def recorded_machines():
    """The machines of the bundles in results, by the names of their folders."""
    found = {}
    for path in sorted(ROOT.glob("results/*/bundles/*/manifest.json")):
        found.setdefault(path.parts[-4], Machine(**json.loads(path.read_text())["machine"]))
    return found


RECORDED = recorded_machines()
SIMULATED = {f"{kind}-{size >> 10}k": replace(MACHINES[kind], l2_bytes=size) for kind in KINDS for size in L2}
ALL = {**RECORDED, **SIMULATED}


def tiles(sizes, machine, **layout):
    """Rows of a register tile, columns and depth of a block of B, by default."""
    m, n, k = sizes
    about = Contraction(m=m, n=n, k=k, **layout)
    config = default_config(about, matmul_space(about, machine), machine)
    columns = cut(n, int(config["tile_n"]), columns_of(config), powers_of_two=True)[0].cache
    return int(config["register_m"]), columns, cut(k, int(config["tile_k"]), 1)[0].cache


@pytest.mark.parametrize("machine", ALL.values(), ids=ALL)
@pytest.mark.parametrize("stored", [False, True], ids=["copied", "stored"])
def test_big_products_have_blocks_that_fit_and_that_are_a_good_part_of_l2(machine, stored):
    """Little passes through L2: A for every block of n, C twice for every block of k."""
    for sizes in SIZES:
        rows, columns, depth = tiles(sizes, machine, constant_b=stored)
        assert 4 * rows * depth <= machine.l1_bytes * 3 / 8, sizes  # a strip of A
        assert 4 * columns * depth <= machine.l2_bytes / 2, sizes  # a block of B
        least = 2 * math.sqrt(4 * 8 / (machine.l2_bytes / 4 / 4))  # bytes an FMA, by equal blocks of a quarter of L2
        assert 4 / columns + 8 / depth <= 2 * least, sizes
        most = min(sizes[1], 1024) * min(sizes[2], DEEP)  # the largest there is
        assert 4 * columns * depth >= min(machine.l2_bytes / 16, 4 * most / 2), sizes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(2048, 2048, 2048), (4096, 4096, 4096), (4096, 4096, 512)], ids=str)
def test_larger_l2_never_has_a_smaller_block(kind, sizes):
    areas = [columns * depth for _, columns, depth in (tiles(sizes, SIMULATED[f"{kind}-{s >> 10}k"]) for s in L2)]
    assert areas == sorted(areas)
    assert areas[-1] >= 4 * areas[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1024, 2048, 4096])
@pytest.mark.parametrize("l2", L2)
def test_blocks_divide_what_is_a_power_of_two(kind, size, l2):
    _, columns, depth = tiles((size, size, size), SIMULATED[f"{kind}-{l2 >> 10}k"])
    assert size % columns == size % depth == 0


def test_1024_cubed_on_one_megabyte_of_l2_is_not_cut_into_steps_of_64():
    """It was: a register tile of 14 rows left room for so few, and C passed through L2 sixteen times."""
    rows, columns, depth = tiles((1024, 1024, 1024), SIMULATED["avx512-1024k"])
    assert (depth, columns) == (256, 512)
    assert rows <= 8


def test_products_of_few_rows_are_not_tall():
    for machine in RECORDED.values():
        for n, k in ((3072, 768), (768, 3072), (768, 768), (50257, 768)):
            assert not is_tall(Contraction(m=128, n=n, k=k), machine)


@pytest.mark.parametrize("machine", ALL.values(), ids=ALL)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(6, 40, 64), (9, 94, 152), (25, 263, 64), (40, 48, 24), (94, 94, 152), (200, 1000, 36)]
)
def test_most_of_a_transposed_b_is_turned_once_for_all_rows(machine, m, n, k):
    """Columns outside of panels are gathered element by element for each tile of rows."""
    c = Contraction(m=m, n=n, k=k, transposed_b=True)
    config = default_config(c, matmul_space(c, machine), machine)
    assert config["pack_b"] == "panels"
    tile = RegisterTile(int(config["register_m"]), int(config["register_n"]), int(config["vector_width"]))
    assert gathered(c, tile, machine) <= 1 / 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_transposed_b_beyond_l2_that_meets_few_rows_is_copied_in_long_runs_that_stay_in_l2(kind):
    for l2 in L2:
        machine = SIMULATED[f"{kind}-{l2 >> 10}k"]
        layout = {"transposed_a": True, "transposed_b": True}
        _, columns, depth = tiles((9, 4096, 4096), machine, **layout)
        *_, short = tiles((64, 4096, 4096), machine, **layout)
        assert 4 * columns * depth <= machine.l2_bytes / 4
        if l2 >= 2 << 20:
            assert depth >= 512 > short
