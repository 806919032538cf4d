"""Small grids, ops and programs, and a mesh that is simulated word by word."""

from dataclasses import replace

from autotune.contrib.costs.mesh.cost import MeshProgramCost
from autotune.contrib.costs.mesh.grid import find_grid
from autotune.contrib.costs.mesh.program import read_mesh_program
from autotune.core.ops.facts import ProgramFacts
from autotune.core.ops.op import BodyOp, Index, LoopNest, Operand, ProgramOp

GRID = replace(
    find_grid("plain"), rows=4, columns=4, flops=2, memory_bytes=1 << 20, link_bytes=4, hop_cycles=1, core_cycles=3
)
NEST = ("parallel", "parallel", "reduction")
BODY = (BodyOp("arith.mulf", (0, 1), ("f32",)), BodyOp("arith.addf", (2, 3), ("f32",)))


def at(*loops):
    """Indices that are loops."""
    return tuple(Index(((loop, 1),)) for loop in loops)


def linear(number, m, n, k, source=None, *, trips=1, fresh=False):
    """A product with a weight, which reads what another op gives, or an input."""
    held = "input" if source is None else ""
    operands = (
        Operand((m, k), "f32", at(0, 2), value=100 + number, role=held, source=source),
        Operand((k, n), "f32", at(2, 1), value=number, role="weight", moves=fresh),
        Operand((m, n), "f32", at(0, 1), value=200 + number, written=True),
    )
    nest = LoopNest((m, n, k), NEST)
    return ProgramOp(nest, kind="matmul", operands=operands, body=BODY, number=number, trips=trips)


def mesh_cost(*ops, grid=GRID, batch=1):
    """What mappings of ops to a grid cost."""
    return MeshProgramCost("these", read_mesh_program(ProgramFacts(ops)), grid, batch)


def run_words(messages):
    """Cycles until words that take routes over links have all arrived: a link passes one word a cycle, oldest first.

    Args:
        messages: For each the links of its route in order, and the number of its words, all ready at cycle 0.
    """
    waiting = [[route, 0, 0] for route, words in messages for _ in range(words)]
    cycle = 0
    while any(place < len(route) for route, place, _ in waiting):
        cycle += 1
        taken = set()
        for word in waiting:
            route, place, ready = word
            if place < len(route) and ready < cycle and route[place] not in taken:
                taken.add(route[place])
                word[1], word[2] = place + 1, cycle
    return cycle


def route_xy(start, end):
    """Links from a core to another one, along the row first."""
    (row, column), (to_row, to_column) = start, end
    links = []
    while column != to_column:
        after = column + (1 if to_column > column else -1)
        links.append(((row, column), (row, after)))
        column = after
    while row != to_row:
        after = row + (1 if to_row > row else -1)
        links.append(((row, column), (after, column)))
        row = after
    return links
