"""Decompose tensor operations into structured operations: arithmetic, softmax, Winograd transforms, gathers.

    %y = math.tanh %x : tensor<4x6xf32>   ->   %y = linalg.generic { math.tanh } ins(%x)

Upstream decomposes all of them except gathers, which it cannot lower.
"""

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from autotune.compiler.ir.module import every_op, replace_ops, run_passes
from autotune.compiler.ir.scripts import run_script
from autotune.compiler.normalise.emit import generic

ARITHMETIC = ("arith.", "math.")
AGGREGATES = {  # operations, and the transform operation that decomposes each
    "linalg.softmax": "decompose_interface",
    "linalg.winograd_filter_transform": "decompose_winograd_op",
    "linalg.winograd_input_transform": "decompose_winograd_op",
    "linalg.winograd_output_transform": "decompose_winograd_op",
}
ANY = "!transform.any_op"


def decompose(module: ir.Module) -> bool:
    """Decompose tensor operations into structured ones, in place; return whether there were any.

    Raises:
        CompileError: Upstream cannot decompose an operation.
    """
    return any([decompose_aggregates(module), write_arithmetic(module), write_gathers(module)])


def decompose_aggregates(module: ir.Module) -> bool:
    """Decompose softmax and Winograd transforms by upstream transform operations; return whether there were any."""
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
    """Convert arithmetic on tensors to `linalg.generic` by the upstream pass; return whether there was any."""
    has_arithmetic = any(
        op.name.startswith(ARITHMETIC) and has_tensors(op) and op.name != "arith.constant" for op in every_op(module)
    )
    if has_arithmetic:
        run_passes(module, "builtin.module(func.func(convert-elementwise-to-linalg),canonicalize)")
    return has_arithmetic


def has_tensors(op: ir.Operation) -> bool:
    """Return whether an operation has a tensor result."""
    return any(isinstance(value.type, ir.RankedTensorType) for value in op.results)


def write_gathers(module: ir.Module) -> bool:
    """Rewrite `tensor.gather` as element-wise operations with `tensor.extract`; return whether there were any."""
    return replace_ops(module, [op for op in every_op(module) if op.name == "tensor.gather"], gathered)


def gathered(op: ir.Operation) -> ir.Value:
    """Build the result of a `tensor.gather`: for each index tuple, the slice of the source at these coordinates.

    Source: `tensor.gather` of https://mlir.llvm.org/docs/Dialects/TensorOps/.
    """
    source, indices = op.operands
    chosen, result_type = list(ir.DenseI64ArrayAttr(op.attributes["gather_dims"])), op.results[0].type
    lead = indices.type.rank - 1
    sliced = [d for d in range(source.type.rank) if result_type.rank == lead + source.type.rank or d not in chosen]

    def element(_: ir.Value) -> ir.Value:
        loops = [linalg.IndexOp(d).result for d in range(result_type.rank)]
        coordinates = {d: loops[lead + position] for position, d in enumerate(sliced)}
        for position, d in enumerate(chosen):
            number = tensor.extract(indices, [*loops[:lead], arith.constant(ir.IndexType.get(), position)])
            is_index = isinstance(number.type, ir.IndexType)
            coordinates[d] = number if is_index else arith.index_cast(ir.IndexType.get(), number)
        return tensor.extract(source, [coordinates[d] for d in range(source.type.rank)])

    into = tensor.empty(result_type.shape, result_type.element_type)
    return generic([], into, [ir.AffineMap.get_identity(result_type.rank)], ["parallel"] * result_type.rank, element)
