"""Dynamic sizes of exported programs: their names and ranges, and specialization of a program to static sizes.

The file does not keep the names that the user gave them, so each is named after the first input that has it: ``ids.1``
is dimension 1 of ``ids``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from payload.importers.linalg import UnsupportedError, cannot_lower
from payload.importers.pt2_origins import describe
from payload.programs import call_arguments

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.fx import Graph

MOST = 1 << 31  # default upper bound of a dynamic size


@dataclass(frozen=True)
class OpenSize:
    """A dynamic size of a program.

    Attributes:
        name: Name of the size.
        low: Minimum size that the program was exported for.
        high: Maximum size that the program was exported for.
    """

    name: str
    low: int
    high: int


def tensors_of(program: "ExportedProgram") -> "dict[str, Tensor]":
    """Return the inputs of a program that are tensors, as fake tensors without data, by name in order."""
    import torch  # noqa: PLC0415 - comes with an extra

    names = set(program.graph_signature.user_inputs)
    nodes = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    return {node.name: node.meta["val"] for node in nodes if isinstance(node.meta["val"], torch.Tensor)}


def open_sizes(program: "ExportedProgram") -> dict[Any, OpenSize]:
    """Return the dynamic sizes of a program by symbol, in the order of its inputs.

    Raises:
        UnsupportedError: A size is computed from others.
    """
    sizes: dict[Any, OpenSize] = {}
    for name, tensor in tensors_of(program).items():
        for axis, size in enumerate(tensor.shape):
            symbol = symbol_of(size)
            if symbol is None or symbol in sizes:
                continue
            if symbol not in program.range_constraints:
                raise UnsupportedError(
                    f"dimension {axis} of {name} must be a size of its own, it is {symbol}; export it so"
                )
            ends = program.range_constraints[symbol]
            high = int(ends.upper) if ends.upper.is_Integer else MOST
            sizes[symbol] = OpenSize(f"{name}.{axis}", max(1, int(ends.lower)), high)
    return sizes


def symbol_of(size: Any) -> Any:  # noqa: ANN401 - an int or one of PyTorch's, a symbol of SymPy
    """Return the symbol of a dynamic size; `None` for a static one."""
    return None if isinstance(size, int) else size.node.expr


def at_sizes(program: "ExportedProgram", sizes: Mapping[str, int]) -> "ExportedProgram":
    """Specialize a program to static sizes by exporting it again.

    Args:
        program: Program to specialize.
        sizes: Sizes by the names of the dynamic sizes.

    Raises:
        UnsupportedError: A name is unknown, a size is missing or out of the range that the program was exported for.
    """
    import torch  # noqa: PLC0415 - comes with an extra
    from torch.utils._pytree import tree_unflatten  # noqa: PLC0415

    symbols = open_sizes(program)
    check_sizes(tuple(symbols.values()), sizes)
    if not symbols:
        return program
    by_symbol = {symbol: sizes[each.name] for symbol, each in symbols.items()}
    examples = [
        torch.zeros([by_symbol.get(symbol_of(size), size) for size in tensor.shape], dtype=tensor.dtype, device="cpu")
        for tensor in tensors_of(program).values()
    ]
    positional, named = tree_unflatten(list(call_arguments(program, examples)), program.call_spec.in_spec)
    try:
        return torch.export.export(program.module(), positional, named)
    except Exception as error:  # PyTorch raises various types if a size violates a guard of the program
        message = " ".join(str(error).split())[:200]
        at = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise UnsupportedError(
            f"PyTorch must export it at {at}, it says: {message}; export it at these sizes"
        ) from error


def check_sizes(known: tuple[OpenSize, ...], sizes: Mapping[str, int]) -> None:
    """Raise unless sizes are given for exactly the dynamic sizes, in their ranges.

    Raises:
        UnsupportedError: A name is unknown, a size is missing or out of range.
    """
    names = [each.name for each in known]
    if unknown := [name for name in sizes if name not in names]:
        there = ", ".join(names) or "none"
        raise UnsupportedError(f"it must leave {unknown[0]} open, it leaves {there}; leave that out")
    for each in known:
        if each.name not in sizes:
            name, _, axis = each.name.rpartition(".")
            raise UnsupportedError(
                f"input {name} must have fixed sizes, dimension {axis} is open; export it so, or give {each.name}=1"
            )
        if not each.low <= sizes[each.name] <= each.high:
            raise UnsupportedError(
                f"{each.name} must be from {each.low} to {each.high}, as it was exported, got {sizes[each.name]}; "
                "export it for more"
            )


def check_counted(graph: "Graph") -> None:
    """Raise if the shape of a result depends on data, for which torch-mlir may hang.

    Raises:
        UnsupportedError: An op has a data-dependent shape, such as `x[mask]`; the message names it.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    for node in graph.nodes:
        value = node.meta.get("val")
        results = value if isinstance(value, tuple | list) else (value,)
        sizes = [size for each in results if isinstance(each, torch.Tensor) for size in each.shape]
        if not all(isinstance(size, int) for size in sizes):
            raise cannot_lower(describe(node), "the size of what it gives depends on the elements that it reads")
