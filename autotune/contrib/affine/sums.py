"""Sums of affine loops in registers: what a loop reads from one element, and writes there again, it carries.

    for k:  c[i, j] = c[i, j] + f(k)   ->   s = c[i, j];  for k carrying s:  s = s + f(k);  c[i, j] = s

Upstream forwards stores to loads, but not from one step of a loop to the next; and it makes vectors of those sums alone
that a loop carries.
"""

from dataclasses import dataclass

from mlir import ir

from autotune.compiler.passes.marked_loops import counter as counter_of
from autotune.contrib.affine.access import LOAD, LoopAccess, accesses, is_affine, loops_of


@dataclass(frozen=True)
class Sum:
    """A load and the store to the same element, in every step of a loop."""

    load: ir.Operation
    store: ir.Operation


def carry_sums(function: ir.Operation) -> None:
    """Let loops carry what they can, the innermost first."""
    for loop in reversed(loops_of(function)):
        if found := sums_of(loop):
            carry(loop, found)


def sums_of(loop: ir.Operation) -> list[Sum]:
    """Loads and stores directly in a loop of one element, which no other access in it concerns."""
    if not is_affine(loop):
        return []
    body, found = loop.regions[0].blocks[0], list(accesses(loop))
    sums = []
    for store in [access for access in found if access.writes and access.op.block == body]:
        same = [access for access in found if access.memory == store.memory]
        if len(same) == 2 and is_sum(same[0], store, loop):
            sums.append(Sum(same[0].op, store.op))
    return sums


def is_sum(load: LoopAccess, store: LoopAccess, loop: ir.Operation) -> bool:
    """Return whether a loop reads an element first and writes it later, the same in every step."""
    body = loop.regions[0].blocks[0]
    return (
        load.op.name == LOAD
        and load.op.block == body
        and load.spelled == store.spelled
        and load.stays(counter_of(loop))
        and all(is_outside(value, loop) for value in list(load.op.operands)[1:])
    )


def is_outside(value: ir.Value, loop: ir.Operation) -> bool:
    """Return whether a value is not made by a loop's body."""
    owner = value.owner
    block = owner if isinstance(owner, ir.Block) else owner.operation.block
    return bool(block != loop.regions[0].blocks[0])


def carry(loop: ir.Operation, sums: list[Sum]) -> None:
    """Write a loop anew that carries sums besides what it carries already; erases the old one."""
    body = loop.regions[0].blocks[0]
    first = [each.load.clone(ir.InsertionPoint(loop)).results[0] for each in sums]
    inits = [*carried_into(loop), *first]
    bounds = list(loop.operands)[: len(loop.operands) - len(loop.results)]
    new = make_loop(loop, bounds, inits)
    inside = new.regions[0].blocks[0]
    for old, argument in zip(body.arguments, inside.arguments, strict=False):
        old.replace_all_uses_with(argument)
    for each, argument in zip(sums, list(inside.arguments)[len(body.arguments) :], strict=True):
        each.load.results[0].replace_all_uses_with(argument)
    *ops, end = [op.operation for op in body.operations]
    stored = [each.store.operands[0] for each in sums]
    with ir.InsertionPoint(inside), loop.location:
        last = ir.Operation.create("affine.yield", operands=[*end.operands, *stored])
    for op in ops:
        op.move_before(last)
    for old, result in zip(list(loop.results), new.results, strict=False):
        old.replace_all_uses_with(result)
    for each, result in zip(sums, list(new.results)[len(loop.results) :], strict=True):
        each.store.move_before(loop)
        each.store.operands[0] = result
        each.load.erase()
    loop.erase()


def carried_into(loop: ir.Operation) -> list[ir.Value]:
    """What a loop begins to carry with."""
    return list(loop.operands)[len(loop.operands) - len(loop.results) :]


def make_loop(like: ir.Operation, bounds: list[ir.Value], inits: list[ir.Value]) -> ir.Operation:
    """A loop of the same bounds before another one, with an empty body, that carries values."""
    attributes = dict(like.attributes.items())
    sizes = list(ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"]))
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([sizes[0], sizes[1], len(inits)])
    types = [value.type for value in inits]
    with ir.InsertionPoint(like), like.location:
        new = ir.Operation.create(
            "affine.for", results=types, operands=[*bounds, *inits], attributes=attributes, regions=1
        )
    new.regions[0].blocks.append(ir.IndexType.get(), *types, arg_locs=[like.location] * (1 + len(types)))
    return new
