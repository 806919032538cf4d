"""Ops on whole tensors that have no loops of their own, as structured ops: arithmetic, softmax, Winograd's, gathers.

    %y = math.tanh %x : tensor<4x6xf32>   ->   %y = linalg.generic { math.tanh } ins(%x)

Upstream decomposes them itself, but gathers, which it cannot lower.
"""

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.ir.module import every_op, replace_ops, run_passes
from autotune.compiler.ir.scripts import run_script
from autotune.compiler.normalise.emit import generic

ARITHMETIC = ("arith.", "math.")
AGGREGATES = {  # ops, and the transform op that decomposes them
    "linalg.softmax": "decompose_interface",
    "linalg.winograd_filter_transform": "decompose_winograd_op",
    "linalg.winograd_input_transform": "decompose_winograd_op",
    "linalg.winograd_output_transform": "decompose_winograd_op",
}
ANY = "!transform.any_op"


def decompose(module: ir.Module) -> bool:
    """Write such ops as structured ops, in place; tells whether there was any.

    Raises:
        CompileError: Upstream cannot decompose an op.
    """
    return any([decompose_aggregates(module), write_arithmetic(module), write_gathers(module)])


def decompose_aggregates(module: ir.Module) -> bool:
    """Let upstream decompose softmax and Winograd's transforms."""
    names = {op.name for op in every_op(module)}.intersection(AGGREGATES)
    for name in sorted(names):
        run_script(
            module,
            f"""module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%module: {ANY}) {{
    %ops = transform.structured.match ops{{["{name}"]}} in %module : ({ANY}) -> {ANY}
    %done = transform.structured.{AGGREGATES[name]} %ops : ({ANY}) -> {ANY}
    transform.yield
  }}
}}""",
        )
    return bool(names)


def write_arithmetic(module: ir.Module) -> bool:
    """Let upstream write arithmetic on whole tensors as element-wise ops."""
    found = any(
        op.name.startswith(ARITHMETIC) and has_tensors(op) and op.name != "arith.constant" for op in every_op(module)
    )
    if found:
        run_passes(module, "builtin.module(func.func(convert-elementwise-to-linalg),canonicalize)")
    return found


def has_tensors(op: ir.Operation) -> bool:
    """Tell whether an op gives a tensor."""
    return any(isinstance(value.type, ir.RankedTensorType) for value in op.results)


def write_gathers(module: ir.Module) -> bool:
    """Write gathers of slices as element-wise ops that read elements at indices."""
    return replace_ops(module, [op for op in every_op(module) if op.name == "tensor.gather"], gathered)


def gathered(op: ir.Operation) -> ir.Value:
    """What a gather gives: the slice of its source at each of its indices, which count along some dimensions.

    Source: `tensor.gather` of https://mlir.llvm.org/docs/Dialects/TensorOps/.
    """
    source, indices = op.operands
    chosen, kind = list(ir.DenseI64ArrayAttr(op.attributes["gather_dims"])), op.results[0].type
    lead = indices.type.rank - 1
    kept = [d for d in range(source.type.rank) if kind.rank == lead + source.type.rank or d not in chosen]

    def element(_: ir.Value) -> ir.Value:
        loops = [linalg.IndexOp(d).result for d in range(kind.rank)]
        at = {d: loops[lead + position] for position, d in enumerate(kept)}
        for position, d in enumerate(chosen):
            number = tensor.extract(indices, [*loops[:lead], arith.constant(ir.IndexType.get(), position)])
            is_index = isinstance(number.type, ir.IndexType)
            at[d] = number if is_index else arith.index_cast(ir.IndexType.get(), number)
        return tensor.extract(source, [at[d] for d in range(source.type.rank)])

    into = tensor.empty(kind.shape, kind.element_type)
    return generic([], into, [ir.AffineMap.get_identity(kind.rank)], ["parallel"] * kind.rank, element)
