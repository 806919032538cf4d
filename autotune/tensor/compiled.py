"""`compile`, `tune`, `payload`: functions on tensors, traced at the shapes that they are called with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from importlib import import_module
from typing import Any, cast

import numpy as np

from autotune.core.errors import TensorError, TensorTypeError
from autotune.core.payload import Array, Payload
from autotune.tensor.creation import known
from autotune.tensor.graph import INPUT, behind, operation, refused
from autotune.tensor.moved import moved
from autotune.tensor.program import check_places, like, write_program
from autotune.tensor.tensor import Tensor
from autotune.tensor.traced import Nested, Traced, finished, stored
from autotune.tensor.views import squeezed
from autotune.tuning.result import TuneResult

BUILD, TUNING = "autotune.tensor.build", "autotune.tuning.front"  # imported when something is compiled, or tuned
STATIC = (bool, int, float, str, type(None))


@operation
def compute(x: Tensor) -> Tensor:
    """The same tensor, of known elements.

    Raises:
        TensorError: The tensor rests on an argument of a function that is traced.
    """
    if any(node.op == INPUT for node in behind((x.node,))):
        raise TensorError(
            f"elements must be known to be computed, those of shape {x.shape} rest on an argument of the function that "
            "is traced; return the tensor instead"
        )
    only_moved = moved(x.node)
    if only_moved is not None:
        return known(only_moved)
    program = write_program((x.node,), (), role="input")
    written: list[Array] = []
    if program.payload is not None:
        function = import_module(BUILD).shared_function(program.payload)
        written = function.call([stored(node.array) for node in program.constants if node.array is not None])
    return known(finished(program.results, written)[0])


@dataclass(frozen=True)
class Specialised:
    """A function compiled at some shapes.

    Attributes:
        traced: The function as a graph.
        run: Computes arrays of the payload's outputs from arrays of its inputs.
        plain: Whether inputs and results lie as they are seen, all of them.
        kept: Numbers of the inputs that the payload has: those with elements.
    """

    traced: Traced
    run: Callable[[Sequence[Array]], list[Array]]
    plain: bool
    kept: tuple[int, ...]

    def __call__(self, arrays: Sequence[Array]) -> Nested:
        """Compute once."""
        program = self.traced.program
        if program.bounds:
            check_places(program, arrays)
        if self.plain:
            return self.traced.arrange(self.run(arrays))
        written = self.run([stored(arrays[number]) for number in self.kept])
        return self.traced.arrange(finished(program.results, written))


class CompiledFunction:
    """A function of tensors that takes and gives arrays of NumPy; made by `compile`.

    Given tensors it is the function itself, so that compiled functions may call each other.

    Args:
        function: Function of tensors.
        bundle: Folder of a bundle that says how it is compiled; empty for where `tune` puts one.
    """

    def __init__(self, function: Callable[..., Any], bundle: str) -> None:
        self._function, self._bundle = function, bundle
        self._known: dict[Any, Specialised] = {}
        update_wrapper(self, function)

    def __call__(self, *arguments: object, **named: object) -> Nested:
        """Compute once; the first call at some shapes traces and compiles.

        Raises:
            TensorError: An operation is impossible; the error names the line where it is written.
            TensorIndexError: Whole numbers that are places are out of range.
        """
        arrays: list[Array] = []
        key: list[Any] = []
        for value in arguments if not named else (*arguments, *(named[name] for name in sorted(named))):
            if type(value) is np.ndarray:
                arrays.append(value)
                key.append((value.shape, value.dtype))
            elif isinstance(value, STATIC):
                key.append((type(value), value))
            else:
                return self._other(arguments, named)
        place = (*key, *sorted(named)) if named else tuple(key)
        try:
            found = self._known.get(place)
            if found is None:
                found = self._known[place] = specialise(self._function, arguments, named, self._bundle)
            return found(arrays)
        except TensorError as error:
            wrong = refused(error)
            if wrong is error:  # it was raised at a line of the function
                raise
        raise wrong.with_traceback(None)

    def _other(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Nested:
        """A call with something else than arrays and constants."""
        values = [*arguments, *named.values()]
        if any(isinstance(value, Tensor) for value in values):
            return self._function(*arguments, **named)
        for number, value in enumerate(values):
            if not isinstance(value, (np.ndarray, np.generic, *STATIC)):
                kind = type(value).__name__
                raise refused(
                    TensorTypeError(f"argument {number} must be an array or a number, got {kind}; use np.asarray")
                )
        plain = [np.asarray(v) if isinstance(v, (np.ndarray, np.generic)) else v for v in arguments]
        by_name = {n: np.asarray(v) if isinstance(v, (np.ndarray, np.generic)) else v for n, v in named.items()}
        return self(*plain, **by_name)


def specialise(
    function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any], bundle: str
) -> Specialised:
    """A function traced and compiled at the shapes of some arguments."""
    # named arguments are inputs in the order of their names, as calls give them
    traced = Traced(function, arguments, {name: named[name] for name in sorted(named)})
    program = traced.program
    if program.payload is None:
        return Specialised(traced, lambda _: [], False, ())
    weights = {a.name: a for a in program.payload.arguments if a.role == "weight"}
    held = {
        name: stored(node.array)
        for name, node in zip(weights, program.constants, strict=True)
        if node.array is not None
    }
    compiled = import_module(BUILD).function_of(program.payload, held, bundle)
    ends = [*program.inputs, *program.results]
    plain = all(node.shape == squeezed(node.shape) and 0 not in node.shape and node.dtype != bool for node in ends)
    kept = tuple(number for number, node in enumerate(program.inputs) if 0 not in node.shape)
    return Specialised(traced, compiled.call, plain, kept)


def compile(function: Callable[..., Any], *, bundle: str = "") -> CompiledFunction:
    """A function of tensors as one of arrays, compiled at each set of shapes and element types it is called with.

    Tensors that it reads besides its arguments are constants: weights, which schedules may store as they like.

    Args:
        function: Function to compile; it must not depend on elements.
        bundle: Folder of a bundle that says how to compile it; by default the one that `tune` wrote, if there is one,
            and else default schedules.

    Example:
        >>> compile(lambda x: x + 1)(np.zeros(2, np.float32))
        array([1., 1.], dtype=float32)
    """
    return CompiledFunction(function, str(bundle))


def payload(function: Callable[..., Any], *arguments: object) -> Payload:
    """A function at the shapes of some arguments as a payload, for `autotune.show`, `autotune.tasks` and the others.

    Args:
        function: Function of tensors, or what `compile` made of one.
        *arguments: Arrays to trace it at; random data of a search are drawn from their ranges.

    Raises:
        TensorError: An operation is impossible, or no result has elements.
    """
    inner = getattr(function, "__wrapped__", function)
    arrays = [np.asarray(v.numpy() if isinstance(v, Tensor) else v) for v in arguments]
    program = Traced(inner, arrays, {}).program
    if program.payload is None:
        raise refused(TensorError("a payload must compute something, no result has elements; give larger arrays"))
    inputs = [array for array in arrays if array.size]
    return like(program.payload, [*inputs, *(node.array for node in program.constants if node.array is not None)])


def tune(function: Callable[..., Any], *arguments: object, **options: object) -> TuneResult:
    """Search schedules for a function at the shapes of some arguments; `compile` takes the winner from then on.

    Args:
        function: Function of tensors, or what `compile` made of one.
        *arguments: Arrays to trace it at.
        **options: Options of `autotune.tune`, such as ``trials``.

    Returns:
        What was found, as `autotune.tune` gives it.

    Raises:
        TensorError: An operation is impossible.
    """
    return cast(TuneResult, import_module(TUNING).tune(payload(function, *arguments), **options))
