"""Family for groups with a loop of dynamic trip count, such as attention over a cache of growing length.

One compiled program serves all lengths. An op along the growing loop runs in whole vectors, with a peeled loop for the
rest. A contraction over the growing loop takes one of its steps at a time, in vectors along the static dimension, so
that no length leaves a remainder.
"""

from dataclasses import dataclass

from autotune.core.errors import ScheduleError
from autotune.core.host.machine import Machine
from autotune.core.ops.op import LoopNest
from autotune.core.plugs.family import Family
from autotune.core.space import Config, Knob, Space
from autotune.core.task import Task
from schedules import moves
from schedules.blocking import cut
from schedules.moves import ANY, Script
from schedules.vectorize import reduce_and_vectorize, tile_and_vectorize

VECTORS = (1, 2, 4)
STRANDS = (1, 2, 4, 8)
UNROLLS = (1, 2, 4)
FOR = '!transform.op<"scf.for">'


@dataclass(frozen=True)
class Growing(Family):
    """Fusion groups with a loop whose trip count is known at run time only, as over a KV cache."""

    name: str = "growing"
    fallback: bool = False

    def covers(self, task: Task) -> bool:
        """Return whether the task is a group whose growing loops are last, or enclose a static reduction."""
        return task.grows and task.is_group and all(is_known(op.nest) for op in task.ops)

    def space(self, task: Task, machine: Machine) -> Space:
        """Return the knobs: vectors along the growing loop and along static dimensions, and the unroll factor."""
        knobs = (Knob("vectors", VECTORS), Knob("strands", strands_for(task, machine)), Knob("unroll", UNROLLS))
        return Space(knobs, ())

    def default(self, task: Task, machine: Machine) -> Config:
        """Return two vectors, up to four accumulators, and unrolling by two."""
        return {"vectors": 2, "strands": min(4, strands_for(task, machine)[-1]), "unroll": 2}

    def build(self, task: Task, config: Config, machine: Machine) -> str:
        """Write the script: find the ops of the group of ``%op`` and schedule each, consumers first."""
        if not self.covers(task):
            raise ScheduleError(f"schedule 'growing' needs a group with a growing loop, got {task.tag}; try 'fused'")
        self.space(task, machine).check(config)
        script = Script()
        handles = ["%op"]
        for member in task.ops[1:]:
            handles.append(moves.producer(script, handles[member.reader], member.operand))
        for member, handle in zip(task.ops, handles, strict=True):
            write_member(script, handle, member.nest, config, machine)
        return script.text


def strands_for(task: Task, machine: Machine) -> tuple[int, ...]:
    """Return the numbers of vectors along static dimensions, up to those that cover the longest."""
    longest = max(static_length(member.nest) for member in task.ops)
    return tuple(s for s in STRANDS if s == 1 or s // 2 * machine.lanes < longest)


def static_length(nest: LoopNest) -> int:
    """Return the last static trip count: elements of a row, columns of a weighted sum, or terms of a sum."""
    return next((size for dim, size in reversed([*enumerate(nest.sizes)]) if dim not in nest.growing), 1)


def is_known(nest: LoopNest) -> bool:
    """Return whether this family can schedule an op of these loops."""
    last = len(nest.sizes) - 1
    if not nest.growing:
        return not nest.reduced
    if nest.growing == (last,):
        return last > 0
    return nest.growing == (last - 1,) and nest.iterators[last] == "reduction"


def write_member(script: Script, op: str, nest: LoopNest, config: Config, machine: Machine) -> None:
    """Schedule one op; consumes its handle."""
    last = len(nest.sizes) - 1
    if not nest.growing:
        write_static(script, op, nest.sizes, int(config["strands"]) * machine.lanes)
    elif nest.growing != (last,):
        script.say("one sum a step: vectors along it, added up at its end")
        write_sums(script, op, nest.sizes, int(config["strands"]) * machine.lanes)
    elif is_weighted_sum(nest):
        script.say("one step at a time onto a row of accumulators")
        write_weighted_sum(script, op, nest.sizes, int(config["strands"]) * machine.lanes, int(config["unroll"]))
    else:
        script.say("whole vectors, then the rest one by one")
        write_along(script, op, nest.sizes, int(config["vectors"]) * machine.lanes)


def write_static(script: Script, op: str, sizes: tuple[int, ...], width: int) -> None:
    """Vectorize an op of static shape along its last dimension; consumes `op`."""
    pieces = cut(sizes[-1], 0, width, powers_of_two=True)
    for index, piece in enumerate(pieces):
        part, op = moves.split_at(script, op, len(sizes) - 1, piece.size) if index + 1 < len(pieces) else (op, "")
        tile_and_vectorize(script, part, (*sizes[:-1], piece.size), 1, piece.register)


def is_weighted_sum(nest: LoopNest) -> bool:
    """Return whether an op is a contraction over the growing loop, not a row reduction: it has an extra column loop."""
    return nest.iterators[-1] == "reduction" and len(nest.sizes) > 3


def write_sums(script: Script, op: str, sizes: tuple[int, ...], width: int) -> None:
    """Vectorize a static reduction inside the growing loop; consumes `op`."""
    pieces = cut(sizes[-1], 0, width, powers_of_two=True)
    for index, piece in enumerate(pieces):
        part, op = moves.split_at(script, op, len(sizes) - 1, piece.size) if index + 1 < len(pieces) else (op, "")
        strands = piece.register if piece.register < piece.size else max(1, piece.size // 2)
        at_least_two = (
            *(max(2, size) if d == len(sizes) - 2 else size for d, size in enumerate(sizes[:-1])),
            piece.size,
        )
        reduce_and_vectorize(script, part, at_least_two, strands)


def write_weighted_sum(script: Script, op: str, sizes: tuple[int, ...], width: int, unroll: int) -> None:
    """Vectorize a contraction along its columns, with the growing loop innermost; consumes `op`."""
    rank, columns = len(sizes), sizes[-2]
    pieces = cut(columns, 0, width, powers_of_two=True)
    for index, piece in enumerate(pieces):
        part, op = moves.split_at(script, op, rank - 2, piece.size) if index + 1 < len(pieces) else (op, "")
        for dim, size in enumerate(sizes[:-2]):
            if size > 1:
                part, _ = moves.tile_loop(script, part, rank, dim, 1)
        if piece.register < piece.size:
            part, _ = moves.tile_loop(script, part, rank, rank - 2, piece.register)
        part, loop = moves.tile_loop(script, part, rank, rank - 1, 1)
        moves.vectorize(script, part)
        if unroll > 1:
            moves.unroll_loop(script, loop, unroll)


def write_along(script: Script, op: str, sizes: tuple[int, ...], width: int) -> None:
    """Vectorize along the growing loop, which is the last; consumes `op`."""
    rank = len(sizes)
    for dim, size in enumerate(sizes[:-1]):
        if size > 1:
            op, _ = moves.tile_loop(script, op, rank, dim, 1)
    _, loop = moves.tile_loop(script, op, rank, rank - 1, width)
    main = peel_loop(script, loop)
    moves.vectorize(script, moves.match_inside(script, main, "linalg.generic", stem="inside"))


def peel_loop(script: Script, loop: str) -> str:
    """Peel the last partial iteration of a loop; consumes `loop` and returns the handle of the loop of whole steps.

    for i in 0..n step 8: body(min(8, n - i))   ->   for i in 0..n/8*8 step 8: body(8);  for the rest: body(n % 8)
    """
    for_loop, main, rest = (script.fresh(stem) for stem in ("for", "whole", "rest"))
    script.emit(f"{for_loop} = transform.cast {loop} : {ANY} to {FOR}")
    script.emit(f"{main}, {rest} = transform.loop.peel {for_loop} : ({FOR}) -> ({ANY}, {ANY})")
    script.emit(f"transform.apply_patterns to {main} {{ transform.apply_patterns.canonicalization }} : {ANY}")
    return main


GROWING = Growing()
