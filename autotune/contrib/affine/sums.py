"""Loop-carried sums in affine loops: replace a load and store of the same element by an iteration argument.

    for k:  c[i, j] = c[i, j] + f(k)   ->   s = c[i, j];  for k carrying s:  s = s + f(k);  c[i, j] = s

Upstream forwards stores to loads within an iteration but not between iterations, and vectorizes only sums that a loop
carries.
"""

from dataclasses import dataclass

from mlir import ir

from autotune.compiler.passes.marked_loops import counter as counter_of
from autotune.contrib.affine.access import LOAD, LoopAccess, accesses, is_affine, loops_of


@dataclass(frozen=True)
class Sum:
    """A load and a store of the same element, in every iteration of a loop."""

    load: ir.Operation
    store: ir.Operation


def carry_sums(function: ir.Operation) -> None:
    """Turn sums in memory into loop-carried sums, innermost loops first."""
    for loop in reversed(loops_of(function)):
        if sums := sums_of(loop):
            carry(loop, sums)


def sums_of(loop: ir.Operation) -> list[Sum]:
    """Return the loads and stores in a loop's body that access one element, which nothing else in the loop accesses."""
    if not is_affine(loop):
        return []
    body, loop_accesses = loop.regions[0].blocks[0], list(accesses(loop))
    sums = []
    for store in [access for access in loop_accesses if access.writes and access.op.block == body]:
        same = [access for access in loop_accesses if access.memory == store.memory]
        if len(same) == 2 and is_sum(same[0], store, loop):
            sums.append(Sum(same[0].op, store.op))
    return sums


def is_sum(load: LoopAccess, store: LoopAccess, loop: ir.Operation) -> bool:
    """Return whether a loop loads an element before it stores it, the same element in every iteration."""
    body = loop.regions[0].blocks[0]
    return (
        load.op.name == LOAD
        and load.op.block == body
        and load.spelled == store.spelled
        and load.stays(counter_of(loop))
        and all(is_outside(value, loop) for value in list(load.op.operands)[1:])
    )


def is_outside(value: ir.Value, loop: ir.Operation) -> bool:
    """Return whether a value is defined outside a loop's body."""
    owner = value.owner
    block = owner if isinstance(owner, ir.Block) else owner.operation.block
    return bool(block != loop.regions[0].blocks[0])


def carry(loop: ir.Operation, sums: list[Sum]) -> None:
    """Replace a loop by one that also carries the sums; erases the old loop."""
    body = loop.regions[0].blocks[0]
    first = [accumulation.load.clone(ir.InsertionPoint(loop)).results[0] for accumulation in sums]
    inits = [*carried_into(loop), *first]
    bounds = list(loop.operands)[: len(loop.operands) - len(loop.results)]
    new = make_loop(loop, bounds, inits)
    new_body = new.regions[0].blocks[0]
    for old, argument in zip(body.arguments, new_body.arguments, strict=False):
        old.replace_all_uses_with(argument)
    for accumulation, argument in zip(sums, list(new_body.arguments)[len(body.arguments) :], strict=True):
        accumulation.load.results[0].replace_all_uses_with(argument)
    *ops, end = [op.operation for op in body.operations]
    stored = [accumulation.store.operands[0] for accumulation in sums]
    with ir.InsertionPoint(new_body), loop.location:
        last = ir.Operation.create("affine.yield", operands=[*end.operands, *stored])
    for op in ops:
        op.move_before(last)
    for old, result in zip(list(loop.results), new.results, strict=False):
        old.replace_all_uses_with(result)
    for accumulation, result in zip(sums, list(new.results)[len(loop.results) :], strict=True):
        accumulation.store.move_before(loop)
        accumulation.store.operands[0] = result
        accumulation.load.erase()
    loop.erase()


def carried_into(loop: ir.Operation) -> list[ir.Value]:
    """Return the initial values of a loop's iteration arguments."""
    return list(loop.operands)[len(loop.operands) - len(loop.results) :]


def make_loop(like: ir.Operation, bounds: list[ir.Value], inits: list[ir.Value]) -> ir.Operation:
    """Create a loop with the same bounds before another one, with an empty body and the given iteration arguments."""
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
