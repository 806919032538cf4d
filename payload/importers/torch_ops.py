"""Ops of torch-mlir's modules, which are of another MLIR than ours; in the converter's process alone."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_mlir.ir import Operation


def ops_named(root: "Operation", *names: str) -> "list[Operation]":
    """The ops of some names inside an op, each behind those inside of it."""
    from torch_mlir.ir import WalkResult  # noqa: PLC0415 - comes with an extra

    found: list[Operation] = []

    def gather(op: "Operation") -> WalkResult:
        if op.operation.name in names:
            found.append(op.operation)
        return WalkResult.ADVANCE

    root.walk(gather)
    return found
