"""Adopting: a module as others write it becomes one that a payload may be.

Functions from tensors to tensors, as importers write them, become functions over memrefs; what they call becomes a part
of them, so that its types, tensors and tasks are seen as theirs are. Assertions go, being no part
of what is computed. Intrinsics of LLVM that only compute, as upstream's examples have them, become the ops of ``arith``
and ``math`` that mean the same (https://mlir.llvm.org/docs/Dialects/LLVM/), which vectorize and lower. Ops of ``math``
that become machine code on scalars and vectors of one dimension alone become plain arithmetic.
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
    """Change what no payload may have and every importer writes, in place; tells whether there was any.

    Args:
        module: The module.
        entry: Gives its public function, as it is by then.

    Raises:
        PayloadError: A tensor of the function's signature has no static shape, or the function has several blocks.
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
    """Let a function read its tensors from memrefs, and write its results to memrefs behind them, in place.

    Args:
        function: The function.

    Returns:
        Whether anything had to be changed.

    Raises:
        PayloadError: A tensor has no static shape, a result is no tensor, or there are several blocks.
    """
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    inputs, results = list(kind.inputs), list(kind.results)
    if not results and not any(map(is_tensor, inputs)):
        return False
    block, *others = function.regions[0].blocks
    if others:
        raise PayloadError(
            f"a function of tensors must be one block, @{symbol(function)} has {1 + len(others)}; branch by scf.if"
        )
    for number, value in enumerate(list(block.arguments)):
        if is_tensor(value.type):
            read_from_memref(block, value, number)
    write_results(block, results)
    kinds = [value.type for value in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))
    if RESULTS in function.attributes:
        del function.attributes[RESULTS]
    pad(function)
    say(function, {number: {ROLE: ir.StringAttr.get("output")} for number in range(len(inputs), len(kinds))})
    return True


def is_tensor(kind: ir.Type) -> bool:
    """Tell whether a type is that of tensors."""
    return isinstance(kind, (ir.RankedTensorType, ir.UnrankedTensorType))


def memref_of(kind: ir.Type, what: str) -> ir.MemRefType:
    """The memref that holds a tensor.

    Raises:
        PayloadError: The type is no tensor of static shape.
    """
    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
        raise PayloadError(f"{what} must be a tensor of static shape, it is {kind}; export the model at fixed sizes")
    return ir.MemRefType.get(kind.shape, kind.element_type)


def read_from_memref(block: ir.Block, value: ir.Value, number: int) -> None:
    """Make a block argument a memref, and what reads it read the tensor there."""
    kind = value.type
    value.set_type(memref_of(kind, f"argument {number}"))
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        held = bufferization.to_tensor(kind, value, restrict=True)
    value.replace_all_uses_except(held, held.owner.operation)


def write_results(block: ir.Block, kinds: Sequence[ir.Type]) -> None:
    """Write what a block returns to new arguments."""
    end = block.operations[len(block.operations) - 1].operation
    results = list(end.operands)
    with ir.InsertionPoint(end), ir.Location.unknown():
        for number, (value, kind) in enumerate(zip(results, kinds, strict=True)):
            target = block.add_argument(memref_of(kind, f"result {number}"), ir.Location.unknown())
            bufferization.materialize_in_destination(None, value, target, restrict=True, writable=True)
        func.ReturnOp([])
    end.erase()


CALL = "func.call"


def inline_calls(module: ir.Module) -> bool:
    """Put the bodies of functions where they are called, in place, if one is of tensors; tells whether any was."""
    calls = [op for op in every_op(module) if op.name == CALL]
    is_called = any(is_tensor(value.type) for op in calls for value in (*op.operands, *op.results))
    if is_called:
        run_passes(module, "builtin.module(inline,symbol-dce)")
    return is_called


ASSERT = "cf.assert"


def drop_asserts(module: ir.Module) -> bool:
    """Erase every ``cf.assert``, and what was computed for it alone, in place; tells whether there was any."""
    found = [op for op in every_op(module) if op.name == ASSERT]
    for op in found:
        op.erase()
    if found:
        run_passes(module, "builtin.module(canonicalize)")
    return bool(found)


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
    """Replace every intrinsic that has such an op, in place; tells whether there was any."""

    def write(op: ir.Operation) -> ir.Value:
        return ir.Operation.create(INTRINSICS[op.name], [op.results[0].type], list(op.operands)).result

    return replace_ops(module, [op for op in every_op(module) if op.name in INTRINSICS], write)


def write_plainly(module: ir.Module) -> bool:
    """Write every such op as plain arithmetic, in place; tells whether there was any."""
    found = [op for op in every_op(module) if op.name in PLAIN]
    return replace_ops(module, found, lambda op: PLAIN[op.name](op.operands[0]))


def magnitude(x: ir.Value) -> ir.Value:
    """The larger of a whole number and its negative; the least number of its type stays as it is."""
    return arith.maxsi(x, arith.subi(splat_of(x.type, 0), x))


def is_nan(x: ir.Value) -> ir.Value:
    """Whether a number is none."""
    return arith.cmpf(arith.CmpFPredicate.UNO, x, x)


def is_infinite(x: ir.Value) -> ir.Value:
    """Whether the size of a number is infinite."""
    return arith.cmpf(arith.CmpFPredicate.OEQ, math.absf(x), splat_of(x.type, float("inf")))


def is_finite(x: ir.Value) -> ir.Value:
    """Whether the size of a number is below infinity, which that of NaN is not."""
    return arith.cmpf(arith.CmpFPredicate.OLT, math.absf(x), splat_of(x.type, float("inf")))


PLAIN: dict[str, Callable[[ir.Value], ir.Value]] = {
    "math.absi": magnitude,
    "math.isnan": is_nan,
    "math.isinf": is_infinite,
    "math.isfinite": is_finite,
}
