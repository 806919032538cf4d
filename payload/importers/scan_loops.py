"""Scans as loops: torch-mlir writes partial sums and products as an op of its own, which our MLIR does not hold.

    y = tm_tensor.scan x   ->   for row: s = neutral;  for i carrying s: s = s + x[row, i];  y[row, i] = s

They are computed in the order in which PyTorch and NumPy do, and those of f32 are carried in f64, as PyTorch does: what
an infinity makes of numbers that have become zero is where it is there. A loop waits for each sum before it begins the
next, so a few rows, or columns behind the axis, take a step together. Runs in the converter's process alone.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from payload.importers.torch_ops import ops_named

if TYPE_CHECKING:
    from torch_mlir.ir import Module, Operation, Type, Value

SCAN = "tm_tensor.scan"
OF_ROWS, OF_COLUMNS = (4, 2), (16, 8, 4, 2)  # that take a step together: rows lie apart, 16 columns are a cache line
Piece = tuple[int, int, int]  # of a loop: where it begins, where it ends, its step
WIDER = {"f32": "f64", "f16": "f32", "bf16": "f32"}  # what is carried of a type


def write_scans(module: "Module") -> None:
    """Write every scan of a lowered module as loops, in place."""
    from torch_mlir.ir import InsertionPoint  # noqa: PLC0415 - its MLIR is another than ours

    for scan in ops_named(module.operation, SCAN):
        with InsertionPoint(scan), scan.location:
            scan.results[0].replace_all_uses_with(write_scan(scan))
        scan.erase()


def write_scan(scan: "Operation") -> "Value":
    """What a scan gives, by loops at the insertion point: around the axis, and along it."""
    from torch_mlir.dialects import tensor  # noqa: PLC0415
    from torch_mlir.ir import IntegerAttr  # noqa: PLC0415

    kind, axis = scan.results[0].type, IntegerAttr(scan.attributes["dimension"]).value
    around = [dim for dim in range(kind.rank) if dim != axis]
    beside = max((dim for dim in around if kind.shape[dim] > 1), default=None)
    counts = OF_COLUMNS if beside is not None and beside > axis else OF_ROWS
    if beside is not None:
        around.append(around.pop(around.index(beside)))
    pieces = {dim: cut(kind.shape[dim], counts if dim == beside else (1,)) for dim in around}
    return loop_around(scan, axis, pieces, {}, tensor.empty(kind.shape, kind.element_type))


def cut(size: int, counts: Sequence[int]) -> list[Piece]:
    """A size in pieces, of as many steps of the largest count as there are, then of the next; single ones last."""
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
    """Loops over dimensions other than the axis, piece by piece; what they make of a tensor."""
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
                made = loop_around(scan, axis, dict(rest), here, inside)
            else:
                made = loop_along(scan, axis, [{**here, dim: moved(here[dim], by)} for by in range(step)], inside)
            scf.yield_([made])
        into = loop.results[0]
    return into


def loop_along(scan: "Operation", axis: int, lines: Sequence[Mapping[int, "Value"]], into: "Value") -> "Value":
    """The loop along the axis, of some lines at once; what it makes of a tensor."""
    from torch_mlir.dialects import scf, tensor  # noqa: PLC0415
    from torch_mlir.ir import InsertionPoint  # noqa: PLC0415

    combine = scan.regions[0].blocks[0].operations[0].operation
    narrow = into.type.element_type
    wide = wider(narrow)
    start = neutral(combine.name, wide)
    loop = scf.ForOp(index(0), index(into.type.shape[axis]), index(1), [into, *[start] * len(lines)])
    with InsertionPoint(loop.body):
        made, *carried = loop.inner_iter_args
        indices = [[{**line, axis: loop.induction_variable}[dim] for dim in range(into.type.rank)] for line in lines]
        read = [converted(tensor.extract(scan.operands[0], at), wide) for at in indices]
        carried = [combined(combine.name, a, b) for a, b in zip(carried, read, strict=True)]
        for at, value in zip(indices, carried, strict=True):
            made = tensor.insert(converted(value, narrow), made, at)
        scf.yield_([made, *carried])
    return loop.results[0]


def index(value: int) -> "Value":
    """A constant of type index, at the insertion point."""
    from torch_mlir.dialects import arith  # noqa: PLC0415
    from torch_mlir.ir import IndexType  # noqa: PLC0415

    return arith.constant(IndexType.get(), value)


def moved(at: "Value", by: int) -> "Value":
    """An index so many further."""
    from torch_mlir.dialects import arith  # noqa: PLC0415

    return arith.addi(at, index(by)) if by else at


def wider(kind: "Type") -> "Type":
    """What is carried of a type."""
    from torch_mlir.ir import Type  # noqa: PLC0415

    return Type.parse(WIDER.get(str(kind), str(kind)))


def neutral(name: str, kind: "Type") -> "Value":
    """What changes no sum, or no product."""
    from torch_mlir.dialects import arith  # noqa: PLC0415
    from torch_mlir.ir import FloatAttr, IntegerAttr  # noqa: PLC0415

    value = int(name.startswith("arith.mul"))
    return arith.constant(kind, FloatAttr.get(kind, value) if name.endswith("f") else IntegerAttr.get(kind, value))


def combined(name: str, a: "Value", b: "Value") -> "Value":
    """A sum or product of two numbers."""
    from torch_mlir.ir import Operation  # noqa: PLC0415

    return Operation.create(name, [a.type], [a, b]).result


def converted(value: "Value", kind: "Type") -> "Value":
    """A number in another type, or as it is."""
    from torch_mlir.dialects import arith  # noqa: PLC0415

    if value.type == kind:
        return value
    return arith.extf(kind, value) if str(kind) == WIDER.get(str(value.type)) else arith.truncf(kind, value)
