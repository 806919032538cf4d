"""Rewrite index computations so that they vectorize: argmax and argmin, and indices that are broadcast along a row.

An operation with two results becomes two operations with one:

    (m, i) = argmax x   ->   m = max x;  p = 0, 1, 2, ...;  i = min of p where x = m, or x is NaN

The first of equal elements is taken, as before. If a row contains NaN, m is NaN and i is the index of the first NaN, as
in NumPy and PyTorch. Indices of 64 bits are computed in 32 bits if they fit, and extended.

Indices that are broadcast before elements are read at them are read from the source, once per row:

    P[i, j] = ids[i];  y[i, j] = x[P[i, j], j]   ->   y[i, j] = x[ids[i], j]

The index is then uniform along a row, which is read in vectors.
"""

from math import inf, prod

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.ir.module import every_op, run_passes
from autotune.compiler.ir.nests import dimensions, indexing_maps, loop_nest, moves_elements
from autotune.compiler.ir.values import fill_of, is_constant, maker
from autotune.compiler.normalise.emit import dims, filled, flat, generic, unflat
from autotune.compiler.normalise.gather.long_rows import LEAST, LongRow

EXTREMA = {"arith.maximumf": "arith.cmpf ogt", "arith.minimumf": "arith.cmpf olt"}
WORST = {"arith.maximumf": -inf, "arith.minimumf": inf}  # neutral elements
COMPARISONS = {2: "arith.cmpf ogt", 4: "arith.cmpf olt"}  # by enum value of the predicate
BODY = 6  # number of scalar operations in the body of an argmax
NARROW = 32  # bits of computed indices: a vector holds twice as many as of 64 bits


def split_argmax(module: ir.Module) -> None:
    """Split operations that compute an extremum and its index, in place."""
    for op in [op for op in every_op(module) if op.name == "linalg.generic"]:  # the body is erased with its operation
        loop = argmax_loop(op)
        if loop is not None:
            split(op, loop)


def argmax_loop(op: ir.Operation) -> int | None:
    """Match an argmax or argmin that takes the first index; return its reduction loop, `None` if it does not match."""
    block = op.regions[0].blocks[0]
    body = [inner.operation for inner in block.operations]
    if len(op.operands) != len(block.arguments) or len(op.results) != 2 or len(block.arguments) != 3:
        return None
    x, accumulator, index_so_far = block.arguments
    end = body[-1]
    extremum, chosen = (maker(value) for value in end.operands)
    if len(body) != BODY or extremum is None or chosen is None or chosen.name != "arith.select":
        return None
    compared, index = maker(chosen.operands[0]), maker(chosen.operands[1])
    number = maker(index.operands[0]) if index is not None and index.name == "arith.index_cast" else None
    if compared is None or compared.name != "arith.cmpf" or number is None or number.name != "linalg.index":
        return None
    expected = COMPARISONS.get(ir.IntegerAttr(compared.attributes["predicate"]).value)
    is_consistent = EXTREMA.get(extremum.name) == expected and list(compared.operands) == [x, accumulator]
    if not is_consistent or set(extremum.operands) != {x, accumulator} or chosen.operands[2] != index_so_far:
        return None
    return int(ir.IntegerAttr(number.attributes["dim"]).value)


def split(op: ir.Operation, loop: int) -> None:
    """Replace an argmax along a loop by a reduction and an index search, if it starts from the neutral element and 0.

    The index in one long row is searched by blocks; if the index is unused, the reduction alone is enough.
    """
    x, start, first = op.operands
    nest, (read, written, _) = loop_nest(op), indexing_maps(op)
    extremum = maker(op.regions[0].blocks[0].operations[BODY - 1].operands[0])
    if nest is None or extremum is None or not is_filled(start, WORST[extremum.name]) or not is_filled(first, 0):
        return
    last = nest.sizes[loop] - 1
    wide = first.type.element_type
    index_type = ir.IntegerType.get_signless(NARROW) if is_index(wide) and last < 1 << NARROW - 1 else wide

    def combine(value: ir.Value, there: ir.Value) -> ir.Value:
        named = arith.maximumf if extremum.name == "arith.maximumf" else arith.minimumf
        return named(value, there, fastmath=extremum.attributes["fastmath"])

    def is_it(value: ir.Value, most: ir.Value) -> ir.Value:
        equal = arith.cmpf(arith.CmpFPredicate.OEQ, value, most)
        return arith.ori(equal, arith.cmpf(arith.CmpFPredicate.UNO, value, value))

    def nearer(value: ir.Value, most: ir.Value, index: ir.Value, there: ir.Value) -> ir.Value:
        return arith.minsi(there, arith.select(is_it(value, most), index, arith.constant(index_type, last)))

    def find_in_rows() -> tuple[ir.Value, ir.Value]:
        most = generic([x], start, [read, written], list(nest.iterators), combine)
        far = filled(first.type.shape, index_type, arith.constant(index_type, last))
        line, along = tensor.empty([last + 1], index_type), ir.AffineMap.get(read.n_dims, 0, [dims(read.n_dims)[loop]])
        one = [ir.AffineMap.get_identity(1)]
        indices = generic([], line, one, ["parallel"], lambda _: arith.index_cast(index_type, linalg.IndexOp(0).result))
        maps = [read, written, along, written]
        return most, generic([x, most, indices], far, maps, list(nest.iterators), nearer)

    with ir.InsertionPoint(op), op.location:
        if not any(True for _ in op.results[1].uses):
            op.results[0].replace_all_uses_with(generic([x], start, [read, written], list(nest.iterators), combine))
            op.erase()
            return
        if prod(nest.sizes) == last + 1 >= LEAST and prod(x.type.shape) == last + 1:
            row = flat(x, [range(len(x.type.shape))])
            both = LongRow(row, start.owner.operands[0], combine, is_it, index_type).find()
            most, argmax = (unflat(each, [], start.type.shape) for each in both)
        else:
            most, argmax = find_in_rows()
        op.results[0].replace_all_uses_with(most)
        if index_type != wide:
            rank = len(first.type.shape)
            whole, into = [ir.AffineMap.get_identity(rank)] * 2, tensor.empty(first.type.shape, wide)
            argmax = generic([argmax], into, whole, ["parallel"] * rank, lambda at, _: arith.extsi(wide, at))
    op.results[1].replace_all_uses_with(argmax)
    op.erase()


def is_filled(value: ir.Value, number: float) -> bool:
    """Return whether a tensor is filled with a constant."""
    fill = fill_of(value)
    if fill is None or not is_constant(fill.operands[0]):
        return False
    return bool(fill.operands[0].owner.attributes["value"].value == number)


def is_index(mlir_type: ir.Type) -> bool:
    """Return whether a type is a 64-bit integer."""
    return isinstance(mlir_type, ir.IntegerType) and mlir_type.width == 2 * NARROW


COPIES = ("linalg.generic", "linalg.broadcast", "linalg.transpose")


def gather_before_broadcast(module: ir.Module) -> None:
    """Let operations that extract elements read the source of broadcast operands, in place."""
    changed = False
    for op in every_op(module):
        if op.name == "linalg.generic" and reads_elements(op):
            for number in range(len(op.operands) - len(op.results)):
                while (source := copied_from(op.operands[number])) is not None:
                    read_from(op, number, source)
                    changed = True
    if changed:
        run_passes(module, "builtin.module(canonicalize,cse)")


def reads_elements(op: ir.Operation) -> bool:
    """Return whether a body extracts elements of tensors."""
    return any(inner.operation.name == "tensor.extract" for inner in op.regions[0].blocks[0].operations)


def copied_from(value: ir.Value) -> ir.Operation | None:
    """Return the operation that copies or broadcasts a tensor to a value; `None` if there is none."""
    op = maker(value)
    if op is None or op.name not in COPIES or not moves_elements(op):
        return None
    read, written = map(dimensions, indexing_maps(op))
    return op if None not in read and written == list(range(len(written))) else None


def read_from(op: ir.Operation, number: int, copy: ir.Operation) -> None:
    """Replace an operand by the source of a copy, with the composed indexing map."""
    maps, (read, _) = indexing_maps(op), indexing_maps(copy)
    amap = maps[number]
    maps[number] = ir.AffineMap.get(amap.n_dims, 0, [expr.compose(amap) for expr in read.results])
    op.operands[number] = copy.operands[0]
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])
