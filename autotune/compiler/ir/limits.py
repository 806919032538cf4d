"""Checks of untrusted programs and scripts before they are compiled and run, such as those of a received bundle.

A check returns its error as the rest of a sentence whose subject is the program: ``must ..., it ...``.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from math import prod

from mlir import ir

from autotune.compiler.ir.module import every_op, symbol
from autotune.compiler.ir.values import constant, is_constant
from autotune.compiler.ir.views import DYNAMIC, view_fault

# Dialects all of whose ops only compute, read and write arrays; of other dialects, the ops that do nothing else.
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
# Exceptions of those dialects: they print, or create tensors and memrefs from something else.
NO_OPS = ("vector.print", "bufferization.clone")
FLOATS = ("f16", "bf16", "f32", "f64", "f80", "f128")
NUMBERS = (ir.IntegerType, ir.IndexType, ir.FloatType, ir.ComplexType, ir.NoneType)
ARRAYS = (ir.RankedTensorType, ir.UnrankedTensorType, ir.MemRefType, ir.UnrankedMemRefType, ir.VectorType)
# Attributes that other dialects interpret: inline assembly, sections, linkage, data layout.
FOREIGN = ("llvm.", "dlti.", "gpu.", "spirv.", "nvvm.", "rocdl.", "omp.")
HARMLESS = ("llvm.emit_c_interface", "llvm.noalias")
NO_ATTRIBUTES = ("passthrough", "personality", "garbageCollector", "section", "linkage", "target_cpu")
# Patterns for text that is not parsed yet: what they look for would take the parser hours, or all memory.
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*')
RESOURCE = re.compile(r'([\w$.-]+|"(?:\\.|[^"\\])*"): "0x([0-9A-Fa-f]*)"')
ALIGNMENT = 4  # bytes before the data of a resource, which hold its alignment
ALIAS = re.compile(r"[#!](?:[0-9]+|[A-Za-z$._-][\w$.-]*)")
DEFINITION = re.compile(rf"({ALIAS.pattern})\s*=(?!=)")
OP_BEHIND = re.compile(r'(?<![:,=\s(\[{<])(?<!->)[ \t]*\n\s*(?=[A-Za-z_"%])')
MOST_ALIAS = 1 << 20
MOST_STEPS = 1 << 20  # executions of named sequences, counted through all includes
MOST_COPIES, MOST_ELEMENTS = 4096, 1 << 20  # copies of a loop body; elements of a vector or a pack's inner tile
FACTORS = {  # transform op -> attributes that multiply the size of its target, and their limits
    "transform.loop.unroll": {"factor": MOST_COPIES},
    "transform.loop.unroll_and_jam": {"factor": MOST_COPIES},
    "transform.loop.pipeline": {"iteration_interval": MOST_COPIES, "read_latency": MOST_COPIES},
    "transform.structured.vectorize": {"static_vector_sizes": MOST_ELEMENTS},
    "transform.structured.pack": {"static_packed_sizes": MOST_ELEMENTS},
    "transform.structured.pack_greedily": {"static_matmul_packed_sizes": MOST_ELEMENTS},
}
MOST_NESTING = 200  # brackets; MLIR's parser recurses into each, and its stack is finite


def nesting_fault(text: str) -> str | None:
    """Return an error if text is nested so deeply that the parser may overflow its stack; else `None`."""
    depth = deepest = 0
    for bracket in re.findall(r"[][(){}<>]", re.sub(r"->|[<>]=", "", text)):
        depth += 1 if bracket in "[({<" else -1
        deepest = max(deepest, depth)
    return (
        f"must not nest deeper than {MOST_NESTING} brackets, it goes to {deepest}" if deepest > MOST_NESTING else None
    )


def text_fault(text: str) -> str | None:
    """Return an error if text may crash or stall the parser; else `None`."""
    return nesting_fault(text) or alias_fault(text)


def alias_fault(text: str) -> str | None:
    """Return an error if an alias expands to more than `MOST_ALIAS` characters; else `None`.

    ``#b = [#a, #a]`` expands to twice the text of ``#a``, and MLIR walks all of it: 60 such lines would never finish.
    """
    lengths: dict[str, int] = {}
    for name, body in alias_bodies(text):
        nested_lengths = (lengths.get(each, 0) for each in ALIAS.findall(STRING.sub("", body)))
        lengths[name] = len(body) + sum(nested_lengths)
        if lengths[name] > MOST_ALIAS:
            return f"must hold aliases that stand for {MOST_ALIAS} characters at most, {name[:80]} stands for more"
    return None


def alias_bodies(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and definition of every alias in a text, in order.

    A definition ends where the next one begins, or at the end of a line after which an operation begins.
    """
    uncommented = COMMENT.sub(lambda match: match[1] or "", text)
    starts = list(DEFINITION.finditer(uncommented))
    ends = [*(start.start() for start in starts[1:]), len(uncommented)]
    for start, end in zip(starts, ends, strict=False):  # `ends` has one item more if there are no starts
        rest = uncommented[start.end() : end]
        stop = OP_BEHIND.search(rest)
        yield start[1], rest[: stop.start()] if stop else rest


def growth_fault(script: ir.Module) -> str | None:
    """Return an error if a script asks for more copies or elements than a program can hold; else `None`.

    MLIR materializes whatever a script asks for: unrolling a loop 2^25 times takes all of a time limit.
    """
    for op in every_op(script):
        for name, most in FACTORS.get(op.name, {}).items():
            if name in op.attributes and (count := product_of(op.attributes[name])) > most:
                return f"must ask {op.name} for {name.removeprefix('static_')} of {most} at most, it asks for {count}"
    return inclusion_fault(script)


def inclusion_fault(script: ir.Module) -> str | None:
    """Return why the includes of a script are refused; `None` if it runs at most `MOST_STEPS` named sequences.

    A chain of forty sequences that each include the next one twice would run the last one 2^40 times.
    """
    included = {
        str(symbol(each)): [op.attributes["target"].value for op in every_op(each) if op.name == "transform.include"]
        for each in every_op(script)
        if each.name == "transform.named_sequence"
    }
    steps = dict.fromkeys(included, 1)
    for name in TopologicalSorter(included).static_order():
        steps[name] = 1 + sum(steps.get(other, 1) for other in included.get(name, []))
    most = max(steps.values(), default=0)
    return f"must run {MOST_STEPS} sequences at most, it includes {most}" if most > MOST_STEPS else None


def product_of(attribute: ir.Attribute) -> int:
    """Return an integer attribute, or the product of an array of them; values known only at run time count as one."""
    if isinstance(attribute, ir.IntegerAttr):
        return int(attribute.value) % (1 << 64)
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return prod(max(1, int(size)) for size in attribute)
    if isinstance(attribute, ir.ArrayAttr):
        return prod(max(1, product_of(each)) for each in attribute)
    return 1


def program_fault(module: ir.Module) -> str | None:
    """Return an error if a program does more than to compute, such as calling an external function; else `None`."""
    if (fault := recursion_fault(module)) is not None:
        return fault
    for op in every_op(module):
        for fault in (step_fault(op), op_fault(op), symbol_fault(op), attribute_fault(op), value_fault(op)):
            if fault is not None:
                return fault
    return resource_fault(module)


def resource_fault(module: ir.Module) -> str | None:
    """Return an error if a dense resource has the wrong number of bytes, which MLIR's parser accepts; else `None`."""
    resources = [
        each for op in every_op(module) for each in map(resource_of, op.attributes.values()) if each is not None
    ]
    sizes = {name: len(digits) // 2 - ALIGNMENT for name, digits in RESOURCE.findall(str(module))} if resources else {}
    for attribute in resources:
        tensor_type, name = attribute.type, str(attribute).removeprefix("dense_resource<").partition(">")[0]
        bits = getattr(tensor_type.element_type, "width", 0)
        wanted = prod(tensor_type.shape) * bits // 8
        if bits >= 8 and sizes.get(name) != wanted:
            stored = f"has {sizes[name]}" if name in sizes else "has none"
            return f"must hold the {wanted} bytes of dense_resource<{name[:80]}>, it {stored}"
    return None


def resource_of(attribute: ir.Attribute) -> ir.DenseResourceElementsAttr | None:
    """Cast an attribute to `DenseResourceElementsAttr`, which MLIR's bindings do not do; `None` for any other."""
    if type(attribute) is not ir.Attribute:
        return None
    with suppress(ValueError):
        return ir.DenseResourceElementsAttr(attribute)
    return None


def recursion_fault(module: ir.Module) -> str | None:
    """Return an error if a function is recursive, as its calls would share buffers; else `None`."""
    call_graph = {
        str(symbol(function)): {op.attributes["callee"].value for op in every_op(function) if op.name == "func.call"}
        for function in module.body.operations
        if function.operation.name == "func.func"
    }
    try:
        tuple(TopologicalSorter(call_graph).static_order())
    except CycleError as error:
        return f"must hold no function that calls itself, @{error.args[1][0]} does, directly or through others"
    return None


def step_fault(op: ir.Operation) -> str | None:
    """Return an error if a loop has a constant step below 1, which is undefined in MLIR; else `None`."""
    least = min(steps_of(op), default=1)
    return None if least >= 1 else f"must step forward in its loops, an {op.name} steps by {least}"


def steps_of(op: ir.Operation) -> Iterator[int]:
    """Yield the constant steps of a loop; nothing for any other operation."""
    if op.name == "scf.for" and is_constant(op.operands[2]):
        yield constant(op.operands[2])
    elif op.name == "affine.for":
        yield int(ir.IntegerAttr(op.attributes["step"]).value)
    elif op.name == "scf.forall":
        yield from (step for step in ir.DenseI64ArrayAttr(op.attributes["staticStep"]) if step != DYNAMIC)


def op_fault(op: ir.Operation) -> str | None:
    """Return an error if an op does more than to compute and to access arrays within bounds; else `None`."""
    return view_fault(op) if computes(op.name) else f"must hold ops that compute alone, it has {op.name}"


def computes(name: str) -> bool:
    """Return whether ops of a name only compute, read and write arrays."""
    return name in OPS or (name.startswith(tuple(f"{d}." for d in COMPUTING)) and name not in NO_OPS)


def symbol_fault(op: ir.Operation) -> str | None:
    """Return an error if a symbol is declared but not defined in the program; else `None`."""
    if op.name == "func.func" and not list(op.regions[0].blocks):
        return f"must define every function it calls, @{symbol(op)} is outside"
    if op.name == "memref.global" and "initial_value" not in op.attributes:
        return f"must define every array it uses, @{symbol(op)} is outside"
    return None


def attribute_fault(op: ir.Operation) -> str | None:
    """Return an error if attributes of a module or function control linking or the system; else `None`."""
    if op.name not in ("builtin.module", "func.func", "memref.global"):
        return None
    for name in op.attributes:
        text = str(name)
        if text in NO_ATTRIBUTES or (text.startswith(FOREIGN) and text not in HARMLESS):
            return f"must leave to the compiler how it is linked, {op.name} has attribute {text}"
    return None


def value_fault(op: ir.Operation) -> str | None:
    """Return an error if a value is neither a number nor an array of numbers, such as a pointer; else `None`."""
    values = [*op.results, *(value for region in op.regions for block in region.blocks for value in block.arguments)]
    for value in values:
        if not is_data(value.type):
            return f"must compute with numbers and arrays of numbers, {op.name} has a value of type {value.type}"
        if not has_lowering(value.type):
            return f"must compute with floats of {', '.join(FLOATS)}, it has a value of type {value.type}"
    return None


def is_data(mlir_type: ir.Type) -> bool:
    """Return whether a type is a number, or an array of numbers."""
    while isinstance(mlir_type, ARRAYS):
        inner = mlir_type.element_type
        if isinstance(inner, ARRAYS) and not isinstance(inner, ir.VectorType):
            return False  # an array of arrays holds pointers
        mlir_type = inner
    return isinstance(mlir_type, NUMBERS)


def has_lowering(mlir_type: ir.Type) -> bool:
    """Return whether MLIR lowers the element type to LLVM; it does not for floats of 8 bits and fewer."""
    while isinstance(mlir_type, (*ARRAYS, ir.ComplexType)):
        mlir_type = mlir_type.element_type
    return not isinstance(mlir_type, ir.FloatType) or str(mlir_type) in FLOATS
