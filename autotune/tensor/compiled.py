"""`compile`, `tune`, `payload`: functions on tensors, traced at the shapes that they are called with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from importlib import import_module
from typing import Any, cast

import numpy as np

from autotune.core.arrays import Accepted, NotExactlyError
from autotune.core.errors import TensorError, TensorIndexError, TensorTypeError
from autotune.core.payload import Array, Payload
from autotune.tensor.creation import known
from autotune.tensor.graph import INPUT, behind, operation, refused
from autotune.tensor.moved import moved
from autotune.tensor.program import TensorProgram, like, write_program
from autotune.tensor.tensor import Tensor
from autotune.tensor.traced import Nested, Traced, finished, stored
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
        inputs: Count of the arrays that a call gives.
        kept: Numbers of those that the payload has, which are those with elements; `None` for all of them.
        is_plain: Whether the payload has all results.
    """

    traced: Traced
    run: Callable[[Sequence[object]], list[Array]]
    inputs: int
    kept: tuple[int, ...] | None
    is_plain: bool

    def __call__(self, arrays: Sequence[object]) -> Nested:
        """Compute once.

        Raises:
            NotExactlyError: An array is of another shape or element type.
            TensorIndexError: Whole numbers that are indices are out of range.
        """
        written = self.run(arrays if self.kept is None else [arrays[number] for number in self.kept])
        return self.traced.arrange(written if self.is_plain else finished(self.traced.program.results, written))


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
        self._latest: Specialised | None = None  # of arrays alone, all of which its program looks at
        update_wrapper(self, function)

    def __call__(self, /, *arguments: object, **named: object) -> Nested:
        """Compute once; the first call at some shapes traces and compiles.

        Raises:
            TensorError: An operation is impossible; the error names the line where it is written.
            TensorIndexError: Whole numbers that are indices are out of range.
        """
        latest = self._latest
        try:
            if latest is not None and len(arguments) == latest.inputs and not named:
                try:  # `suppress` takes 0.3 us
                    return latest(arguments)
                except NotExactlyError:
                    pass
            return self._at_any_shape(arguments, named)
        except TensorError as error:
            wrong = refused(error)
            if wrong is error:  # it was raised at a line of the function
                raise
        raise wrong.with_traceback(None)

    def _at_any_shape(self, arguments: tuple[object, ...], named: dict[str, object]) -> Nested:
        """A call at shapes, or with constants, that need not be those of the one before."""
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
        signature = (*key, *sorted(named)) if named else tuple(key)
        known = self._known.get(signature)
        if known is None:
            known = self._known[signature] = specialise(self._function, arguments, named, self._bundle)
        if len(arrays) == len(arguments) and not named and known.kept is None:
            self._latest = known
        return known(arrays)

    def _other(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Nested:
        """A call with something else than arrays and constants."""
        values = [*arguments, *named.values()]
        if any(isinstance(value, Tensor) for value in values):
            return self._function(*arguments, **named)
        for number, value in enumerate(values):
            if isinstance(value, np.ma.MaskedArray):
                raise TensorTypeError(f"argument {number} must be an array without a mask, it has one; use .filled(..)")
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
        return Specialised(traced, lambda _: [], 0, (), is_plain=False)
    payload = program.payload
    weights = [argument.name for argument in payload.arguments if argument.role == "weight"]
    constants = [stored(node.array) for node in program.constants if node.array is not None]
    kept = tuple(number for number, node in enumerate(program.inputs) if 0 not in node.shape)
    names = [argument.name for argument in payload.arguments if argument.role == "input"]
    seen = {name: taken(program, number, name) for name, number in zip(names, kept, strict=True)}
    given = [node for node in program.results if 0 not in node.shape]
    results = {a.name: (node.shape, node.dtype) for a, node in zip(payload.outputs, given, strict=True)}
    held = dict(zip(weights, constants, strict=True))
    compiled = import_module(BUILD).function_of(payload, held, bundle, seen, results)
    count = len(program.inputs)
    return Specialised(
        traced, compiled.call, count, None if len(kept) == count else kept, len(given) == len(program.results)
    )


def taken(program: TensorProgram, number: int, name: str) -> Accepted:
    """What the array of an input must be; below its bound where it holds indices."""
    node, size = program.inputs[number], dict(program.bounds).get(number)
    if size is None:
        return Accepted(name, node.shape, node.dtype, is_exact=True)
    title = f"indices in argument {number}"
    return Accepted(name, node.shape, node.dtype, (0, size), error=TensorIndexError, is_exact=True, title=title)


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
        The result, as of `autotune.tune`.

    Raises:
        TensorError: An operation is impossible.
    """
    return cast(TuneResult, import_module(TUNING).tune(payload(function, *arguments), **options))
