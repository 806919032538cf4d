"""Small grids, ops and programs, and a mesh that is simulated word by word."""

from dataclasses import replace

from autotune.contrib.costs.mesh.cost import MeshProgramCost
from autotune.contrib.costs.mesh.grid import find_grid
from autotune.contrib.costs.mesh.program import read_mesh_program
from autotune.core.ops.facts import Access, OpFacts, ProgramFacts

GRID = replace(
    find_grid("plain"), rows=4, columns=4, flops=2, memory_bytes=1 << 20, link_bytes=4, hop_cycles=1, core_cycles=3
)
LINEAR = (((0, 1),), ((2, 1),)), (((2, 1),), ((1, 1),)), (((0, 1),), ((1, 1),))


def linear(number, m, n, k, source=None, *, trips=1, fresh=False):
    """A product with a weight, which reads what another op gives, or an input."""
    held = "input" if source is None else ""
    x, w, y = LINEAR
    accesses = (
        Access(100 + number, (m, k), x, 4, held=held, source=source),
        Access(number, (k, n), w, 4, held="weight", fresh=fresh),
        Access(200 + number, (m, n), y, 4, written=True),
    )
    return OpFacts(number, "matmul", "", (m, n, k), f"{m}x{n}xf32", trips, 2 * m * n * k, accesses)


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
