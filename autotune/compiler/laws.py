"""What a program may hold that is compiled and run, so that whoever gets a bundle of it can check and replay it.

A fault is the rest of a sentence that begins with where the program is: ``must ..., it ...``.
"""

import re

from mlir import ir

from autotune.compiler.module import every_op, symbol

# Dialects whose ops compute, read and write arrays, whatever they are; of others, the ops that do nothing else.
COMPUTING = ("linalg", "tensor", "arith", "math", "scf", "affine", "vector", "index", "ub", "bufferization")
OPS = frozenset(
    (
        *("builtin.module", "func.func", "func.call", "func.return"),
        *("memref.alloc", "memref.alloca", "memref.alloca_scope", "memref.alloca_scope.return", "memref.dealloc"),
        *("memref.load", "memref.store", "memref.copy", "memref.prefetch", "memref.dim", "memref.rank"),
        *("memref.cast", "memref.subview", "memref.view", "memref.reinterpret_cast", "memref.transpose"),
        *("memref.expand_shape", "memref.collapse_shape", "memref.reshape", "memref.assume_alignment"),
        *("memref.distinct_objects", "memref.memory_space_cast", "memref.global", "memref.get_global"),
        *("memref.atomic_rmw", "memref.generic_atomic_rmw", "memref.atomic_yield"),
    )
)
# They print, or make tensors and memrefs of what is none.
NO_OPS = ("vector.print", "bufferization.clone")
NUMBERS = (ir.IntegerType, ir.IndexType, ir.FloatType, ir.ComplexType, ir.NoneType)
ARRAYS = (ir.RankedTensorType, ir.UnrankedTensorType, ir.MemRefType, ir.UnrankedMemRefType, ir.VectorType)
# Attributes that other dialects read: assembler text, sections, linkage, layout of data.
FOREIGN = ("llvm.", "dlti.", "gpu.", "spirv.", "nvvm.", "rocdl.", "omp.")
HARMLESS = ("llvm.emit_c_interface", "llvm.noalias")
NO_ATTRIBUTES = ("passthrough", "personality", "garbageCollector", "section", "linkage", "target_cpu")
MOST_NESTING = 200  # brackets; MLIR's parser descends into each, and its stack is finite


def nesting_fault(text: str) -> str | None:
    """What is wrong with text nested so deep that a parser might not come back; `None` if nothing is."""
    depth = deepest = 0
    for bracket in re.findall(r"[][(){}<>]", re.sub(r"->|[<>]=", "", text)):
        depth += 1 if bracket in "[({<" else -1
        deepest = max(deepest, depth)
    return (
        f"must not nest deeper than {MOST_NESTING} brackets, it goes to {deepest}" if deepest > MOST_NESTING else None
    )


def program_fault(module: ir.Module) -> str | None:
    """What a program does besides computing, such as calling somebody outside; `None` if nothing."""
    for op in every_op(module):
        for fault in (op_fault(op), symbol_fault(op), attribute_fault(op), value_fault(op)):
            if fault is not None:
                return fault
    return None


def op_fault(op: ir.Operation) -> str | None:
    """What is wrong with an op that does more than to compute, and to read and write arrays."""
    return None if computes(op.name) else f"must hold ops that compute alone, it has {op.name}"


def computes(name: str) -> bool:
    """Tell whether an op of a name computes, and reads and writes arrays, alone."""
    return name in OPS or (name.startswith(tuple(f"{d}." for d in COMPUTING)) and name not in NO_OPS)


def symbol_fault(op: ir.Operation) -> str | None:
    """What is wrong with a symbol that is not defined in the program."""
    if op.name == "func.func" and not list(op.regions[0].blocks):
        return f"must define every function it calls, @{symbol(op)} is outside"
    if op.name == "memref.global" and "initial_value" not in op.attributes:
        return f"must define every array it uses, @{symbol(op)} is outside"
    return None


def attribute_fault(op: ir.Operation) -> str | None:
    """What is wrong with attributes of a module or function that tell the system what to do with it."""
    if op.name not in ("builtin.module", "func.func", "memref.global"):
        return None
    for name in op.attributes:
        text = str(name)
        if text in NO_ATTRIBUTES or (text.startswith(FOREIGN) and text not in HARMLESS):
            return f"must leave to the compiler how it is linked, {op.name} has attribute {text}"
    return None


def value_fault(op: ir.Operation) -> str | None:
    """What is wrong with values that are neither numbers nor arrays of numbers: addresses and functions."""
    values = [*op.results, *(value for region in op.regions for block in region.blocks for value in block.arguments)]
    for value in values:
        if not is_data(value.type):
            return f"must compute with numbers and arrays of numbers, {op.name} has a value of type {value.type}"
    return None


def is_data(kind: ir.Type) -> bool:
    """Whether a type is a number, or an array of numbers."""
    while isinstance(kind, ARRAYS):
        inner = kind.element_type
        if isinstance(inner, ARRAYS) and not isinstance(inner, ir.VectorType):
            return False  # an array of arrays is one of addresses
        kind = inner
    return isinstance(kind, NUMBERS)
