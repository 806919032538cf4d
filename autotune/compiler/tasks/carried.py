"""Loop-carried tensors: make the yielded value bufferize in place of the iter argument, as bufferization requires.

    scf.for iter_args(%t = %x) { %m = linalg.matmul ins(%a, %t) outs(%e); scf.yield %m }
    -> %m is materialized in %t before it is yielded: one copy per iteration

Source: One-Shot Bufferize, "in-place loops", https://mlir.llvm.org/docs/Bufferization/.
"""

from mlir import ir
from mlir.dialects import bufferization

from autotune.compiler.ir.module import copy_module, every_op, run_passes
from autotune.compiler.ir.nests import loop_nest
from autotune.compiler.ir.values import maker
from autotune.core.errors import CompileError, PayloadError

BUFFERIZE = "one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map}"
RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
CARRIED = "is not equivalent to the corresponding iter bbArg"


def carry_in_place(module: ir.Module, name: str) -> bool:
    """Materialize loop-carried tensors in the buffer of the iter argument, if the module does not bufferize otherwise.

    Args:
        module: Payload on tensors, modified in place.
        name: Name of the payload, for error messages.

    Returns:
        Whether the module was modified.

    Raises:
        PayloadError: A loop-carried tensor cannot be bufferized in place.
    """
    if not loops_of(module) or (why := why_not_carried(module)) is None:
        return False
    if any(map(runs_once, loops_of(module))):  # folding such a loop may remove the conflict
        run_passes(module, "builtin.module(canonicalize)")
        if (why := why_not_carried(module)) is None:
            return True
    for loop in reversed(loops_of(module)):  # inner loops first: outer loops may then bufferize unchanged
        put_in_place(loop)
        if (why := why_not_carried(module)) is None:
            return True
    raise PayloadError(
        f"{name} must carry tensors through loops so that each can lie where the last one did, "
        f"one cannot: {why}; carry it as an output argument instead"
    )


def loops_of(module: ir.Module) -> list[ir.Operation]:
    """Return the `scf.for` loops that carry a tensor."""
    loops = [op for op in every_op(module) if op.name == "scf.for"]
    return [op for op in loops if any(isinstance(r.type, ir.RankedTensorType) for r in op.results)]


def runs_once(loop: ir.Operation) -> bool:
    """Return whether a loop is known to have at most one iteration."""
    producers = [maker(bound) for bound in list(loop.operands)[:3]]
    if any(op is None or op.name != "arith.constant" for op in producers):
        return False
    start, end, step = (ir.IntegerAttr(op.attributes["value"]).value for op in producers if op is not None)
    return bool(start + step >= end)


def put_in_place(loop: ir.Operation) -> None:
    """Materialize every tensor that a loop yields in the buffer of its iter argument."""
    body = loop.regions[0].blocks[0]
    terminator = list(body.operations)[-1]
    carried = list(body.arguments)[1:]
    moved = [
        position
        for position, argument in enumerate(carried)
        if is_moved(argument, terminator.operation.operands[position])
    ]
    with ir.InsertionPoint(terminator), terminator.location:
        for position in moved:
            value = terminator.operation.operands[position]
            # The iter argument is about to be overwritten. A value computed from it element by element would be
            # computed in the same buffer, and tiles of it would read what other tiles have written.
            if value in carried or follows_elements(value, carried[position]):
                terminator.operation.operands[position] = bufferization.AllocTensorOp(
                    value.type, [], copy=value
                ).results[0]
        for position in moved:
            value = terminator.operation.operands[position]
            put = bufferization.MaterializeInDestinationOp(value.type, value, carried[position])
            terminator.operation.operands[position] = put.results[0]


def follows_elements(value: ir.Value, start: ir.Value) -> bool:
    """Return whether element-wise operations lead from tensor `start` to `value`, such as gating of a state.

    Slices and inserts do not count: they are computed in the buffer of the tensor, which bufferizes.
    """
    seen: set[ir.Value] = set()
    worklist = [value]
    while worklist:
        producer = maker(worklist.pop())
        if producer is None or not is_elementwise(producer):
            continue
        new = [operand for operand in producer.operands if operand not in seen]
        if start in new:
            return True
        seen.update(new)
        worklist += new
    return False


def is_elementwise(op: ir.Operation) -> bool:
    """Return whether an operation is element-wise or a reshape."""
    if op.name.startswith("linalg."):
        nest = loop_nest(op)
        return nest is not None and "reduction" not in nest.iterators
    return op.name in RESHAPES or op.name.startswith(("arith.", "math."))


def is_moved(argument: ir.Value, value: ir.Value) -> bool:
    """Return whether a loop yields a tensor other than its iter argument."""
    return isinstance(value.type, ir.RankedTensorType) and value != argument


def why_not_carried(module: ir.Module) -> str | None:
    """Return the bufferization error about a loop-carried tensor; `None` if there is none, or another error.

    Operations that are decomposed earlier, such as packs, do not bufferize here; loop-carried tensors are checked
    before them.
    """
    try:
        run_passes(copy_module(module), f"builtin.module({BUFFERIZE})")
    except CompileError as error:
        return str(error) if CARRIED in str(error) else None
    return None
