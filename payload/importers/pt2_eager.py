"""PyTorch as a second oracle of exported programs: it runs the user's own program, before any op is written otherwise.

The first one, in float64, computes what the importer made of it: decomposed, constants folded, guards of softmaxes
written otherwise.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from autotune.core.payload import Array
from payload.importers.differences import LOOSE, TOLERANCE, differences
from payload.importers.linalg import UnsupportedError
from payload.importers.pt2_values import to_numpy, to_torch
from payload.programs import call_arguments

if TYPE_CHECKING:
    from torch.export import ExportedProgram

NARROW = ("float16", "bfloat16")


def run_program(program: "ExportedProgram", inputs: Sequence[Array]) -> list[Array] | None:
    """Results of a program as it was exported, in its own dtypes; `None` where PyTorch does not run it, or it draws.

    Args:
        program: The program.
        inputs: The tensors that it is called with, in order.
    """
    import torch  # noqa: PLC0415 - comes with an extra
    from torch.utils._pytree import tree_leaves, tree_unflatten  # noqa: PLC0415

    targets = [node.target for node in program.graph_module.graph.nodes if node.op == "call_function"]
    if any(torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()) for target in targets):
        return None
    given = list(call_arguments(program, map(to_torch, inputs)))
    try:
        arguments, keywords = tree_unflatten(given, program.call_spec.in_spec)
        with torch.no_grad():
            found = program.module()(*arguments, **keywords)
    except Exception:  # an op that this machine's build lacks, a guard on its inputs
        return None
    return [to_numpy(each.detach()) for each in tree_leaves(found) if isinstance(each, torch.Tensor)]


def check_program(
    program: "ExportedProgram", inputs: Sequence[Array], results: Sequence[Array], weights: Mapping[str, Array]
) -> None:
    """Compare the oracle's results with those of the program as it was exported.

    Args:
        program: The program, as the file holds it.
        inputs: The tensors that it is called with, in order.
        results: What the oracle gives for them.
        weights: Weights of the program, by name.

    Raises:
        UnsupportedError: The results disagree.
    """
    theirs = run_program(program, inputs)
    if theirs is None or len(theirs) != len(results):  # results that are no tensors are left out of one of the two
        return
    rounded = any(array.dtype.name in NARROW for array in (*inputs, *weights.values(), *theirs))
    for number, (ours, other) in enumerate(zip(results, theirs, strict=True)):
        for difference in differences(ours, other, LOOSE if rounded else TOLERANCE):
            raise UnsupportedError(
                f"result{number} must be what PyTorch computes of the program as it is, it differs: {difference}; "
                "export the model by other ops"
            )
