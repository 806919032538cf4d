"""Open sizes of exported programs: what they are called, between what they may lie, and the program at fixed ones.

Names that a user gave them are lost in the file, so each is called after the first input that has it: ``ids.1`` is
dimension 1 of ``ids``.
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

MOST = 1 << 31  # where the program says no upper end


@dataclass(frozen=True)
class OpenSize:
    """A size that a program leaves open.

    Attributes:
        name: What it is called.
        low: Least size that the program was exported for.
        high: Largest such size.
    """

    name: str
    low: int
    high: int


def tensors_of(program: "ExportedProgram") -> "dict[str, Tensor]":
    """Inputs of a program that are tensors, without elements, by name in order."""
    import torch  # noqa: PLC0415 - comes with an extra

    asked = set(program.graph_signature.user_inputs)
    nodes = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in asked]
    return {node.name: node.meta["val"] for node in nodes if isinstance(node.meta["val"], torch.Tensor)}


def open_sizes(program: "ExportedProgram") -> dict[Any, OpenSize]:
    """Sizes that a program leaves open, by symbol, in the order of its inputs.

    Raises:
        UnsupportedError: A size is computed from others.
    """
    found: dict[Any, OpenSize] = {}
    for name, tensor in tensors_of(program).items():
        for axis, size in enumerate(tensor.shape):
            symbol = symbol_of(size)
            if symbol is None or symbol in found:
                continue
            if symbol not in program.range_constraints:
                raise UnsupportedError(
                    f"dimension {axis} of {name} must be a size of its own, it is {symbol}; export it so"
                )
            ends = program.range_constraints[symbol]
            high = int(ends.upper) if ends.upper.is_Integer else MOST
            found[symbol] = OpenSize(f"{name}.{axis}", max(1, int(ends.lower)), high)
    return found


def symbol_of(size: Any) -> Any:  # noqa: ANN401 - an int or one of PyTorch's, a symbol of SymPy
    """Symbol of a size; `None` where it is fixed."""
    return None if isinstance(size, int) else size.node.expr


def at_sizes(program: "ExportedProgram", sizes: Mapping[str, int]) -> "ExportedProgram":
    """A program exported again, at fixed sizes.

    Args:
        program: The program.
        sizes: Size of each dimension that it leaves open, by its name.

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
    given, named = tree_unflatten(list(call_arguments(program, examples)), program.call_spec.in_spec)
    try:
        return torch.export.export(program.module(), given, named)
    except Exception as error:  # whatever PyTorch raises where a size breaks what the program asks for
        message = " ".join(str(error).split())[:200]
        at = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise UnsupportedError(
            f"PyTorch must export it at {at}, it says: {message}; export it at these sizes"
        ) from error


def check_sizes(known: tuple[OpenSize, ...], sizes: Mapping[str, int]) -> None:
    """Refuse sizes of other dimensions than those that are open, or out of their ranges.

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
    """Refuse a graph at fixed sizes in which an op gives as many elements as its operands' elements say.

    torch-mlir would lower some such ops without an end.

    Raises:
        UnsupportedError: An op does so, such as `x[mask]`; the error names it.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    for node in graph.nodes:
        value = node.meta.get("val")
        found = value if isinstance(value, tuple | list) else (value,)
        sizes = [size for each in found if isinstance(each, torch.Tensor) for size in each.shape]
        if not all(isinstance(size, int) for size in sizes):
            raise cannot_lower(describe(node), "the size of what it gives depends on the elements that it reads")
