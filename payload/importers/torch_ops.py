"""Traversal of torch-mlir's modules, which belong to another MLIR than ours; runs in the converter's process only."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_mlir.ir import Operation


def ops_named(root: "Operation", *names: str) -> "list[Operation]":
    """Return the ops with the given names that are nested in an op, in post-order."""
    from torch_mlir.ir import WalkResult  # noqa: PLC0415 - comes with an extra

    matches: list[Operation] = []

    def gather(op: "Operation") -> WalkResult:
        if op.operation.name in names:
            matches.append(op.operation)
        return WalkResult.ADVANCE

    root.walk(gather)
    return matches
