"""What loop nests of a step cost: bytes, trips, loads and stores, counted by hand."""

import pytest
from debug_support import match, payload_file, script, tile

from autotune.contrib.debug.debugged import open_source
from autotune.contrib.debug.nest_cost import LoopCost, NestCost, cache_of
from autotune.contrib.debug.record import DebugRequest, record_here
from autotune.contrib.debug.stepper import DebugLimits
from autotune.core.host.machine import this_machine

LANES = 16
MM = match("mm", "linalg.matmul")
REGISTERS = f"""{MM}
{tile("%tiled, %i, %j, %k", "%mm", "[8, 16, 1]")}
transform.structured.vectorize %tiled : !transform.any_op
{match("f", "func.func")}
transform.apply_licm to %k : !transform.any_op
"""


def costs_of(folder, body, **sizes):
    """A recording with costs of 16 lanes."""
    payload, candidate = open_source(payload_file(folder, **sizes), script(body), None, "")
    return record_here(DebugRequest(payload, candidate, limits=DebugLimits(lanes=LANES)))


def last_product(found):
    """The nest of the product after all steps."""
    return max(found.nests_after(len(found.steps)), key=lambda nest: nest.flops)


def test_an_op_alone_costs_what_its_plain_loops_cost(tmp_path):
    found = costs_of(tmp_path, MM, m=32, n=48, k=24)
    nest = last_product(found)
    (op,) = nest.loops
    assert op.trips == 32 * 48 * 24
    assert op.bytes == 4 * (32 * 24 + 24 * 48 + 32 * 48)
    assert nest.flops == 2 * op.trips
    assert (nest.loads_each, nest.stores_each, nest.chains) == (3, 1, 1)


def test_each_loop_touches_what_its_counts_reach(tmp_path):
    nest = last_product(
        costs_of(tmp_path, f"{MM}\n{tile('%tiled, %i, %j, %k', '%mm', '[8, 16, 4]')}", m=32, n=48, k=24)
    )
    rows, columns, depth, op = nest.loops
    assert [(each.depth, each.trips, each.runs) for each in nest.loops] == [
        (0, 4, 1), (1, 3, 4), (2, 6, 12), (3, 8 * 16 * 4, 72),
    ]  # fmt: skip
    assert rows.bytes == 4 * (32 * 24 + 24 * 48 + 32 * 48)
    assert columns.bytes == 4 * (8 * 24 + 24 * 48 + 8 * 48)
    assert depth.bytes == 4 * (8 * 24 + 24 * 16 + 8 * 16)
    assert op.bytes == 4 * (8 * 4 + 4 * 16 + 8 * 16)
    assert nest.exact


def test_a_tile_that_does_not_divide_costs_what_the_largest_costs(tmp_path):
    nest = last_product(costs_of(tmp_path, f"{MM}\n{tile('%tiled, %i, %j', '%mm', '[7, 10]')}"))
    rows, columns, op = nest.loops
    assert (rows.trips, columns.trips, op.trips) == (5, 4, 7 * 10 * 32)
    assert columns.bytes == 4 * (7 * 32 + 32 * 32 + 7 * 32)


def test_a_register_tile_loads_a_row_a_column_and_its_sums(tmp_path):
    nest = last_product(costs_of(tmp_path, REGISTERS))
    assert nest.flops == 2 * 32**3
    assert nest.fmas == 32**3 / LANES
    assert nest.loads_each == (8 + 1 + 8) / 8  # a broadcast a row, a vector of columns, and 8 sums
    assert nest.stores_each == 1
    assert nest.chains == 8


def test_elementwise_work_has_no_multiply_add(tmp_path):
    found = costs_of(
        tmp_path, f"{match('twice', 'linalg.elementwise')}\ntransform.structured.vectorize %twice : !transform.any_op"
    )
    (before,) = (nest for nest in found.nests if nest.flops == 32 * 32)
    assert (before.fmas, before.loads_each, before.stores_each) == (0, 2, 1)


def test_a_step_names_only_nests_that_changed(tmp_path):
    found = costs_of(tmp_path, REGISTERS)
    assert [len(step.nests) for step in found.steps][:2] == [0, 1]
    assert len(found.nests_after(0)) == len(found.nests_after(2)) == 3


def nest(loops, **numbers):
    """A nest with these loops."""
    given = {"fmas": 0.0, "other": 0.0, "loads": 0.0, "stores": 0.0, "flops": 0.0, "chains": 0} | numbers
    return NestCost("for", loops, **given)


@pytest.mark.parametrize(
    ("numbers", "bound"),
    [
        ({"fmas": 1000, "loads": 1000, "chains": 8}, "multiply-adds"),
        ({"fmas": 1000, "loads": 3000, "chains": 8}, "loads"),
        ({"fmas": 1000, "stores": 1000, "chains": 8}, "stores"),
        ({"fmas": 1000, "chains": 4}, "waiting for sums"),
    ],
)
def test_what_a_core_has_least_of_binds(numbers, bound):
    machine = this_machine()
    found = nest((LoopCost("for", "scf.for", 0, 10, 1, 64),), flops=2 * machine.lanes * numbers["fmas"], **numbers)
    assert found.bound(machine) == bound
    assert found.share(machine) <= 1
    assert (found.share(machine) == 1) == (bound == "multiply-adds")


def test_a_cache_brings_in_what_the_largest_loops_that_fit_touch():
    loops = (
        LoopCost("i", "scf.for", 0, 4, 1, 1000),
        LoopCost("j", "scf.for", 1, 5, 4, 100),
        LoopCost("k", "scf.for", 2, 6, 20, 10),
    )
    found = nest(loops)
    assert [found.fetched(size) for size in (1000, 999, 99, 1)] == [1000, 400, 200, 200]


def test_a_cache_that_holds_the_arguments_keeps_them_from_call_to_call():
    loops = (LoopCost("i", "scf.for", 0, 4, 1, 1000),)
    found = NestCost("i", loops, 0, 0, 0, 0, 0, 0, around=5000)
    assert [found.fetched(size) for size in (999, 4999, 5000)] == [1000, 1000, 0]


def test_arguments_of_the_payload_are_around_its_nests(tmp_path):
    (nest, *_) = costs_of(tmp_path, MM, m=32, n=48, k=24).nests
    assert nest.around == 4 * (32 * 24 + 24 * 48 + 32 * 48)


def test_bytes_are_said_to_fit_the_smallest_cache():
    machine = this_machine()
    assert cache_of(machine.l1_bytes, machine) == "L1"
    assert cache_of(machine.l1_bytes + 1, machine) != "L1"
    assert cache_of(1 << 50, machine) == "memory"
