"""What is done to each element of a product that is reshaped first: done before, where it is part of the product."""

from math import prod

from mlir import ir
from mlir.dialects import linalg, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import maker
from autotune.compiler.normalise.convolution.channels_last import Body, is_elementwise
from autotune.compiler.normalise.emit import dims, flat, generic, unflat

Groups = list[list[int]]


def reshape_after_elementwise(module: ir.Module) -> None:
    """Let element-wise ops follow their product without a reshape in between, in place.

        P[(b m), n] = product;  E[b, m, n] = P;  y[b, m, n] = f(E[b, m, n], bias[n], z[b, m, n])
          ->   Y[(b m), n] = f(P[(b m), n], bias[n], Z[(b m), n]);  y[b, m, n] = Y

    A reshape between the two would hide that they are neighbours.
    """
    moved: set[ir.Value] = set()
    for op in every_op(module):
        if op.name != "linalg.generic" or len(op.results) != 1 or not is_elementwise(op, len(op.results[0].type.shape)):
            continue
        groups = next((g for value in op.operands if (g := groups_behind_product(value, moved)) is not None), None)
        reads = [collapsed(amap, groups) for amap in indexing_maps(op)] if groups is not None else []
        plain = [read for read in reads if read is not None]
        if groups is None or len(plain) < len(reads):
            continue
        *inputs, into = op.operands
        loops, shape = dims(len(groups)), into.type.shape
        maps = [ir.AffineMap.get(len(groups), 0, [loops[d] for d in read]) for read, _ in plain]
        with ir.InsertionPoint(op), op.location:
            taken = [flat(value, parts) for value, (_, parts) in zip(inputs, plain, strict=False)]
            empty = tensor.empty([prod(shape[d] for d in group) for group in groups], into.type.element_type)
            result = generic(taken, empty, maps, ["parallel"] * len(groups), Body(op).copy)
            whole = unflat(result, groups, shape)
        moved.add(result)
        op.results[0].replace_all_uses_with(whole)
        op.erase()
    if moved:
        run_passes(module, "builtin.module(canonicalize,cse)")


def groups_behind_product(value: ir.Value, moved: set[ir.Value]) -> Groups | None:
    """The dimensions that a product's result, or what `moved` holds, is split into; `None` of any other value."""
    made_by = maker(value)
    if made_by is None or made_by.name != "tensor.expand_shape":
        return None
    source = made_by.operands[0]
    before = maker(source)
    if source not in moved and (before is None or not linalg.isa_contraction_op(before)):
        return None
    return [[ir.IntegerAttr(d).value for d in group] for group in ir.ArrayAttr(made_by.attributes["reassociation"])]


def collapsed(amap: ir.AffineMap, groups: Groups) -> tuple[list[int], Groups] | None:
    """How an operand is read once groups of loops are one each, and which of its dimensions become one for that.

    `None` if it is read along a part of a group, or in another order.
    """
    read = dimensions(amap)
    if None in read:
        return None
    loops: list[int] = []
    parts: Groups = []
    while (start := sum(map(len, parts))) < len(read):
        number = next(i for i, group in enumerate(groups) if read[start] in group)
        stop = start + len(groups[number])
        if read[start:stop] != groups[number]:
            return None
        loops.append(number)
        parts.append(list(range(start, stop)))
    return loops, parts
