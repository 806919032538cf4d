"""Findings about a step: empty handles, transforms without effect, remainder tiles."""

from collections.abc import Iterator, Mapping, Sequence

from mlir import ir

from autotune.contrib.debug.leaf import OPS, HandleState
from autotune.contrib.debug.recording import EMPTY, IDLE, REMAINDER, Change, Mark
from autotune.contrib.debug.script_facts import QUERIES, uses_of

TILES = ("transform.structured.tile", "transform.structured.fuse", "transform.structured.multitile")


def marks_of(
    ops: Sequence[ir.Operation],
    changes: Sequence[Change],
    results: Mapping[ir.Value, HandleState],
    used: Mapping[ir.Value, HandleState],
) -> tuple[Mark, ...]:
    """Return the findings about a step.

    Args:
        ops: Transform operations of the step.
        changes: Changes of the payload.
        results: Contents of their results.
        used: Contents of their operands before the step.
    """
    return (*empty(results), *idle(ops, changes, used), *remainders(ops, changes))


def empty(results: Mapping[ir.Value, HandleState]) -> Iterator[Mark]:
    """Yield findings about empty handles that the script uses later."""
    for value, state in results.items():
        if state.kind == OPS and not state.ops and (user := next(uses_of(value), None)) is not None:
            yield Mark(EMPTY, f"{state.name} points at no op, and {short(user)} uses it: that does nothing, or fails")


def idle(
    ops: Sequence[ir.Operation], changes: Sequence[Change], used: Mapping[ir.Value, HandleState]
) -> Iterator[Mark]:
    """Yield a finding about a transform that did not change the payload."""
    if changes or all(op.name.startswith(QUERIES) for op in ops):
        return
    handles = [state for state in used.values() if state.kind == OPS]
    if handles and not any(state.ops for state in handles):
        names = ", ".join(dict.fromkeys(state.name for state in handles))
        yield Mark(IDLE, f"the payload is as it was: {names} points at no op", cause=handles[0].made)
    else:
        yield Mark(IDLE, "the payload is as it was")


def remainders(ops: Sequence[ir.Operation], changes: Sequence[Change]) -> Iterator[Mark]:
    """Yield a finding about tiles of dynamic size: the tile size does not divide the trip count."""
    if not any(op.name.startswith(TILES) for op in ops):
        return
    lines = [(line, name) for change in changes for line, name in zip(change.added, change.ops, strict=True)]
    dynamic_tiles = tuple(name for line, name in lines if "affine.min" in line)
    if dynamic_tiles:
        advice = "choose a size that divides the loop, or split or peel the remainder off"
        yield Mark(
            REMAINDER,
            f"a tile size does not divide its loop: the last tile is smaller (affine.min), its shape is open; {advice}",
            dynamic_tiles,
        )


def short(op: ir.Operation) -> str:
    """Return the name of a transform operation without the dialect."""
    return str(op.name).removeprefix("transform.")
