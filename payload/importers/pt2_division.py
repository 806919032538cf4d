"""Decompositions of division and comparison with PyTorch's semantics for NaN, infinities and zeros.

torch-mlir lowers floor division to the floor of the quotient, which is infinite instead of NaN, or one too large if
rounding made the quotient an integer. It folds `x == x` to true, and `0.1 > 0` with an integer 0 to false.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from torch.fx import Graph

Result = Any  # a tensor, or `NotImplemented`: the op is left to the converter


def remainder_towards_zero(a: "Tensor", b: "Tensor | float") -> Result:
    """Decompose ``aten.fmod``: exact, with the sign of `a`; `a` itself if `b` is infinite.

    For integers it decomposes the form with a scalar, which torch-mlir converts to ops that it cannot lower.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    kind = torch.result_type(a, b)
    if not kind.is_floating_point:
        return NotImplemented if isinstance(b, torch.Tensor) else a - torch.div(a, b, rounding_mode="trunc") * b
    a, b = a.to(kind), b.to(kind) if isinstance(b, torch.Tensor) else b  # a tensor of rank 0 may have another dtype
    rest = torch.remainder(a.abs(), abs(b))
    return torch.where(a < 0, -rest, rest)


def divide(a: "Tensor", b: "Tensor | float", *, rounding_mode: str | None = None) -> Result:
    """Decompose floor division of floats in ``aten.div`` by the exact remainder, as in Python and NumPy.

    8-bit integers are divided in 32 bits, because torch-mlir lacks the op for 8 bits.
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
    floor = torch.where(whole != 0, floor, 0 * quotient)  # a zero with the sign of the quotient
    return torch.where(divisor == 0, quotient, floor)


def is_equal(a: "Tensor", b: "Tensor") -> Result:
    """Decompose ``aten.eq`` of floats: NaN is not equal to anything, including itself."""
    if not (a.is_floating_point() or b.is_floating_point()):
        return NotImplemented
    return (a != b).logical_not()


def with_tensor(op: "Callable[..., Tensor]", *kinds: Any) -> "Callable[..., Result]":  # noqa: ANN401 - torch.dtype
    """Return a decomposition of an op on an integer tensor and a scalar to the op on two tensors.

    torch-mlir does not lower the scalar form, or crashes on it for 8-bit integers.
    """
    import torch  # noqa: PLC0415

    def write(a: "Tensor | float", b: "Tensor | float", **named: Any) -> Result:  # noqa: ANN401 - as the op has it
        if not isinstance(a, torch.Tensor) or a.dtype not in kinds or not isinstance(b, int):
            return NotImplemented
        if a.dtype is torch.bool:  # with an integer scalar, the result would be an integer
            return op(a, torch.full((), b)) if isinstance(b, bool) else NotImplemented
        return op(a, wrapped(b, a.dtype), **named)

    return write


def wrapped(number: float, kind: Any) -> "Tensor":  # noqa: ANN401 - torch.dtype
    """Return an integer as a tensor of rank 0 of an integer type, wrapped to its range."""
    import torch  # noqa: PLC0415

    info = torch.iinfo(kind)
    return torch.full((), (int(number) - info.min) % (1 << info.bits) + info.min, dtype=kind)


def compare_with_real(graph: "Graph") -> None:
    """Convert integer scalars that float tensors are compared with to floats, in place."""
    import torch  # noqa: PLC0415

    kinds = ("lt", "le", "gt", "ge", "eq", "ne")
    compared = {getattr(torch.ops.aten, kind).Scalar for kind in kinds}
    for node in graph.nodes:
        is_compared = node.op == "call_function" and node.target in compared and isinstance(node.args[1], int)
        if is_compared and node.args[0].meta["val"].is_floating_point():
            node.update_arg(1, float(node.args[1]))
