"""Convert an imported module to the form that a payload must have.

Functions from tensors to tensors, as importers write them, become functions over memrefs, and calls are inlined, so
that types, tensors and tasks of callees are handled as well. Assertions are erased. LLVM intrinsics without side
effects, as in upstream examples, become the equivalent operations of ``arith`` and ``math``
(https://mlir.llvm.org/docs/Dialects/LLVM/), which can be vectorized and lowered. Operations of ``math`` that lower only
on scalars and 1-D vectors become plain arithmetic.
"""

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, bufferization, func, math

from autotune.compiler.ir.arguments import ROLE, pad, say
from autotune.compiler.ir.module import every_op, replace_ops, run_passes, symbol
from autotune.compiler.ir.values import splat_of
from autotune.compiler.normalise.decompose import decompose
from autotune.compiler.normalise.shapes.slices import cut_negative_pads, step_once_along_one
from autotune.compiler.normalise.shared_starts import copy_shared_starts
from autotune.compiler.normalise.taken_names import leave_names_of_c
from autotune.compiler.normalise.types.booleans import store_booleans_as_bytes
from autotune.compiler.normalise.types.halves import compute_in_singles
from autotune.compiler.normalise.types.narrow_factors import say_narrow_factors
from autotune.core.errors import PayloadError


def adopt(module: ir.Module, entry: Callable[[], ir.OpView]) -> bool:
    """Rewrite constructs of importers that a payload must not have, in place; return whether there were any.

    Args:
        module: Module.
        entry: Function that returns the current public function of the module.

    Raises:
        PayloadError: A tensor in the signature of the function has no static shape, or the function has several blocks.
    """
    changed = [
        take_memrefs(entry()),
        leave_names_of_c(module),
        inline_calls(module),
        say_narrow_factors(module),
        drop_asserts(module),
        decompose(module),
        store_booleans_as_bytes(module),
        replace_intrinsics(module),
        write_plainly(module),
        compute_in_singles(module),
        cut_negative_pads(module),
        step_once_along_one(module),
        copy_shared_starts(module),
    ]
    return any(changed)


RESULTS = "res_attrs"


def take_memrefs(function: ir.OpView) -> bool:
    """Convert tensor arguments of a function to memrefs, and its results to trailing memref arguments, in place.

    Args:
        function: Function.

    Returns:
        Whether the function was changed.

    Raises:
        PayloadError: A tensor has no static shape, a result is no tensor, or there are several blocks.
    """
    function_type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    inputs, results = list(function_type.inputs), list(function_type.results)
    if not results and not any(map(is_tensor, inputs)):
        return False
    block, *more_blocks = function.regions[0].blocks
    if more_blocks:
        raise PayloadError(
            f"a function of tensors must be one block, @{symbol(function)} has {1 + len(more_blocks)}; branch by scf.if"
        )
    for number, value in enumerate(list(block.arguments)):
        if is_tensor(value.type):
            read_from_memref(block, value, number)
    write_results(block, results)
    new_inputs = [value.type for value in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(new_inputs, []))
    if RESULTS in function.attributes:
        del function.attributes[RESULTS]
    pad(function)
    say(function, {number: {ROLE: ir.StringAttr.get("output")} for number in range(len(inputs), len(new_inputs))})
    return True


def is_tensor(mlir_type: ir.Type) -> bool:
    """Return whether a type is a tensor."""
    return isinstance(mlir_type, (ir.RankedTensorType, ir.UnrankedTensorType))


def memref_of(mlir_type: ir.Type, name: str) -> ir.MemRefType:
    """Return the memref type that holds a tensor.

    Raises:
        PayloadError: The type is not a tensor of static shape.
    """
    if not isinstance(mlir_type, ir.RankedTensorType) or not mlir_type.has_static_shape:
        raise PayloadError(
            f"{name} must be a tensor of static shape, it is {mlir_type}; export the model at fixed sizes"
        )
    return ir.MemRefType.get(mlir_type.shape, mlir_type.element_type)


def read_from_memref(block: ir.Block, value: ir.Value, number: int) -> None:
    """Change a block argument to a memref, and replace its uses by a tensor read from it."""
    tensor_type = value.type
    value.set_type(memref_of(tensor_type, f"argument {number}"))
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        contents = bufferization.to_tensor(tensor_type, value, restrict=True)
    value.replace_all_uses_except(contents, contents.owner.operation)


def write_results(block: ir.Block, kinds: Sequence[ir.Type]) -> None:
    """Write the values that a block returns to new arguments."""
    end = block.operations[len(block.operations) - 1].operation
    results = list(end.operands)
    with ir.InsertionPoint(end), ir.Location.unknown():
        for number, (value, tensor_type) in enumerate(zip(results, kinds, strict=True)):
            target = block.add_argument(memref_of(tensor_type, f"result {number}"), ir.Location.unknown())
            bufferization.materialize_in_destination(None, value, target, restrict=True, writable=True)
        func.ReturnOp([])
    end.erase()


CALL = "func.call"


def inline_calls(module: ir.Module) -> bool:
    """Inline function calls, in place, if one passes tensors; return whether any does."""
    calls = [op for op in every_op(module) if op.name == CALL]
    passes_tensors = any(is_tensor(value.type) for op in calls for value in (*op.operands, *op.results))
    if passes_tensors:
        run_passes(module, "builtin.module(inline,symbol-dce)")
    return passes_tensors


ASSERT = "cf.assert"


def drop_asserts(module: ir.Module) -> bool:
    """Erase every ``cf.assert`` and the operations that only it uses, in place; return whether there were any."""
    asserts = [op for op in every_op(module) if op.name == ASSERT]
    for op in asserts:
        op.erase()
    if asserts:
        run_passes(module, "builtin.module(canonicalize)")
    return bool(asserts)


INTRINSICS = {
    "llvm.intr.maxnum": "arith.maxnumf",
    "llvm.intr.minnum": "arith.minnumf",
    "llvm.intr.maximum": "arith.maximumf",
    "llvm.intr.minimum": "arith.minimumf",
    "llvm.intr.fma": "math.fma",
    "llvm.intr.fabs": "math.absf",
    "llvm.intr.sqrt": "math.sqrt",
    "llvm.intr.exp": "math.exp",
    "llvm.intr.exp2": "math.exp2",
    "llvm.intr.log": "math.log",
    "llvm.intr.log2": "math.log2",
    "llvm.intr.pow": "math.powf",
    "llvm.intr.sin": "math.sin",
    "llvm.intr.cos": "math.cos",
    "llvm.intr.floor": "math.floor",
    "llvm.intr.ceil": "math.ceil",
    "llvm.intr.copysign": "math.copysign",
    "llvm.intr.smax": "arith.maxsi",
    "llvm.intr.smin": "arith.minsi",
    "llvm.intr.umax": "arith.maxui",
    "llvm.intr.umin": "arith.minui",
}


def replace_intrinsics(module: ir.Module) -> bool:
    """Replace LLVM intrinsics by operations of ``arith`` and ``math``, in place; return whether there were any."""

    def write(op: ir.Operation) -> ir.Value:
        return ir.Operation.create(INTRINSICS[op.name], [op.results[0].type], list(op.operands)).result

    return replace_ops(module, [op for op in every_op(module) if op.name in INTRINSICS], write)


def write_plainly(module: ir.Module) -> bool:
    """Expand operations of ``math`` in `PLAIN` to plain arithmetic, in place; return whether there were any."""
    operations = [op for op in every_op(module) if op.name in PLAIN]
    return replace_ops(module, operations, lambda op: PLAIN[op.name](op.operands[0]))


def magnitude(x: ir.Value) -> ir.Value:
    """Build the absolute value of an integer as max(x, -x); the smallest integer is returned unchanged."""
    return arith.maxsi(x, arith.subi(splat_of(x.type, 0), x))


def is_nan(x: ir.Value) -> ir.Value:
    """Build the test whether a float is NaN."""
    return arith.cmpf(arith.CmpFPredicate.UNO, x, x)


def is_infinite(x: ir.Value) -> ir.Value:
    """Build the test whether a float is infinite."""
    return arith.cmpf(arith.CmpFPredicate.OEQ, math.absf(x), splat_of(x.type, float("inf")))


def is_finite(x: ir.Value) -> ir.Value:
    """Build the test whether a float is finite, that is, neither infinite nor NaN."""
    return arith.cmpf(arith.CmpFPredicate.OLT, math.absf(x), splat_of(x.type, float("inf")))


PLAIN: dict[str, Callable[[ir.Value], ir.Value]] = {
    "math.absi": magnitude,
    "math.isnan": is_nan,
    "math.isinf": is_infinite,
    "math.isfinite": is_finite,
}
