"""Concatenations that begin as an earlier one: they copy what that one made instead of every part of it again."""

from mlir import ir

from autotune.compiler.ir.module import every_op, run_passes

NAME = "tensor.concat"


def begin_with_earlier(module: ir.Module) -> None:
    """Let concatenations start from the longest earlier one that they begin as, in place.

        u = concat a, b;  v = concat a, b, c   ->   u = concat a, b;  v = concat u, c

    Blocks that are densely connected concatenate all results so far, again and again: n of them have n copies each.
    """
    blocks: dict[ir.Block, list[ir.Operation]] = {}
    for op in every_op(module):
        if op.name == NAME:
            blocks.setdefault(op.block, []).append(op)
    for ops in blocks.values():
        parts = [list(op.operands) for op in ops]
        for number in reversed(range(1, len(ops))):
            shorten(ops[number], parts[number], list(zip(ops[:number], parts, strict=False)))
    if blocks:
        run_passes(module, "builtin.module(canonicalize,cse)")


def shorten(op: ir.Operation, parts: list[ir.Value], earlier: list[tuple[ir.Operation, list[ir.Value]]]) -> None:
    """Write a concatenation again, from the longest of earlier ones that it begins as; one that there is not stays."""
    along = op.attributes["dim"]
    known = [
        (len(others), other.results[0])
        for other, others in earlier
        if other.attributes["dim"] == along and 1 < len(others) < len(parts) and parts[: len(others)] == others
    ]
    if not known:
        return
    count, whole = max(known, key=lambda each: each[0])
    with ir.InsertionPoint(op), op.location:
        fresh = ir.Operation.create(
            NAME, [op.results[0].type], [whole, *parts[count:]], attributes={"dim": along}, loc=op.location
        )
    op.results[0].replace_all_uses_with(fresh.results[0])
    op.erase()
