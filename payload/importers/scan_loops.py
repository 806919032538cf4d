"""Lowering of torch-mlir's scan op, for cumulative sums and products, to ``scf.for`` loops.

    y = tm_tensor.scan x   ->   for row: s = neutral;  for i carrying s: s = s + x[row, i];  y[row, i] = s

Elements are combined in the order of PyTorch and NumPy, and f32 is accumulated in f64 as in PyTorch, so that infinities
and underflows occur at the same elements. Since each step depends on the previous one, a few rows, or columns after the
axis, advance together to hide the latency. Runs in the converter's process only.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from payload.importers.torch_ops import ops_named

if TYPE_CHECKING:
    from torch_mlir.ir import Module, Operation, Type, Value

SCAN = "tm_tensor.scan"
OF_ROWS, OF_COLUMNS = (4, 2), (32, 16, 8, 4, 2)  # unroll factors; columns are contiguous, and fill two cache lines
Piece = tuple[int, int, int]  # bounds and step of a loop
WIDER = {"f32": "f64", "f16": "f32", "bf16": "f32"}  # accumulator type of an element type


def write_scans(module: "Module") -> None:
    """Lower every scan of a module to loops, in place."""
    from torch_mlir.ir import InsertionPoint  # noqa: PLC0415 - its MLIR is another than ours

    for scan in ops_named(module.operation, SCAN):
        with InsertionPoint(scan), scan.location:
            scan.results[0].replace_all_uses_with(write_scan(scan))
        scan.erase()


def write_scan(scan: "Operation") -> "Value":
    """Emit the loops of a scan at the insertion point, and return the result."""
    from torch_mlir.dialects import tensor  # noqa: PLC0415
    from torch_mlir.ir import IntegerAttr  # noqa: PLC0415

    kind, axis = scan.results[0].type, IntegerAttr(scan.attributes["dimension"]).value
    others = [dim for dim in range(kind.rank) if dim != axis]
    beside = max((dim for dim in others if kind.shape[dim] > 1), default=None)
    counts = OF_COLUMNS if beside is not None and beside > axis else OF_ROWS
    if beside is not None:
        others.append(others.pop(others.index(beside)))
    pieces = {dim: cut(kind.shape[dim], counts if dim == beside else (1,)) for dim in others}
    return loop_around(scan, axis, pieces, {}, tensor.empty(kind.shape, kind.element_type))


def cut(size: int, counts: Sequence[int]) -> list[Piece]:
    """Split a size into pieces for decreasing unroll factors, with a remainder of single steps."""
    pieces, begin = list[Piece](), 0
    for count in (*counts, 1):
        end = begin + (size - begin) // count * count
        if end > begin:
            pieces.append((begin, end, count))
        begin = end
    return pieces


def loop_around(
    scan: "Operation", axis: int, left: Mapping[int, Sequence[Piece]], indices: Mapping[int, "Value"], into: "Value"
) -> "Value":
    """Emit the loops over dimensions other than the axis, piece by piece, and return the resulting tensor."""
    from torch_mlir.dialects import scf  # noqa: PLC0415
    from torch_mlir.ir import InsertionPoint  # noqa: PLC0415

    if not left:
        return loop_along(scan, axis, [indices], into)
    (dim, pieces), *rest = left.items()
    for begin, end, step in pieces:
        loop = scf.ForOp(index(begin), index(end), index(step), [into])
        with InsertionPoint(loop.body):
            here, inside = {**indices, dim: loop.induction_variable}, loop.inner_iter_args[0]
            if rest:
                updated = loop_around(scan, axis, dict(rest), here, inside)
            else:
                updated = loop_along(scan, axis, [{**here, dim: moved(here[dim], by)} for by in range(step)], inside)
            scf.yield_([updated])
        into = loop.results[0]
    return into


def loop_along(scan: "Operation", axis: int, lines: Sequence[Mapping[int, "Value"]], into: "Value") -> "Value":
    """Emit the loop along the axis for several lines at once, and return the resulting tensor."""
    from torch_mlir.dialects import scf, tensor  # noqa: PLC0415
    from torch_mlir.ir import InsertionPoint  # noqa: PLC0415

    combine = scan.regions[0].blocks[0].operations[0].operation
    narrow = into.type.element_type
    wide = wider(narrow)
    start = neutral(combine.name, wide)
    loop = scf.ForOp(index(0), index(into.type.shape[axis]), index(1), [into, *[start] * len(lines)])
    with InsertionPoint(loop.body):
        updated, *carried = loop.inner_iter_args
        indices = [[{**line, axis: loop.induction_variable}[dim] for dim in range(into.type.rank)] for line in lines]
        read = [converted(tensor.extract(scan.operands[0], at), wide) for at in indices]
        carried = [combined(combine.name, a, b) for a, b in zip(carried, read, strict=True)]
        for at, value in zip(indices, carried, strict=True):
            updated = tensor.insert(converted(value, narrow), updated, at)
        scf.yield_([updated, *carried])
    return loop.results[0]


def index(value: int) -> "Value":
    """Emit an index constant at the insertion point."""
    from torch_mlir.dialects import arith  # noqa: PLC0415
    from torch_mlir.ir import IndexType  # noqa: PLC0415

    return arith.constant(IndexType.get(), value)


def moved(at: "Value", by: int) -> "Value":
    """Add a constant to an index."""
    from torch_mlir.dialects import arith  # noqa: PLC0415

    return arith.addi(at, index(by)) if by else at


def wider(mlir_type: "Type") -> "Type":
    """Return the accumulator type of an element type."""
    from torch_mlir.ir import Type  # noqa: PLC0415

    return Type.parse(WIDER.get(str(mlir_type), str(mlir_type)))


def neutral(name: str, mlir_type: "Type") -> "Value":
    """Emit the neutral element of a sum or a product."""
    from torch_mlir.dialects import arith  # noqa: PLC0415
    from torch_mlir.ir import FloatAttr, IntegerAttr  # noqa: PLC0415

    value = int(name.startswith("arith.mul"))
    return arith.constant(
        mlir_type, FloatAttr.get(mlir_type, value) if name.endswith("f") else IntegerAttr.get(mlir_type, value)
    )


def combined(name: str, a: "Value", b: "Value") -> "Value":
    """Emit a sum or a product of two values."""
    from torch_mlir.ir import Operation  # noqa: PLC0415

    return Operation.create(name, [a.type], [a, b]).result


def converted(value: "Value", mlir_type: "Type") -> "Value":
    """Convert a value to another float type, if it differs."""
    from torch_mlir.dialects import arith  # noqa: PLC0415

    if value.type == mlir_type:
        return value
    return (
        arith.extf(mlir_type, value) if str(mlir_type) == WIDER.get(str(value.type)) else arith.truncf(mlir_type, value)
    )
