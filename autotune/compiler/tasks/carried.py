"""Tensors that a loop carries: upstream's bufferization wants the new value where the old one was.

    scf.for iter_args(%t = %x) { %m = linalg.matmul ins(%a, %t) outs(%e); scf.yield %m }
    -> %m, materialized in %t before it is yielded: one copy an iteration

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
    """Let loops put tensors that they carry where the last ones were, if the module does not bufferize without.

    Args:
        module: A payload on tensors, changed in place.
        name: Name of the payload, for messages.

    Returns:
        Whether the module was changed.

    Raises:
        PayloadError: A loop carries what cannot be put there.
    """
    if not loops_of(module) or (why := why_not_carried(module)) is None:
        return False
    if any(map(turns_once, loops_of(module))):  # it is none: what it carries is an argument that nothing may write
        run_passes(module, "builtin.module(canonicalize)")
        if (why := why_not_carried(module)) is None:
            return True
    for loop in reversed(loops_of(module)):  # inner ones first: an outer one may then need nothing
        put_in_place(loop)
        if (why := why_not_carried(module)) is None:
            return True
    raise PayloadError(
        f"{name} must carry tensors through loops so that each can lie where the last one did, "
        f"one cannot: {why}; carry it as an output argument instead"
    )


def loops_of(module: ir.Module) -> list[ir.Operation]:
    """Loops that carry a tensor."""
    found = [op for op in every_op(module) if op.name == "scf.for"]
    return [op for op in found if any(isinstance(r.type, ir.RankedTensorType) for r in op.results)]


def turns_once(loop: ir.Operation) -> bool:
    """Tell whether a loop is known to have one turn at most."""
    made_by = [maker(bound) for bound in list(loop.operands)[:3]]
    if any(op is None or op.name != "arith.constant" for op in made_by):
        return False
    start, end, step = (ir.IntegerAttr(op.attributes["value"]).value for op in made_by if op is not None)
    return bool(start + step >= end)


def put_in_place(loop: ir.Operation) -> None:
    """Put every tensor that a loop yields where the one of the last iteration was."""
    body = loop.regions[0].blocks[0]
    last = list(body.operations)[-1]
    carried = list(body.arguments)[1:]
    moved = [
        position for position, argument in enumerate(carried) if is_moved(argument, last.operation.operands[position])
    ]
    with ir.InsertionPoint(last), last.location:
        for position in moved:
            value = last.operation.operands[position]
            # Another one of the last iteration is about to be overwritten. What follows element by element from the one
            # at its own position would be computed there, and tiles of it would read what others have written.
            if value in carried or follows_elements(value, carried[position]):
                last.operation.operands[position] = bufferization.AllocTensorOp(value.type, [], copy=value).results[0]
        for position in moved:
            value = last.operation.operands[position]
            put = bufferization.MaterializeInDestinationOp(value.type, value, carried[position])
            last.operation.operands[position] = put.results[0]


def follows_elements(value: ir.Value, start: ir.Value) -> bool:
    """Tell whether ops without sums lead from one tensor to another, as from a state to one that is gated or added to.

    Slices of it and inserts into it do not: those are computed in its buffer, which bufferizes.
    """
    seen: set[ir.Value] = set()
    reached = [value]
    while reached:
        made_by = maker(reached.pop())
        if made_by is None or not is_elementwise(made_by):
            continue
        new = [operand for operand in made_by.operands if operand not in seen]
        if start in new:
            return True
        seen.update(new)
        reached += new
    return False


def is_elementwise(op: ir.Operation) -> bool:
    """Tell whether an op gives an element for each that it is given, or the same ones in another shape."""
    if op.name.startswith("linalg."):
        nest = loop_nest(op)
        return nest is not None and "reduction" not in nest.iterators
    return op.name in RESHAPES or op.name.startswith(("arith.", "math."))


def is_moved(argument: ir.Value, value: ir.Value) -> bool:
    """Whether a loop yields another tensor than the one it was given."""
    return isinstance(value.type, ir.RankedTensorType) and value != argument


def why_not_carried(module: ir.Module) -> str | None:
    """Why a module does not bufferize, if that is what a loop carries; `None` if it does, or another op is why.

    Ops that are decomposed before, such as packs, do not bufferize here; what loops carry is examined before them.
    """
    try:
        run_passes(copy_module(module), f"builtin.module({BUFFERIZE})")
    except CompileError as error:
        return str(error) if CARRIED in str(error) else None
    return None
