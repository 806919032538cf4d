"""Verification of a program on its first calls, which PyTorch computes too; differences must be rounding errors.

A search verifies its result, but default schedules are compiled without a search. A program is therefore verified once,
on the tensors of its first calls, before it is recorded as checked.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter
from torch.utils._pytree import tree_map

from autotune.contrib.torch_backend.calls import OutOfBoundsError
from autotune.contrib.torch_backend.regions import warn_replaced

Tensors = Sequence[torch.Tensor]
MOST_COMPARED = 3  # calls whose inputs have equal elements: a warm-up call with zeros verifies little
ERROR_FACTOR = 4.0  # allowed ratio of a program's error to PyTorch's own
INTEGER_SHARE = 1e-3  # share of integers and Booleans that rounding may change
CANCELLATION = 1e-6  # error of sums that cancel, relative to the largest input


class FirstCalls:
    """Function of a region's tensors that is compared with PyTorch until a call with varying inputs agrees.

    Args:
        program: Program of the region.
        graph: Graph of the region, for PyTorch.
        varying: Indices of the varying inputs.
        error: Allowed error, relative to the largest element of each result.
        on_agreement: Function called once the program is known to be correct.
        on_mismatch: Function called with the reason if it is wrong; PyTorch runs the region from then on.
    """

    def __init__(
        self,
        program: Callable[[Tensors], Sequence[torch.Tensor]],
        graph: GraphModule,
        varying: Sequence[int],
        error: float,
        on_agreement: Callable[[], None],
        on_mismatch: Callable[[str], None],
    ) -> None:
        self._program, self._graph, self._varying, self._error = program, graph, varying, error
        self._on_agreement, self._on_mismatch = on_agreement, on_mismatch
        self._remaining = MOST_COMPARED
        self._is_wrong = False

    def __call__(self, tensors: Tensors) -> Sequence[torch.Tensor]:
        """Run the program; return PyTorch's results if the program is wrong or an index is out of bounds."""
        if self._is_wrong:
            return self._graph(*tensors)  # type: ignore[no-any-return]
        try:
            results = self._program(tensors)
        except OutOfBoundsError:
            return self._graph(*tensors)  # type: ignore[no-any-return]
        return self._compare(tensors, results) if self._remaining else results

    def _compare(self, tensors: Tensors, results: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Compare the results of a call with PyTorch's, and return the ones to use."""
        expected = self._graph(*tensors)
        if reason := mismatch(self._graph, tensors, results, expected, self._error):
            self._is_wrong = True
            reason = f"its program gives other results, {reason}"
            warn_replaced(self._graph.graph, reason)
            self._on_mismatch(reason)
            return expected  # type: ignore[no-any-return]
        self._remaining = 0 if all(varies(tensors[number]) for number in self._varying) else self._remaining - 1
        if not self._remaining:
            self._on_agreement()
        return results


def varies(tensor: torch.Tensor) -> bool:
    """Return whether a tensor of floats has different elements; true for a single one and for other types."""
    if not tensor.is_floating_point() or tensor.numel() == 1:
        return True
    return bool((tensor != tensor.reshape(-1)[0]).any())


def mismatch(graph: GraphModule, tensors: Tensors, results: Tensors, expected: Tensors, error: float = 0.0) -> str:
    """Compare results with PyTorch's; return the first mismatch in words, empty if there is none.

    Rounding may cause a difference. If there is one, the graph is computed in float64, and the error of a result may be
    `ERROR_FACTOR` times that of PyTorch's.

    Args:
        graph: Graph that was computed.
        tensors: Inputs of the graph.
        results: Results to verify.
        expected: Results of PyTorch.
        error: Allowed error besides rounding, relative to the largest element of each result.
    """
    doubtful = [
        n for n, (a, b) in enumerate(zip(results, expected, strict=True)) if relative_error(a, b) > tolerance(b, error)
    ]
    if not doubtful:
        return ""
    exact = Float64Interpreter(graph).run(*tensors)
    largest = max((magnitude(tensor) for tensor in tensors), default=0.0)
    for number in doubtful:
        own_error, pytorch_error = (relative_error(each[number], exact[number]) for each in (results, expected))
        is_float = expected[number].is_floating_point()
        noise = CANCELLATION * largest / (magnitude(exact[number]) or 1.0) if is_float else INTEGER_SHARE
        if not own_error <= max(tolerance(expected[number], error), ERROR_FACTOR * pytorch_error, noise):
            unit = "of its largest element" if is_float else "of its elements"
            return f"result {number} is off by {own_error:.2g} {unit}, PyTorch's by {pytorch_error:.2g}"
    return ""


def tolerance(result: torch.Tensor, error: float) -> float:
    """Return the `relative_error` up to which a result is accepted without a computation in float64."""
    if not result.is_floating_point():
        return 0.0
    epsilon = float(torch.finfo(result.dtype).eps)
    return 2 * error + 8 * (epsilon if result.itemsize < 4 else math.pow(epsilon, 0.75))


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the largest difference from a reference, relative to the largest element of the reference.

    For integers and Booleans, it is the share that differs. It is infinite if NaN or infinities are at other positions.
    """
    if not reference.is_floating_point():
        return float((result != reference).double().mean())
    values, expected = result.double(), reference.double()
    finite = expected.isfinite()
    if not torch.equal(finite, values.isfinite()) or not same_nonfinite(values[~finite], expected[~finite]):
        return float("inf")
    difference = float(torch.where(finite, values - expected, 0.0).abs().max())
    return difference / (magnitude(expected) or 1.0)


def same_nonfinite(values: torch.Tensor, others: torch.Tensor) -> bool:
    """Return whether NaN and infinities of two tensors are equal."""
    return bool(torch.equal(values.nan_to_num(), others.nan_to_num()) and torch.equal(values.isnan(), others.isnan()))


def magnitude(tensor: torch.Tensor) -> float:
    """Return the largest absolute value of a tensor's finite elements; 0 if it has none, and for integers."""
    if not tensor.is_floating_point() or not tensor.numel():
        return 0.0
    return float(tensor.nan_to_num(0.0, 0.0, 0.0).abs().max())


class Float64Interpreter(Interpreter):  # type: ignore[misc]
    """Interpreter that converts float operands of each op to float64."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:  # noqa: ANN401 - types of PyTorch
        """Run an op."""
        return super().call_function(target, tree_map(in_float64, args), tree_map(in_float64, kwargs))


def in_float64(value: Any) -> Any:  # noqa: ANN401 - an argument of an op
    """Convert a tensor of floats to float64; return other values unchanged."""
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
