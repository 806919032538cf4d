"""What fusing element-wise neighbours leaves as it is."""

from mlir import ir

from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import maker
from autotune.compiler.tasks.read_op import read_op

COSTLY = ("math.", "arith.divf")
COUNTS = ["linalg.index", "arith.index_cast", "linalg.yield"]  # the body of an op that gives 0, 1, 2, ...


def is_kept(op: ir.Operation) -> bool:
    """Tell whether an op is a contraction, or reads windows: it keeps the operands that it has."""
    read = read_op(op)
    return read is not None and (read.multiplies or read.lanes is not None)


def writes_inside(op: ir.Operation) -> bool:
    """Tell whether an op writes to a part of a tensor, whose shape it keeps."""
    into = maker(op.operands[-1])
    return into is not None and into.name == "tensor.extract_slice"


def is_reduced_flat(op: ir.Operation, value: ir.Value) -> bool:
    """Tell whether an op reduces dimensions that were made one of what no other op computes: they are to stay one."""
    flat = maker(value)
    if flat is None or flat.name != "tensor.collapse_shape" or value != op.operands[0]:
        return False
    source, maps = maker(flat.operands[0]), indexing_maps(op)
    reduces = bool(maps) and len(maps[-1].results) < maps[-1].n_dims
    return reduces and (source is None or not source.name.startswith("linalg."))


def is_repeated(value: ir.Value) -> bool:
    """Tell whether what is costly to compute would be computed again at every step of a reader's outermost loop.

    Such is the factor of a channel in a batch norm, at every place; it stays an op of its own. So do places that are
    counted: upstream cuts a reduction into strands, which then count from 0 each.
    """
    made_by = maker(value)
    if made_by is None or not made_by.regions or len(made_by.results) != 1:
        return False
    body = [inner.operation.name for inner in made_by.regions[0].blocks[0].operations]
    return (body == COUNTS or any(name.startswith(COSTLY) for name in body)) and any(
        repeats(use.owner.operation, use.operand_number) for use in value.uses
    )


def repeats(reader: ir.Operation, number: int) -> bool:
    """Tell whether an op of several loops reads the same elements of an operand at every step of the first."""
    maps = indexing_maps(reader) if reader.name.startswith("linalg.") else []
    return number < len(maps) and maps[number].n_dims > 1 and 0 not in dimensions(maps[number])
