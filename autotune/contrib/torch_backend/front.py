"""``autotune.torch``: programs of `torch.export` as functions on tensors."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten

from autotune.contrib.torch_backend.backend import compile_graph
from autotune.contrib.torch_backend.options import read_options
from autotune.core.errors import PayloadError

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def compile(program: "ExportedProgram", **options: Any) -> Callable[..., Any]:  # noqa: ANN401
    """Compile an exported program to a function that is called as the program's module is.

    Args:
        program: The program, whose weights are shared and not copied.
        **options: Options of the backend, such as ``trials=100``; those of `BackendOptions`.

    Returns:
        A function of the model's arguments, which raises `PayloadError` where they are not as those of the export;
        gradients are not computed.

    Raises:
        OptionError: An option is unknown or out of its range.
    """
    read_options(options)
    module = torch.compile(program.module(), backend=compile_graph, options=options)

    def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the model has them
        try:
            with torch.no_grad():
                return module(*arguments, **named)
        except Exception as error:  # PyTorch's checks of inputs raise various types
            if (reason := misfit(program, arguments, named)) is not None:
                raise PayloadError(reason) from error
            raise

    return call


def misfit(program: "ExportedProgram", arguments: Sequence[Any], named: Mapping[str, Any]) -> str | None:
    """Return a sentence on why arguments do not fit an exported program; `None` if no reason is known.

    Args:
        program: The program.
        arguments: Arguments in order.
        named: Keyword arguments.
    """
    values, tree = tree_flatten((tuple(arguments), dict(named)))
    if program.call_spec.in_spec is not None and tree != program.call_spec.in_spec:
        count = len(program.graph_signature.user_inputs)
        return f"a program must be called as it was exported, with {count} values by order and name; got {len(values)}"
    metas = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for name, value in zip(program.graph_signature.user_inputs, values, strict=False):
        expected = metas.get(str(name))
        if not isinstance(expected, torch.Tensor):
            continue
        if not isinstance(value, torch.Tensor):
            return f"{name} must be a tensor, got {type(value).__name__}"
        if value.dtype != expected.dtype:
            return f"{name} must be {plain(expected.dtype)}, got {plain(value.dtype)}"
        if value.ndim != expected.ndim or any(map(differs(program), expected.shape, value.shape)):
            return (
                f"{name} must be of shape {shape_of(program, expected)}, got {list(value.shape)}; export the model so"
            )
    return None


def plain(dtype: torch.dtype) -> str:
    """Return the name of an element type."""
    return str(dtype).removeprefix("torch.")


def range_of(program: "ExportedProgram", size: Any) -> tuple[int, int]:  # noqa: ANN401 - of PyTorch
    """Return the minimum and maximum of a size."""
    if not isinstance(size, torch.SymInt):
        return int(size), int(size)
    bounds = program.range_constraints.get(size.node.expr)
    return (int(bounds.lower), int(min(bounds.upper, sys.maxsize))) if bounds is not None else (0, sys.maxsize)


def differs(program: "ExportedProgram") -> Callable[[Any, int], bool]:
    """Return a predicate that tells whether a size is outside the range of an exported size."""

    def is_outside(expected: Any, size: int) -> bool:  # noqa: ANN401 - of PyTorch
        low, high = range_of(program, expected)
        return not low <= size <= high

    return is_outside


def shape_of(program: "ExportedProgram", tensor: torch.Tensor) -> str:
    """Format the shape that a program accepts, with ranges of dynamic sizes."""
    ranges = [range_of(program, size) for size in tensor.shape]
    return f"[{', '.join(str(low) if low == high else f'{low}..{high}' for low, high in ranges)}]"
