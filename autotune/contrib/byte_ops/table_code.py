"""Lower marked element-wise functions of one i8, on memrefs, to a table of all 256 results and lookups in it."""

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from autotune.compiler.ir.values import index
from autotune.compiler.passes.marked_loops import marked, marked_numbers
from autotune.compiler.passes.rounding import call_intrinsic, splat, vector_of
from autotune.contrib.byte_ops.bodies import in_vectors
from autotune.contrib.byte_ops.marks import CHOOSES, TABLE
from autotune.core.errors import CompileError
from autotune.core.host.matrix_unit import cpu_flags

LANES, BYTES = 64, 256  # bytes of a vector; number of byte values
CHOOSE = "llvm.x86.avx512.vpermi2var.qi.512"


def write_byte_tables(module: ir.Module) -> None:
    """Replace every marked op by its code.

    Raises:
        CompileError: Stage ``transform``; a marked op is not a function of one i8.
    """
    for op in marked(module.operation, TABLE):
        (vectors,) = marked_numbers(op, TABLE)
        with ir.InsertionPoint(op), op.location:
            source, target = buffers_of(op)
            write_lookups(table_of(op), source, target, vectors)
        op.erase()


def buffers_of(op: ir.Operation) -> tuple[ir.Value, ir.Value]:
    """Return the input and the output memref of an op.

    Raises:
        CompileError: Stage ``transform``; the op is not a function of one i8.
    """
    types = [ir.MemRefType(each.type) for each in op.operands if isinstance(each.type, ir.MemRefType)]
    static = len(types) == len(op.operands) == 2 and all(memref_type.has_static_shape for memref_type in types)
    if not static or any(str(memref_type.element_type) != "i8" for memref_type in types):
        raise CompileError("transform", f"a function of a byte must have one buffer of bytes and give one, got {op}")
    source, target = op.operands
    return source, target


def table_of(op: ir.Operation) -> ir.Value:
    """Build a buffer of an op's results for every byte value, indexed by the unsigned value."""
    byte_vector = vector_of(LANES, "i8")
    table = memref.alloc(ir.MemRefType.get([BYTES], byte_vector.element_type), [], [])
    for start in range(0, BYTES, LANES):
        numbers = [(start + lane + 128) % 256 - 128 for lane in range(LANES)]  # the same bits as i8
        attributes = [ir.IntegerAttr.get(byte_vector.element_type, number) for number in numbers]
        inputs = arith.constant(byte_vector, ir.DenseElementsAttr.get(attributes, byte_vector))
        body = op.regions[0].blocks[0]
        (results,) = in_vectors(body, {body.arguments[0]: inputs}, LANES)
        vector.store(results, table, [index(start)])
    return table


def write_lookups(table: ir.Value, source: ir.Value, target: ir.Value, vectors: int) -> None:
    """Build the loops that look up every element of a memref, row by row.

    Args:
        table: Table of all results.
        source: Input memref of i8.
        target: Output memref of the same shape.
        vectors: Vectors per iteration.
    """
    *rows, columns = ir.MemRefType(source.type).shape
    parts = [vector.load(vector_of(LANES, "i8"), table, [index(start)]) for start in range(0, BYTES, LANES)]

    def write_row(indices: Sequence[ir.Value]) -> None:
        start = 0
        for count in (vectors, 1):
            stop = start + (columns - start) // (count * LANES) * count * LANES
            if start == stop:
                continue
            loop = scf.ForOp(index(start), index(stop), index(count * LANES))
            with ir.InsertionPoint(loop.body):
                for number in range(count):
                    first = arith.addi(loop.induction_variable, index(number * LANES))
                    inputs = vector.load(vector_of(LANES, "i8"), source, [*indices, first])
                    vector.store(looked_up(table, parts, inputs), target, [*indices, first])
                scf.yield_([])
            start = stop
        if start < columns:
            first, mask = [*indices, index(start)], vector.constant_mask(vector_of(LANES, "i1"), [columns - start])
            inputs = vector.maskedload(vector_of(LANES, "i8"), source, first, mask, splat(0, "i8", LANES))
            vector.maskedstore(target, first, mask, looked_up(table, parts, inputs))

    write_rows(rows, [], write_row)


def write_rows(rows: Sequence[int], indices: Sequence[ir.Value], write: Callable[[Sequence[ir.Value]], None]) -> None:
    """Build loops over all dimensions but the last, around the code of a row."""
    if not rows:
        write(indices)
        return
    loop = scf.ForOp(index(0), index(rows[0]), index(1))
    with ir.InsertionPoint(loop.body):
        write_rows(rows[1:], [*indices, loop.induction_variable], write)
        scf.yield_([])


def looked_up(table: ir.Value, parts: Sequence[ir.Value], inputs: ir.Value) -> ir.Value:
    """Look up a vector of bytes: by two permutes of 128 bytes each; without the instruction, by a gather."""
    if CHOOSES not in cpu_flags():
        indices = arith.extui(vector_of(LANES, "i32"), inputs)
        all_lanes = splat(1, "i1", LANES)
        return vector.gather(inputs.type, table, [index(0)], indices, all_lanes, inputs)
    low, high = (call_intrinsic(CHOOSE, [inputs.type], parts[at], inputs, parts[at + 1])[0] for at in (0, 2))
    is_high = arith.cmpi(arith.CmpIPredicate.slt, inputs, splat(0, "i8", LANES))
    return arith.select(is_high, high, low)
