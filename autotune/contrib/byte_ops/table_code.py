"""Code of ours for marked functions of one byte, on buffers: a table of all results, and how they are read from it."""

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

LANES, BYTES = 64, 256  # bytes of a vector; all that there are
CHOOSE = "llvm.x86.avx512.vpermi2var.qi.512"


def write_byte_tables(module: ir.Module) -> None:
    """Write the code of every marked op.

    Raises:
        CompileError: Stage ``transform``; a marked op is no function of one byte.
    """
    for op in marked(module.operation, TABLE):
        (vectors,) = marked_numbers(op, TABLE)
        with ir.InsertionPoint(op), op.location:
            source, target = buffers_of(op)
            write_lookups(table_of(op), source, target, vectors)
        op.erase()


def buffers_of(op: ir.Operation) -> tuple[ir.Value, ir.Value]:
    """What an op reads and what it writes.

    Raises:
        CompileError: Stage ``transform``; it is no function of one byte.
    """
    kinds = [ir.MemRefType(each.type) for each in op.operands if isinstance(each.type, ir.MemRefType)]
    static = len(kinds) == len(op.operands) == 2 and all(kind.has_static_shape for kind in kinds)
    if not static or any(str(kind.element_type) != "i8" for kind in kinds):
        raise CompileError("transform", f"a function of a byte must have one buffer of bytes and give one, got {op}")
    source, target = op.operands
    return source, target


def table_of(op: ir.Operation) -> ir.Value:
    """A buffer of what an op gives of every byte, in the order of their bits."""
    kind = vector_of(LANES, "i8")
    table = memref.alloc(ir.MemRefType.get([BYTES], kind.element_type), [], [])
    for start in range(0, BYTES, LANES):
        numbers = [(start + lane + 128) % 256 - 128 for lane in range(LANES)]  # those bits, with a sign
        attributes = [ir.IntegerAttr.get(kind.element_type, number) for number in numbers]
        inputs = arith.constant(kind, ir.DenseElementsAttr.get(attributes, kind))
        body = op.regions[0].blocks[0]
        (found,) = in_vectors(body, {body.arguments[0]: inputs}, LANES)
        vector.store(found, table, [index(start)])
    return table


def write_lookups(table: ir.Value, source: ir.Value, target: ir.Value, vectors: int) -> None:
    """Read what a buffer's bytes stand for, row by row.

    Args:
        table: Table of all results.
        source: Bytes.
        target: Buffer of results, of the same shape.
        vectors: Vectors of a step.
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
                    found = vector.load(vector_of(LANES, "i8"), source, [*indices, first])
                    vector.store(looked_up(table, parts, found), target, [*indices, first])
                scf.yield_([])
            start = stop
        if start < columns:
            first, mask = [*indices, index(start)], vector.constant_mask(vector_of(LANES, "i1"), [columns - start])
            found = vector.maskedload(vector_of(LANES, "i8"), source, first, mask, splat(0, "i8", LANES))
            vector.maskedstore(target, first, mask, looked_up(table, parts, found))

    write_rows(rows, [], write_row)


def write_rows(rows: Sequence[int], indices: Sequence[ir.Value], write: Callable[[Sequence[ir.Value]], None]) -> None:
    """Loops over all dimensions but the last, around what is written of a row."""
    if not rows:
        write(indices)
        return
    loop = scf.ForOp(index(0), index(rows[0]), index(1))
    with ir.InsertionPoint(loop.body):
        write_rows(rows[1:], [*indices, loop.induction_variable], write)
        scf.yield_([])


def looked_up(table: ir.Value, parts: Sequence[ir.Value], found: ir.Value) -> ir.Value:
    """What bytes stand for: chosen among 128 twice; without the instruction, read from the table one by one."""
    if CHOOSES not in cpu_flags():
        words = arith.extui(vector_of(LANES, "i32"), found)
        everyone = splat(1, "i1", LANES)
        return vector.gather(found.type, table, [index(0)], words, everyone, found)
    low, high = (call_intrinsic(CHOOSE, [found.type], parts[at], found, parts[at + 1])[0] for at in (0, 2))
    is_high = arith.cmpi(arith.CmpIPredicate.slt, found, splat(0, "i8", LANES))
    return arith.select(is_high, high, low)
