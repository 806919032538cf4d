"""The simulator beside what is known: closed forms, a mesh that passes word by word, exhaustive searches."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from mesh_support import GRID, linear, mesh_cost, route_xy, run_words

from autotune.contrib.costs.mesh.collective import (
    allreduce,
    broadcast,
    chain,
    exchange,
    gather,
    reduce,
    tree,
    two_phase,
)
from autotune.contrib.costs.mesh.placement import ORDERS, CoreRegion, hops, regions_of, transfer
from autotune.contrib.costs.mesh.simulate import cut, pipeline
from autotune.contrib.costs.mesh.traffic import Traffic, route, traffic_of
from autotune.tuning.samplers.search import Search

LENGTHS, SIZES = (2, 3, 4, 7, 8, 16), (4, 36, 400)


def line(cores):
    return [((0, column), (0, column + 1)) for column in range(cores - 1)]


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (1, 64, 32), (8, 16, 24)])
def test_a_product_on_one_core_takes_its_operations_and_nothing_moves(m, n, k):
    found = mesh_cost(linear(0, m, n, k), grid=replace(GRID, rows=1, columns=1))
    (config,) = {tuple(each.items()) for each in found.starts[:1]}
    simulation = found.simulation(dict(config))
    assert simulation.cycles == 2 * m * n * k / GRID.flops
    assert simulation.seconds == simulation.cycles / GRID.hertz
    assert simulation.shares() == {"compute": 1.0}
    assert simulation.memory == (4 * (k * n + m * n),)


def test_a_product_that_is_bound_by_memory_takes_its_bytes():
    found = mesh_cost(linear(0, 1, 64, 32), grid=replace(GRID, rows=1, columns=1, memory_bytes=1))
    assert found.simulation(found.default).cycles == 4 * (32 + 32 * 64 + 64)


@pytest.mark.parametrize("cores", LENGTHS)
@pytest.mark.parametrize("size", SIZES)
def test_a_copy_along_a_line_takes_its_words_and_the_way(cores, size):
    words = math.ceil(size / GRID.link_bytes)
    assert run_words([(line(cores), words)]) == words + cores - 2
    passed = run_words([(line(cores), words)]) + 1  # and into the last router
    assert broadcast(GRID, cores, size) == passed + GRID.core_cycles


@pytest.mark.parametrize("cores", LENGTHS)
@pytest.mark.parametrize("size", SIZES)
def test_sums_are_their_closed_forms_and_the_fastest_is_taken(cores, size):
    words, ways = math.ceil(size / GRID.link_bytes), (chain, tree, two_phase)
    assert chain(GRID, cores, size) == words + (cores - 1) * (1 + 3)
    assert reduce(GRID, cores, size) == min(way(GRID, cores, size) for way in ways)
    assert reduce(GRID, cores, size) >= words + cores - 1  # the last word of the farthest core
    assert allreduce(GRID, cores, size) == reduce(GRID, cores, size) + broadcast(GRID, cores, size)


def test_a_tree_is_best_for_few_words_and_a_chain_for_many():
    assert min((chain, tree, two_phase), key=lambda way: way(GRID, 256, 4)) is tree
    assert min((chain, tree, two_phase), key=lambda way: way(GRID, 256, 1 << 20)) is chain
    assert two_phase(GRID, 256, 400) < chain(GRID, 256, 400)


@pytest.mark.parametrize("cores", LENGTHS)
def test_nothing_moves_on_a_line_of_one_core_or_of_nothing(cores):
    for way in (broadcast, reduce, allreduce, gather, exchange):
        assert way(GRID, 1, 100) == 0
        assert way(GRID, cores, 0) == 0


@pytest.mark.parametrize("cores", [2, 4, 8])
@pytest.mark.parametrize("words", [1, 5])
def test_a_gathering_and_an_exchange_bound_what_words_take(cores, words):
    everyone = [
        (route_xy((0, a), (0, b)), words)
        for a, b in itertools.permutations((0, cores - 1), 2)  # both ends, through all links
    ]
    size = words * cores * GRID.link_bytes
    assert run_words(everyone) <= gather(GRID, cores, size)
    halves = [(route_xy((0, a), (0, a + cores // 2)), words) for a in range(cores // 2)]
    assert run_words(halves) <= exchange(GRID, cores, size)


@pytest.mark.parametrize("stages", [1, 2, 5])
@pytest.mark.parametrize("batch", [1, 2, 9])
def test_a_pipeline_fills_beats_and_drains(stages, batch):
    cycles = np.arange(3, 3 + stages)[::-1].astype(float)
    done = np.zeros(stages)
    for _ in range(batch):
        ready = 0.0
        for stage in range(stages):
            done[stage] = ready = max(ready, done[stage]) + cycles[stage]
    assert pipeline(cycles, batch) == done[-1]
    assert pipeline([7.0] * stages, batch) == 7.0 * (stages + batch - 1)


@pytest.mark.parametrize("order", ORDERS)
def test_a_hand_over_takes_what_its_words_take(order):
    grid = replace(GRID, rows=4, columns=6)
    regions = regions_of(grid, 6, 2, order)
    for before, after in itertools.pairwise(regions):
        cores = [(row, column) for row in range(before.height) for column in range(before.width)]
        words = 8
        moved = [
            (route_xy((before.row + r, before.column + c), (after.row + r, after.column + c)), words) for r, c in cores
        ]
        found = transfer(grid, before, after, words * GRID.link_bytes * len(cores))
        # the word that waits longest has at most all others of its busiest link before it
        assert abs(found - (run_words(moved) + 1 + GRID.core_cycles)) <= hops(before, after) + 1


def test_traffic_of_a_hand_over_is_that_of_every_route():
    grid = replace(GRID, rows=5, columns=6)
    before, after = CoreRegion(0, 4, 2, 2), CoreRegion(3, 0, 2, 2)
    found = Traffic(np.zeros((grid.rows, grid.columns - 1)), np.zeros((grid.rows - 1, grid.columns)))
    route(found, before, after, 4 * 10.0)
    wanted = np.zeros_like(found.across), np.zeros_like(found.along)
    for row, column in itertools.product(range(2), repeat=2):
        for (r, c), (to_r, to_c) in route_xy((row, 4 + column), (3 + row, column)):
            wanted[0 if r == to_r else 1][min(r, to_r), min(c, to_c)] += 10.0
    np.testing.assert_allclose(found.across, wanted[0])
    np.testing.assert_allclose(found.along, wanted[1])


@pytest.mark.parametrize(("rows", "columns"), [(1, 4), (2, 2), (2, 3), (3, 2), (1, 6)])
@pytest.mark.parametrize("shape", [(6, 12), (12, 12), (24, 6)])
def test_no_order_of_regions_hands_over_faster_than_the_best_that_can_be_chosen(rows, columns, shape):
    grid = replace(GRID, rows=shape[0], columns=shape[1])

    def cycles(regions):
        return sum(transfer(grid, *pair, 960) for pair in itertools.pairwise(regions))

    ordered = [regions_of(grid, rows * columns, rows, order) for order in ORDERS]
    assert {frozenset(regions) for regions in ordered} == {frozenset(ordered[0])}
    assert min(map(cycles, ordered)) == min(map(cycles, itertools.permutations(ordered[0])))


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_units_are_cut_so_that_the_heaviest_stage_is_as_light_as_can_be(stages):
    weights = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0]
    found = cut(weights, stages)
    assert [place for stage in found for place in stage] == list(range(len(weights)))
    assert len(found) == stages
    ways = itertools.combinations(range(1, len(weights)), stages - 1)
    best = min(max(sum(weights[a:b]) for a, b in itertools.pairwise((0, *way, len(weights)))) for way in ways)
    assert max(sum(weights[place] for place in stage) for stage in found) == pytest.approx(best)


def test_sampled_search_finds_what_all_placements_are_enumerated_for():
    found = mesh_cost(linear(0, 8, 64, 32), linear(1, 8, 16, 64, source=0))
    everything = [found.seconds(config) for config in found.space.configs()]
    assert found.space.size == len(everything) > 300
    search, seen = Search(found.space, found.default, seed=0, starts=found.starts[:4]), []
    while len(seen) < 200 and (config := search.ask()) is not None:
        seen.append(found.seconds(config))
        search.tell(config, seen[-1])
    assert min(seen) == min(everything)


def test_two_products_in_a_row_sum_over_different_axes_by_default_so_that_nothing_moves_between():
    found = mesh_cost(linear(0, 1, 64, 64), linear(1, 1, 64, 64, source=0))
    simulation = found.simulation(found.default)
    assert set(simulation.shares()) == {"compute", "sum"}
    turned = {**found.default, "matmul_1x64x64@1": found.default["matmul_1x64x64@0"]}
    assert set(found.simulation(turned).shares()) == {"compute", "sum", "gather"}
    assert simulation.seconds < found.simulation(turned).seconds


def test_every_byte_of_a_sum_is_on_the_links():
    found = mesh_cost(linear(0, 1, 4, 4))
    config = {**found.default, "regions": "1x1", "matmul_1x4x4@0": "d2,d1"}  # the sum runs down, a column each
    traffic = traffic_of(found.simulation(config))
    assert traffic.across.sum() == 0
    np.testing.assert_array_equal(traffic.along, np.full((3, 4), 2 * 4.0))  # a number up, the sum down
