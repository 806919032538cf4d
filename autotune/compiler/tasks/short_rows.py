"""Element-wise ops whose rows are short go over several dimensions as one: rows of 3 would fill 3 lanes of a vector.

    y[a, b, c, 3] = f(x[a, b, c, 3], s[a])   ->   Y[a, p] = f(X[a, p], s[a]);  y = expand Y

A reshape would hide that an op follows a product, so this is done to ops that are alone between arguments and results.
"""

from collections.abc import Sequence
from math import prod

from mlir import ir
from mlir.dialects import tensor

from autotune.compiler.ir.nests import dimensions, indexing_maps, structured_ops
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.convolution.channels_last import Body, is_elementwise
from autotune.compiler.normalise.emit import dims, flat, generic, unflat
from autotune.compiler.normalise.shapes.products import Groups

RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
SHORT = 256  # elements of a row: of longer ones, what is left over by vectors is little
VECTOR = 16  # elements that rows had better be a multiple of


def join_short_rows(function: ir.OpView) -> None:
    """Join loops of element-wise ops that are alone, the innermost first, until rows are whole vectors; in place.

    Loops of one step are dropped.
    """
    found = [op.operation for op, _ in structured_ops(function.regions[0].blocks[0])]
    for op in found:
        if not is_alone(op) or not is_elementwise(op, len(op.results[0].type.shape)):
            continue
        shape = list(op.results[0].type.shape)
        read = [dimensions(amap) for amap in indexing_maps(op)]
        groups = joined_loops(shape, read)
        if groups is not None and len(groups) < len(shape):
            join(op, [joined_operand(each, groups) for each in read], [prod(shape[d] for d in g) for g in groups])


def is_alone(op: ir.Operation) -> bool:
    """Tell whether an op reads arguments of the function and constants, and gives its results."""
    if op.name != "linalg.generic" or len(op.results) != 1 or not op.results[0].type.has_static_shape:
        return False
    written = (*RESHAPES, "bufferization.materialize_in_destination")
    return all(use.owner.name in written for use in op.results[0].uses) and all(map(is_given, op.operands[:-1]))


def is_given(value: ir.Value) -> bool:
    """Tell whether a value is an argument or a constant, in whatever shape."""
    made_by = maker(value)
    while made_by is not None and made_by.name in RESHAPES:
        made_by = maker(made_by.operands[0])
    return made_by is None or made_by.name in {"bufferization.to_tensor", "arith.constant"}


def joined_loops(shape: list[int], read: Sequence[Sequence[int | None]]) -> Groups | None:
    """The loops of more than one step, those that become one together; `None` where operands do not allow that.

    Args:
        shape: Trip counts.
        read: For each operand the loop that each of its dimensions follows; `None` for what follows no single one.
    """
    groups: Groups = [[loop] for loop, size in enumerate(shape) if size > 1]

    def allowed(groups: Groups) -> bool:
        return all(None not in each and joined_operand(each, groups) is not None for each in read)

    if not groups or not allowed(groups):
        return None
    short = shape[groups[-1][0]] < SHORT
    while short and len(groups) > 1 and prod(shape[d] for d in groups[-1]) % VECTOR:
        joined = [*groups[:-2], groups[-2] + groups[-1]]
        if not allowed(joined):
            break
        groups = joined
    return groups


def joined_operand(read: Sequence[int | None], groups: Groups) -> tuple[list[int], Groups] | None:
    """Which groups of loops an operand follows, and its dimensions for each; `None` where it follows a part of one.

    Dimensions that follow loops of one step, which are in no group, go with their neighbours.
    """
    loops: list[int] = []
    parts: Groups = []
    waiting: list[int] = []
    seen: list[list[int]] = []
    for place, loop in enumerate(read):
        number = next((at for at, group in enumerate(groups) if loop in group), None)
        if number is None or loop is None:
            (parts[-1] if parts else waiting).append(place)
        elif loops and loops[-1] == number:
            parts[-1].append(place)
            seen[-1].append(loop)
        else:
            loops.append(number)
            parts.append([*waiting, place])
            seen.append([loop])
            waiting = []
    whole = all(groups[at] == each for at, each in zip(loops, seen, strict=True))
    return (loops, parts) if whole and len(set(loops)) == len(loops) else None


def join(op: ir.Operation, operands: Sequence[tuple[list[int], Groups] | None], sizes: Sequence[int]) -> None:
    """Write an op with groups of its loops as one each; erases it.

    Args:
        op: The op.
        operands: What each operand follows, as `joined_operand` gives it.
        sizes: Trip counts of the groups.
    """
    reads = [each for each in operands if each is not None]
    loops, into = dims(len(sizes)), op.results[0].type
    maps = [ir.AffineMap.get(len(sizes), 0, [loops[d] for d in read]) for read, _ in reads]
    with ir.InsertionPoint(op), op.location:
        taken = [flat(value, parts) for value, (_, parts) in zip(op.operands[:-1], reads, strict=False)]
        empty = tensor.empty(sizes, into.element_type)
        result = generic(taken, empty, maps, ["parallel"] * len(sizes), Body(op).copy)
        op.results[0].replace_all_uses_with(unflat(result, reads[-1][1], into.shape))
    op.erase()
