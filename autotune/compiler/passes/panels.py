"""Weights stored in panels: the B of a matmul, stored in the order it is read in, once for all calls.

A weight ``B (..., k, n)`` becomes ``(..., n / c, k, c)`` for panels of `c` columns, the last one filled up with zeros.
Ops and schedules see the weight in its logical shape; only the loads of the finished program know where it lies.
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
    """Give tagged contractions a B of their own, in the orientation (k, n), as a new argument of the function.

    The payload's argument stays, for other readers. The new one keeps its logical shape until `store_in_panels`.

    Args:
        function: The entry function, on tensors.
        roles: Role of each of its arguments.
        columns: Columns of a panel for every tag concerned.
        forms: How the weight is stored otherwise, for every tag whose weight is.

    Raises:
        CompileError: Stage ``transform``; B of such an op is no weight.
    """
    block = function.regions[0].blocks[0]
    found: dict[tuple[int, int, bool, tuple[int, ...], str], PanelWeight] = {}
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
        if key not in found:
            *lead, rows, cols = weight.shape
            shape = (*lead, cols, rows) if transposed else weight.shape
            element = ir.MemRefType(weight.argument.type).element_type
            if form is not None:
                shape, element = form.shape(shape), ir.Type.parse(form.element)
            kind = ir.MemRefType.get(shape, element)
            added = block.add_argument(kind, function.location)
            found[key] = PanelWeight(key[0], added.arg_number, shape, columns[tag], transposed, name)
            with ir.InsertionPoint.at_block_begin(block), function.location:
                ranked = ir.RankedTensorType.get(shape, kind.element_type)
                tensors[added.arg_number] = bufferization.to_tensor(ranked, added, restrict=True)
        kernel = op.operands[1]
        read(op, weight, tensors[found[key].position], transposed)
        if form is not None:
            form.replace(op, kernel)
    update_type(function)
    return tuple(found.values())


def tagged(block: ir.Block, tags: Mapping[str, int]) -> Iterator[ir.Operation]:
    """Ops under a block whose weight belongs to one of the tasks `tags`."""
    for op in block.operations:
        attributes = op.operation.attributes
        if WEIGHT_OF in attributes and ir.StringAttr(attributes[WEIGHT_OF]).value in tags:
            yield op.operation
        for region in op.regions:
            for nested in region.blocks:
                yield from tagged(nested, tags)


def is_transposed(op: ir.Operation) -> bool:
    """Tell whether a contraction stores B as (n, k): the last loop over B is not the last one over C."""
    _, of_b, of_c = (dimensions(amap) for amap in indexing_maps(op))
    return of_b[-1] != of_c[-1]


def read(op: ir.Operation, weight: Weight, whole: ir.Value, transposed: bool) -> None:
    """Make an op read its B from the new argument."""
    operand = whole
    if weight.slice is not None:
        cut = weight.slice
        offsets, sizes, strides = static_slice(cut)
        sizes[-2:] = list(ir.RankedTensorType(whole.type).shape)[-2:]
        kind = ir.RankedTensorType.get(sizes[-2:], ir.RankedTensorType(whole.type).element_type)
        with ir.InsertionPoint(cut), cut.location:
            dynamic = list(cut.operands)[1:]
            operand = tensor.extract_slice(kind, whole, dynamic, [], [], offsets, sizes, strides)
    op.operands[1] = operand
    if transposed:
        maps = indexing_maps(op)
        n, k = maps[1].results
        maps[1] = ir.AffineMap.get(maps[1].n_dims, 0, [k, n])
        op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])


def update_type(function: ir.OpView) -> None:
    """Make the function's type that of its block; an argument that is new has no attributes."""
    kinds = [argument.type for argument in function.regions[0].blocks[0].arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))
    pad(function)


def form_named(name: str) -> WeightForm:
    """How a weight is stored: in words of a precision, or as a plug-in does.

    Raises:
        CompileError: Stage ``transform``; nothing has that name.
    """
    return Words(PRECISIONS[name]) if name in PRECISIONS else plugged_form(name)
