"""A program's first calls: PyTorch computes them too, and what differs by more than rounding is not used.

A search verifies what it finds; default schedules are compiled without one. So the tensors of the first call are what a
program is verified with, once, before it is kept as one that gives what PyTorch gives.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter
from torch.utils._pytree import tree_map

from autotune.contrib.torch_backend.calls import OutOfBoundsError
from autotune.contrib.torch_backend.regions import say_replaced

Tensors = Sequence[torch.Tensor]
MOST_COMPARED = 3  # calls, where inputs are constant: a call to warm up with zeros tells little
WORSE = 4.0  # times PyTorch's own error that a program may be off
FEW = 1e-3  # whole numbers and truth values that rounding may change, of all of them
NOISE = 1e-6  # of the largest input: what sums that cancel are off by


class FirstCalls:
    """Function of a region's tensors that is compared with PyTorch until a call with varying inputs agrees.

    Args:
        program: Program of the region.
        graph: Graph of the region, for PyTorch.
        given: Indices of the varying inputs.
        error: Allowed error, relative to the largest element of each result.
        agreed: Function called once the program is known to be correct.
        refused: Function called with the reason if it is not; PyTorch runs the region from then on.
    """

    def __init__(
        self,
        program: Callable[[Tensors], Sequence[torch.Tensor]],
        graph: GraphModule,
        given: Sequence[int],
        error: float,
        agreed: Callable[[], None],
        refused: Callable[[str], None],
    ) -> None:
        self._program, self._graph, self._given, self._error = program, graph, given, error
        self._agreed, self._refused = agreed, refused
        self._left = MOST_COMPARED
        self._is_wrong = False

    def __call__(self, tensors: Tensors) -> Sequence[torch.Tensor]:
        """Run the program; return PyTorch's results if the program is wrong or an index is out of bounds."""
        if self._is_wrong:
            return self._graph(*tensors)  # type: ignore[no-any-return]
        try:
            ours = self._program(tensors)
        except OutOfBoundsError:
            return self._graph(*tensors)  # type: ignore[no-any-return]
        return self._compared(tensors, ours) if self._left else ours

    def _compared(self, tensors: Tensors, ours: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Compare the results of a call with PyTorch's, and return the ones to use."""
        theirs = self._graph(*tensors)
        if why := disagreement(self._graph, tensors, ours, theirs, self._error):
            self._is_wrong = True
            why = f"its program gives other results, {why}"
            say_replaced(self._graph.graph, why)
            self._refused(why)
            return theirs  # type: ignore[no-any-return]
        self._left = 0 if all(varies(tensors[number]) for number in self._given) else self._left - 1
        if not self._left:
            self._agreed()
        return ours


def varies(tensor: torch.Tensor) -> bool:
    """Return whether a tensor of real numbers has different ones; any other may be as it is."""
    if not tensor.is_floating_point() or tensor.numel() == 1:
        return True
    return bool((tensor != tensor.reshape(-1)[0]).any())


def disagreement(graph: GraphModule, tensors: Tensors, ours: Tensors, theirs: Tensors, error: float = 0.0) -> str:
    """What keeps results from being those of PyTorch, in words; empty where nothing does.

    Rounding may be what tells them apart: where they differ, each op is computed in float64, and ours may be off by
    `WORSE` times what PyTorch's results are.

    Args:
        graph: What was computed.
        tensors: What it was computed of.
        ours: Results to judge.
        theirs: Results of PyTorch.
        error: What results may be off beside rounding, of the largest of each.
    """
    doubtful = [n for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if apart(a, b) > allowed(b, error)]
    if not doubtful:
        return ""
    exact = InDoubles(graph).run(*tensors)
    largest = max((magnitude(tensor) for tensor in tensors), default=0.0)
    for number in doubtful:
        mine, pytorchs = (apart(each[number], exact[number]) for each in (ours, theirs))
        real = theirs[number].is_floating_point()
        noise = NOISE * largest / (magnitude(exact[number]) or 1.0) if real else FEW
        if not mine <= max(allowed(theirs[number], error), WORSE * pytorchs, noise):
            what = "of its largest element" if real else "of its elements"
            return f"result {number} is off by {mine:.2g} {what}, PyTorch's by {pytorchs:.2g}"
    return ""


def allowed(result: torch.Tensor, error: float) -> float:
    """How far apart a result and PyTorch's may be before anybody asks why, as `apart` has it."""
    if not result.is_floating_point():
        return 0.0
    epsilon = float(torch.finfo(result.dtype).eps)
    return 2 * error + 8 * (epsilon if result.itemsize < 4 else math.pow(epsilon, 0.75))


def apart(result: torch.Tensor, reference: torch.Tensor) -> float:
    """How far a result is from a reference: the largest difference over the reference's largest element.

    Of whole numbers and truth values, the share of those that differ. Infinite where NaN or infinities lie elsewhere.
    """
    if not reference.is_floating_point():
        return float((result != reference).double().mean())
    mine, other = result.double(), reference.double()
    finite = other.isfinite()
    if not torch.equal(finite, mine.isfinite()) or not same(mine[~finite], other[~finite]):
        return float("inf")
    difference = float(torch.where(finite, mine - other, 0.0).abs().max())
    return difference / (magnitude(other) or 1.0)


def same(values: torch.Tensor, others: torch.Tensor) -> bool:
    """Return whether NaN and infinities are the same ones."""
    return bool(torch.equal(values.nan_to_num(), others.nan_to_num()) and torch.equal(values.isnan(), others.isnan()))


def magnitude(tensor: torch.Tensor) -> float:
    """Largest absolute value of a tensor's finite elements, 0 of none and of whole numbers."""
    if not tensor.is_floating_point() or not tensor.numel():
        return 0.0
    return float(tensor.nan_to_num(0.0, 0.0, 0.0).abs().max())


class InDoubles(Interpreter):  # type: ignore[misc]
    """Runs a graph with whatever real numbers an op reads in float64."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:  # noqa: ANN401 - as PyTorch has them
        """One op."""
        return super().call_function(target, tree_map(in_doubles, args), tree_map(in_doubles, kwargs))


def in_doubles(value: Any) -> Any:  # noqa: ANN401 - an argument of an op
    """A tensor of real numbers in float64; anything else as it is."""
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
