"""What to look at in a step: a match of nothing, no difference, loops over a remainder."""

from collections.abc import Iterator, Mapping, Sequence

from mlir import ir

from autotune.contrib.debug.leaf import OPS, Held
from autotune.contrib.debug.recording import EMPTY, IDLE, REMAINDER, Change, Mark
from autotune.contrib.debug.script_facts import QUERIES, uses_of

TILES = ("transform.structured.tile", "transform.structured.fuse", "transform.structured.multitile")


def marks_of(
    ops: Sequence[ir.Operation],
    changes: Sequence[Change],
    results: Mapping[ir.Value, Held],
    used: Mapping[ir.Value, Held],
) -> tuple[Mark, ...]:
    """Marks of a step.

    Args:
        ops: Transform ops of the step.
        changes: What they did to the payload.
        results: What their results hold.
        used: What their operands held before.
    """
    return (*empty(results), *idle(ops, changes, used), *remainders(ops, changes))


def empty(results: Mapping[ir.Value, Held]) -> Iterator[Mark]:
    """Handles of nothing that the script goes on to use."""
    for value, held in results.items():
        if held.kind == OPS and not held.ops and (user := next(uses_of(value), None)) is not None:
            yield Mark(EMPTY, f"{held.name} points at no op, and {short(user)} uses it: that does nothing, or fails")


def idle(ops: Sequence[ir.Operation], changes: Sequence[Change], used: Mapping[ir.Value, Held]) -> Iterator[Mark]:
    """A transform that left the payload as it was."""
    if changes or all(op.name.startswith(QUERIES) for op in ops):
        return
    handles = [held for held in used.values() if held.kind == OPS]
    if handles and not any(held.ops for held in handles):
        names = ", ".join(dict.fromkeys(held.name for held in handles))
        yield Mark(IDLE, f"the payload is as it was: {names} points at no op", cause=handles[0].made)
    else:
        yield Mark(IDLE, "the payload is as it was")


def remainders(ops: Sequence[ir.Operation], changes: Sequence[Change]) -> Iterator[Mark]:
    """Tiles of a size that is known at run time only: the tile size does not divide the loop."""
    if not any(op.name.startswith(TILES) for op in ops):
        return
    lines = [(line, name) for change in changes for line, name in zip(change.added, change.ops, strict=True)]
    least = tuple(name for line, name in lines if "affine.min" in line)
    if least:
        wanted = "choose a size that divides the loop, or split or peel the remainder off"
        yield Mark(
            REMAINDER,
            f"a tile size does not divide its loop: the last tile is smaller (affine.min), its shape is open; {wanted}",
            least,
        )


def short(op: ir.Operation) -> str:
    """Name of a transform op without its dialect."""
    return str(op.name).removeprefix("transform.")
