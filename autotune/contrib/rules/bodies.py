"""Analysis of the bodies of structured operations, for native constraints of rules."""

from mlir import ir

from autotune.compiler.ir.nests import dimensions, indexing_maps, moves_elements
from autotune.compiler.ir.values import fill_of, maker

NAMED = {  # named elementwise operations, and their scalar operations
    "linalg.add": "arith.addf",
    "linalg.sub": "arith.subf",
    "linalg.mul": "arith.mulf",
    "linalg.div": "arith.divf",
    "linalg.negf": "arith.negf",
    "linalg.exp": "math.exp",
}
OF_TRUTH = ("arith.extui", "arith.uitofp", "arith.sitofp")  # conversions that keep 0 and 1
EQUAL = 0  # predicate of arith.cmpi
TWO = 2  # operands of a binary operation


def single(op: ir.Operation) -> ir.Operation | None:
    """Return the only operation in the body of a ``linalg.generic``, without constants; `None` if there are others."""
    if op.name != "linalg.generic" or len(op.results) != 1:
        return None
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    computing = [inner for inner in body[:-1] if inner.name != "arith.constant"]
    if len(computing) != 1 or len(computing[0].results) != 1 or list(body[-1].operands) != list(computing[0].results):
        return None
    return computing[0]


def operand_number(op: ir.Operation, value: ir.Value) -> int | None:
    """Return the index of the operand that a block argument stands for; `None` for another value."""
    block = op.regions[0].blocks[0]
    positions = [number for number, argument in enumerate(block.arguments) if argument == value]
    return positions[0] if positions else None


def is_whole(op: ir.Operation, number: int) -> bool:
    """Return whether the indexing maps of an operand and the result are both the identity."""
    maps = indexing_maps(op)
    rank = maps[-1].n_dims
    return dimensions(maps[number]) == dimensions(maps[-1]) == list(range(rank))


def computes_by_element(op: ir.Operation, name: ir.Attribute) -> bool:
    """Return whether an operation on tensors applies one scalar operation to its inputs, in order and of one shape."""
    wanted = ir.StringAttr(name).value
    if op.name in NAMED:
        return NAMED[op.name] == wanted and isinstance(op.results[0].type, ir.RankedTensorType)
    inner = single(op)
    if inner is None or inner.name != wanted or not isinstance(op.results[0].type, ir.RankedTensorType):
        return False
    positions = [operand_number(op, value) for value in inner.operands]
    return positions == list(range(len(op.operands) - 1)) and all(
        is_whole(op, position) for position in positions if position is not None
    )


def number_of(attribute: ir.Attribute) -> float | None:
    """Return the number of a scalar or splat constant; `None` for any other."""
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            return None
        attribute = attribute.get_splat_value()
    return float(attribute.value) if isinstance(attribute, ir.FloatAttr) else None


def known_number(value: ir.Value) -> float | None:
    """Return the number of a scalar constant, splat constant or filled tensor; `None` for another value."""
    fill = fill_of(value)
    made_by = maker(fill.operands[0] if fill is not None else value)
    return number_of(made_by.attributes["value"]) if made_by is not None and made_by.name == "arith.constant" else None


def same_number(number: float | None, wanted: float) -> bool:
    """Return whether two numbers are equal, including the sign of zero."""
    return number is not None and number == wanted and str(number) == str(wanted)


def beside(op: ir.Operation, name: ir.Attribute, number: ir.Attribute) -> ir.Value | None:
    """Return the operand of a binary operation whose other operand is the given number; it has the result's type.

    The operation is on scalars, vectors or tensors, or in the body of a ``linalg.generic``. If it does not commute, the
    number must be the second operand. Return `None` if there is no such operand.
    """
    scalar_name, wanted_number = ir.StringAttr(name).value, float(ir.FloatAttr(number).value)
    inner = op if op.name == scalar_name else single(op)
    if op.name in NAMED and NAMED[op.name] == scalar_name and len(op.operands) > TWO:
        return beside_in(list(op.operands)[:TWO], wanted_number, op, scalar_name)
    if inner is None or inner.name != scalar_name or len(inner.operands) != TWO:
        return None
    if inner is op:
        return beside_in(list(op.operands), wanted_number, op, scalar_name)
    values = []
    for value in inner.operands:
        position = operand_number(op, value)
        if position is not None and position >= len(op.operands) - 1:
            return None  # the output operand: a reduction
        whole = position is not None and (is_whole(op, position) or known_number(op.operands[position]) is not None)
        if position is not None and not whole:
            return None
        values.append(op.operands[position] if position is not None else value)
    return beside_in(values, wanted_number, op, scalar_name)


def beside_in(values: list[ir.Value], number: float, op: ir.Operation, name: str) -> ir.Value | None:
    """Return the one of two values whose other is the number, if it has the type of the result; else `None`."""
    first, second = values
    if same_number(known_number(second), number) and first.type == op.results[0].type:
        return first
    commutes = name in ("arith.addf", "arith.mulf")
    if commutes and same_number(known_number(first), number) and second.type == op.results[0].type:
        return second
    return None


def permutation_of(op: ir.Operation) -> list[int] | None:
    """Return the input dimension of each result dimension if an operation is a transpose; else `None`."""
    if op.name not in ("linalg.transpose", "linalg.generic") or not moves_elements(op):
        return None
    read, written = map(dimensions, indexing_maps(op))
    present = [d for d in written if d is not None]
    if None in read or len(set(present)) != len(written) or sorted(present) != sorted(d for d in read if d is not None):
        return None
    return [read.index(d) for d in written]


def undoes(op: ir.Operation, other: ir.Operation) -> ir.Value | None:
    """Return the input of the inner transpose if the outer one is its inverse; else `None`."""
    second, first = permutation_of(op), permutation_of(other)
    if first is None or second is None or op.operands[0] != other.results[0]:
        return None
    composed = [first[d] for d in second]
    same_type = other.operands[0].type == op.results[0].type
    return other.operands[0] if composed == list(range(len(composed))) and same_type else None


def is_same_along_rows(op: ir.Operation, value: ir.Value) -> bool:
    """Return whether a value of an elementwise body is invariant along the last dimension."""
    position = operand_number(op, value)
    if position is None:
        return maker(value) is not None and known_number(value) is not None
    maps = indexing_maps(op)
    last = maps[-1].n_dims - 1
    return position < len(op.operands) - 1 and all(d is not None and d != last for d in dimensions(maps[position]))


def shifted(op: ir.Operation) -> ir.Value | None:
    """Return the tensor that an operation adds one number for each row to, or subtracts it from; else `None`."""
    inner = single(op)
    if inner is None or inner.name not in ("arith.addf", "arith.subf") or len(inner.operands) != TWO:
        return None
    pairs = [tuple(inner.operands)]
    if inner.name == "arith.addf":
        pairs.append((inner.operands[1], inner.operands[0]))
    for moved, shift in pairs:
        position = operand_number(op, moved)
        if position is None or position >= len(op.operands) - 1 or not is_whole(op, position):
            continue
        if is_same_along_rows(op, shift) and op.operands[position].type == op.results[0].type:
            operand: ir.Value = op.operands[position]
            return operand
    return None


def takes_off_rows(op: ir.Operation) -> bool:
    """Return whether an operation subtracts its second input, one number for each row, from its first one."""
    inner = single(op)
    if inner is None or inner.name != "arith.subf" or len(op.operands) != TWO + 1:
        return False
    in_order = [operand_number(op, value) for value in inner.operands] == [0, 1] and is_whole(op, 0)
    rank = indexing_maps(op)[-1].n_dims
    return in_order and dimensions(indexing_maps(op)[1]) in ([*range(rank - 1)], [*range(rank - 1), None])


def is_row_maximum(op: ir.Operation) -> bool:
    """Return whether an operation computes the maximum of every row of its input, starting from minus infinity."""
    inner = single(op)
    if inner is None or inner.name not in ("arith.maximumf", "arith.maxnumf") or len(op.operands) != TWO:
        return False
    if sorted(position for v in inner.operands if (position := operand_number(op, v)) is not None) != [0, 1]:
        return False
    read, written = map(dimensions, indexing_maps(op))
    rank = indexing_maps(op)[0].n_dims
    by_rows = read == list(range(rank)) and written in ([*range(rank - 1)], [*range(rank - 1), None])
    return by_rows and known_number(op.operands[1]) == float("-inf")


def compares_indices(op: ir.Operation) -> bool:
    """Return whether a ``linalg.generic`` without inputs writes an identity matrix, by comparing its two indices."""
    if len(op.operands) != 1 or [dimensions(amap) for amap in indexing_maps(op)] != [[0, 1]]:
        return False
    shape = op.results[0].type.shape
    source = maker(op.regions[0].blocks[0].operations[-1].operands[0])
    while source is not None and source.name in OF_TRUTH:
        if source.name == "arith.sitofp" and str(source.operands[0].type) == "i1":
            return False  # true becomes -1
        source = maker(source.operands[0])
    if source is None or source.name != "arith.cmpi" or ir.IntegerAttr(source.attributes["predicate"]).value != EQUAL:
        return False
    makers = [maker(value) for value in source.operands]
    indices = [each for each in makers if each is not None and each.name == "linalg.index"]
    return {ir.IntegerAttr(index.attributes["dim"]).value for index in indices} == {0, 1} and shape[0] == shape[1]


def is_used_once(op: ir.Operation) -> bool:
    """Return whether the results of an operation have exactly one use."""
    return sum(1 for result in op.results for _ in result.uses) == 1
