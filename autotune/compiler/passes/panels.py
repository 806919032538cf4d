"""Prepack weights in panels: store the B of a matmul in the order in which it is read, once for all calls.

A weight ``B (..., k, n)`` becomes ``(..., n / c, k, c)`` for panels of `c` columns, the last one padded with zeros.
Ops and schedules see the weight in its logical shape; only the loads of the bufferized program use the panel layout.
"""

from collections.abc import Iterator, Mapping, Sequence

from mlir import ir
from mlir.dialects import bufferization, tensor

from autotune.compiler.ir.arguments import pad
from autotune.compiler.ir.nests import dimensions, indexing_maps
from autotune.compiler.ir.values import static_slice
from autotune.compiler.panel_weight import PanelWeight, plugged_form
from autotune.compiler.passes.narrow import Words
from autotune.compiler.tasks.weights import Weight, weight_behind
from autotune.core.errors import CompileError
from autotune.core.plugs.weight_form import WeightForm
from autotune.core.precision import PRECISIONS
from autotune.core.scripts.marks import WEIGHT_OF


def insert_panels(
    function: ir.OpView,
    roles: Sequence[str],
    columns: Mapping[str, int],
    forms: Mapping[str, WeightForm] | None = None,
) -> tuple[PanelWeight, ...]:
    """Let tagged contractions read B from a new argument of the function, in the orientation (k, n).

    The payload's argument is kept for other users. The new one has its logical shape until `store_in_panels`.

    Args:
        function: Entry function on tensors.
        roles: Role of each of its arguments.
        columns: Columns of a panel, by tag.
        forms: Storage form of the weight if it is not plain, by tag.

    Raises:
        CompileError: Stage ``transform``; B of such an op is not a weight.
    """
    block = function.regions[0].blocks[0]
    weights: dict[tuple[int, int, bool, tuple[int, ...], str], PanelWeight] = {}
    tensors: dict[int, ir.Value] = {}
    for op in list(tagged(block, columns)):
        tag = ir.StringAttr(op.attributes[WEIGHT_OF]).value
        weight = weight_behind(op.operands[1], roles)
        if weight is None:
            raise CompileError("transform", f"B of {tag} must be a weight to be stored in panels, it is not")
        transposed, form = is_transposed(op), (forms or {}).get(tag)
        form = form if form is not None and form.takes(op) else None
        name = form.name if form is not None else ""
        key = (weight.argument.arg_number, columns[tag], transposed, weight.shape, name)
        if key not in weights:
            *lead, rows, cols = weight.shape
            shape = (*lead, cols, rows) if transposed else weight.shape
            element = ir.MemRefType(weight.argument.type).element_type
            if form is not None:
                shape, element = form.shape(shape), ir.Type.parse(form.element)
            argument_type = ir.MemRefType.get(shape, element)
            added = block.add_argument(argument_type, function.location)
            weights[key] = PanelWeight(key[0], added.arg_number, shape, columns[tag], transposed, name)
            with ir.InsertionPoint.at_block_begin(block), function.location:
                ranked = ir.RankedTensorType.get(shape, argument_type.element_type)
                tensors[added.arg_number] = bufferization.to_tensor(ranked, added, restrict=True)
        kernel = op.operands[1]
        read(op, weight, tensors[weights[key].position], transposed)
        if form is not None:
            form.replace(op, kernel)
    update_type(function)
    return tuple(weights.values())


def tagged(block: ir.Block, tags: Mapping[str, int]) -> Iterator[ir.Operation]:
    """Yield the ops nested in a block whose weight belongs to one of the tasks `tags`."""
    for op in block.operations:
        attributes = op.operation.attributes
        if WEIGHT_OF in attributes and ir.StringAttr(attributes[WEIGHT_OF]).value in tags:
            yield op.operation
        for region in op.regions:
            for nested in region.blocks:
                yield from tagged(nested, tags)


def is_transposed(op: ir.Operation) -> bool:
    """Return whether a contraction stores B as (n, k): the last loop of B is not the last one of C."""
    _, of_b, of_c = (dimensions(amap) for amap in indexing_maps(op))
    return of_b[-1] != of_c[-1]


def read(op: ir.Operation, weight: Weight, whole: ir.Value, transposed: bool) -> None:
    """Let an op read its B from the new argument."""
    operand = whole
    if weight.slice is not None:
        slice_op = weight.slice
        offsets, sizes, strides = static_slice(slice_op)
        sizes[-2:] = list(ir.RankedTensorType(whole.type).shape)[-2:]
        slice_type = ir.RankedTensorType.get(sizes[-2:], ir.RankedTensorType(whole.type).element_type)
        with ir.InsertionPoint(slice_op), slice_op.location:
            dynamic = list(slice_op.operands)[1:]
            operand = tensor.extract_slice(slice_type, whole, dynamic, [], [], offsets, sizes, strides)
    op.operands[1] = operand
    if transposed:
        maps = indexing_maps(op)
        n, k = maps[1].results
        maps[1] = ir.AffineMap.get(maps[1].n_dims, 0, [k, n])
        op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])


def update_type(function: ir.OpView) -> None:
    """Update a function's type to its block arguments; new arguments get empty attributes."""
    argument_types = [argument.type for argument in function.regions[0].blocks[0].arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(argument_types, []))
    pad(function)


def form_named(name: str) -> WeightForm:
    """Return the storage form of a weight: words of a precision, or a plug-in's form.

    Raises:
        CompileError: Stage ``transform``; unknown name.
    """
    return Words(PRECISIONS[name]) if name in PRECISIONS else plugged_form(name)
