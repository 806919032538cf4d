"""PyTorch as a second oracle of exported programs: it runs the user's program before any rewrite of the importer.

The first oracle, in float64, computes the rewritten program: decomposed, with folded constants and rewritten guards of
softmaxes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.mismatch import LOOSE, TOLERANCE, mismatches
from autotune.core.payload import Array
from payload.importers.linalg import UnsupportedError
from payload.importers.pt2_order import with_index
from payload.importers.pt2_values import to_numpy, to_torch
from payload.programs import call_arguments

if TYPE_CHECKING:
    from torch.export import ExportedProgram

NARROW = ("float16", "bfloat16")
AS_ROUNDED = 4.0  # tolerance as a multiple of PyTorch's own f32 error, which is large for sums that cancel


def run_program(program: "ExportedProgram", inputs: Sequence[Array], *, exact: bool = False) -> list[Array] | None:
    """Run a program as exported; return `None` if PyTorch cannot run it, or if it is random.

    Args:
        program: Program to run.
        inputs: Input tensors, in order.
        exact: Compute in float64 instead of the program's own dtypes.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    targets = [node.target for node in program.graph_module.graph.nodes if node.op == "call_function"]
    if any(torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()) for target in targets):
        return None
    tensors = (to_torch(each.astype("float64") if exact and each.dtype == "float32" else each) for each in inputs)
    try:
        with torch.no_grad():
            module = sorting_stably(program.module())
            return call_program(program, module.double() if exact else module, tensors)
    except Exception:  # the build of PyTorch lacks an op, or a guard on the inputs fails
        return None


def sorting_stably(module: Any) -> Any:  # noqa: ANN401 - a module of torch.fx
    """Replace the sorts of a program's module by stable ones, in place: PyTorch's order of ties is unspecified."""
    import torch  # noqa: PLC0415 - comes with an extra

    aten = torch.ops.aten
    choosing = (aten.kthvalue.default, aten.median.dim, aten.nanmedian.dim)
    stable = {aten.sort.default: aten.sort.stable, aten.argsort.default: aten.argsort.stable}
    for node in module.graph.nodes:
        if node.target is aten.topk.default:
            node.target = first_stably
        if node.target in choosing:
            node.target = choosing_first(node.target)
        if node.target in stable:
            node.target, node.kwargs = stable[node.target], {**arguments_by_name(node), "stable": True}
            node.args = node.args[:1]
    module.recompile()
    return module


def first_stably(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:  # noqa: ANN401 - as PyTorch has them
    """Compute ``aten.topk`` with ties in the order of their indices."""
    import torch  # noqa: PLC0415 - comes with an extra

    ordered = torch.sort(x, stable=True, dim=dim, descending=largest)
    return tuple(each.narrow(dim, 0, k).contiguous() if x.dim() else each for each in ordered)  # as views require


def choosing_first(op: Any) -> Any:  # noqa: ANN401 - an op of PyTorch's that chooses elements along a dimension
    """A function that gives what an op gives, of equal elements the index of the first one."""

    def chosen(x: Any, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the op has them
        names = [argument.name for argument in op._schema.arguments]
        options = {"dim": -1, **dict(zip(names[1:], arguments, strict=False)), **named}
        result = op(x, *arguments, **named)
        keeps = bool(options.get("keepdim"))
        values = result[0] if keeps or not x.dim() else result[0].unsqueeze(options["dim"])
        return with_index(values, x, options["dim"], keeps) if x.numel() and x.dim() else tuple(result)

    chosen.__name__ = op.__name__
    return chosen


def arguments_by_name(node: Any) -> dict[str, Any]:  # noqa: ANN401 - a node of torch.fx
    """Return the arguments of an op after its first, by name."""
    names = [argument.name for argument in node.target._schema.arguments]
    return {**dict(zip(names[1:], node.args[1:], strict=False)), **node.kwargs}


def call_program(program: "ExportedProgram", module: Any, tensors: Iterable[Any]) -> list[Array]:  # noqa: ANN401
    """Call a program's module and return the results that are tensors.

    Args:
        program: Exported program.
        module: Module of the program.
        tensors: Inputs, in order.
    """
    import torch  # noqa: PLC0415 - comes with an extra
    from torch.utils._pytree import tree_leaves, tree_unflatten  # noqa: PLC0415

    flat = list(call_arguments(program, tensors))
    arguments, keywords = tree_unflatten(flat, program.call_spec.in_spec)
    results = tree_leaves(module(*arguments, **keywords))
    return [to_numpy(each.detach()) for each in results if isinstance(each, torch.Tensor)]


def check_program(
    program: "ExportedProgram", inputs: Sequence[Array], results: Sequence[Array], weights: Mapping[str, Array]
) -> None:
    """Compare the oracle's results with those of the program as exported.

    Args:
        program: Program as exported.
        inputs: Input tensors, in order.
        results: Results of the oracle.
        weights: Weights of the program, by name.

    Raises:
        UnsupportedError: The results disagree.
    """
    theirs = run_program(program, inputs)
    if theirs is None or len(theirs) != len(results):  # results that are not tensors are missing in one of the two
        return
    rounded = any(array.dtype.name in NARROW for array in (*inputs, *weights.values(), *theirs))
    for number, (ours, other) in enumerate(zip(results, theirs, strict=True)):
        tolerance = LOOSE if rounded else TOLERANCE
        if not any(mismatches(ours, other, tolerance)):
            continue
        for difference in mismatches(ours, other, tolerance, AS_ROUNDED * rounding(program, inputs, number, other)):
            raise UnsupportedError(
                f"result{number} must be what PyTorch computes of the program as it is, it differs: {difference}; "
                "export the model by other ops"
            )


def rounding(program: "ExportedProgram", inputs: Sequence[Array], number: int, theirs: Array) -> float:
    """Return the largest rounding error of PyTorch in one result; 0 if it cannot be computed in float64."""
    exact = run_program(program, inputs, exact=True)
    if exact is None or exact[number].shape != theirs.shape or theirs.dtype.kind != "f":
        return 0.0
    apart = np.abs(theirs.astype(np.float64) - exact[number])
    return float(np.max(apart[np.isfinite(apart)], initial=0.0))
