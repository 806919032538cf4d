"""Division and comparison as PyTorch has them of NaN, infinities and zeros, too, where torch-mlir takes others.

It writes floor division as the floor of a quotient, of which an infinite one is no NaN and one that rounding made whole
is one too large; folds `x == x` to true, and `0.1 > 0` to false, where the 0 is a whole number.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from torch.fx import Graph

Result = Any  # a tensor, or `NotImplemented`: the op is left to the converter


def remainder_towards_zero(a: "Tensor", b: "Tensor | float") -> Result:
    """What ``aten.fmod`` gives: exact, of the sign of `a`; `a` itself where `b` is infinite.

    Of whole numbers by a number, for which torch-mlir writes what it cannot lower, too.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    kind = torch.result_type(a, b)
    if not kind.is_floating_point:
        return NotImplemented if isinstance(b, torch.Tensor) else a - torch.div(a, b, rounding_mode="trunc") * b
    a, b = a.to(kind), b.to(kind) if isinstance(b, torch.Tensor) else b  # a tensor of rank 0 may be of another
    rest = torch.remainder(a.abs(), abs(b))
    return torch.where(a < 0, -rest, rest)


def divide(a: "Tensor", b: "Tensor | float", *, rounding_mode: str | None = None) -> Result:
    """What ``aten.div`` gives of floating point, rounded down: by the exact remainder, as Python and NumPy have it.

    Of bytes in 32 bits, as torch-mlir has no such op of 8.
    """
    import torch  # noqa: PLC0415

    kind = torch.result_type(a, b)
    if kind in (torch.int8, torch.uint8) and rounding_mode is not None:
        divisor = b if isinstance(b, torch.Tensor) else wrapped(b, kind)
        return torch.div(a.to(torch.int32), divisor.to(torch.int32), rounding_mode=rounding_mode).to(kind)
    if rounding_mode != "floor" or not kind.is_floating_point:
        return NotImplemented
    a = a.to(kind)
    divisor = b.to(kind) if isinstance(b, torch.Tensor) else torch.full_like(a, b)
    rest = remainder_towards_zero(a, divisor)
    whole = (a - rest) / divisor
    whole = torch.where((rest != 0) & ((divisor < 0) != (rest < 0)), whole - 1, whole)
    floor = torch.floor(whole)
    floor = torch.where(whole - floor > 0.5, floor + 1, floor)
    quotient = a / divisor
    floor = torch.where(whole != 0, floor, 0 * quotient)  # a zero of its sign
    return torch.where(divisor == 0, quotient, floor)


def is_equal(a: "Tensor", b: "Tensor") -> Result:
    """What ``aten.eq`` gives of floating point: NaN equals nothing, not itself either."""
    if not (a.is_floating_point() or b.is_floating_point()):
        return NotImplemented
    return (a != b).logical_not()


def with_tensor(op: "Callable[..., Tensor]", *kinds: Any) -> "Callable[..., Result]":  # noqa: ANN401 - torch.dtype
    """What an op gives of some whole numbers and a number: of two tensors.

    With a number torch-mlir lowers it not, or ends in a fault of its process: of bytes.
    """
    import torch  # noqa: PLC0415

    def write(a: "Tensor | float", b: "Tensor | float", **named: Any) -> Result:  # noqa: ANN401 - as the op has it
        if not isinstance(a, torch.Tensor) or a.dtype not in kinds or not isinstance(b, int):
            return NotImplemented
        if a.dtype is torch.bool:  # by a whole number it is one
            return op(a, torch.full((), b)) if isinstance(b, bool) else NotImplemented
        return op(a, wrapped(b, a.dtype), **named)

    return write


def wrapped(number: float, kind: Any) -> "Tensor":  # noqa: ANN401 - torch.dtype
    """A whole number as a tensor of a type, to whose bits it wraps."""
    import torch  # noqa: PLC0415

    held = torch.iinfo(kind)
    return torch.full((), (int(number) - held.min) % (1 << held.bits) + held.min, dtype=kind)


def compare_with_real(graph: "Graph") -> None:
    """Let real numbers be compared with real ones, in place."""
    import torch  # noqa: PLC0415

    kinds = ("lt", "le", "gt", "ge", "eq", "ne")
    compared = {getattr(torch.ops.aten, kind).Scalar for kind in kinds}
    for node in graph.nodes:
        is_compared = node.op == "call_function" and node.target in compared and isinstance(node.args[1], int)
        if is_compared and node.args[0].meta["val"].is_floating_point():
            node.update_arg(1, float(node.args[1]))
