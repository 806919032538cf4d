"""`compile`, `tune` and `payload`: trace functions of tensors at the shapes of their arguments."""

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

BUILD, TUNING = "autotune.tensor.build", "autotune.tuning.front"  # imported on the first compilation or search
STATIC = (bool, int, float, str, type(None))


@operation
def compute(x: Tensor) -> Tensor:
    """Compute a tensor: return one that holds its elements.

    Raises:
        TensorError: The tensor depends on an argument of a traced function.
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
    outputs: list[Array] = []
    if program.payload is not None:
        function = import_module(BUILD).shared_function(program.payload)
        outputs = function.call([stored(node.array) for node in program.constants if node.array is not None])
    return known(finished(program.results, outputs)[0])


@dataclass(frozen=True)
class Specialised:
    """A function compiled for one set of argument shapes and element types.

    Attributes:
        traced: Graph of the function.
        run: Compiled function from the payload's input arrays to its output arrays.
        inputs: Number of arrays that a call passes.
        nonempty: Indices of the arrays that are not empty, the inputs of the payload; `None` for all of them.
        is_plain: Whether every result of the function is an output of the payload.
    """

    traced: Traced
    run: Callable[[Sequence[object]], list[Array]]
    inputs: int
    nonempty: tuple[int, ...] | None
    is_plain: bool

    def __call__(self, arrays: Sequence[object]) -> Nested:
        """Call the compiled function.

        Raises:
            NotExactlyError: An array has another shape or element type.
            TensorIndexError: An integer array used as indices is out of range.
        """
        outputs = self.run(arrays if self.nonempty is None else [arrays[number] for number in self.nonempty])
        return self.traced.arrange(outputs if self.is_plain else finished(self.traced.program.results, outputs))


class CompiledFunction:
    """A function of tensors that takes and returns NumPy arrays; the result of `compile`.

    Called with tensors it runs the original function, so that compiled functions may call each other.

    Args:
        function: Function of tensors.
        bundle: Folder of the bundle to compile it with; empty for the folder that `tune` writes.
    """

    def __init__(self, function: Callable[..., Any], bundle: str) -> None:
        self._function, self._bundle = function, bundle
        self._known: dict[Any, Specialised] = {}
        self._latest: Specialised | None = None  # latest one whose arguments are all arrays and inputs of the payload
        update_wrapper(self, function)

    def __call__(self, /, *arguments: object, **named: object) -> Nested:
        """Call the function; the first call at a set of shapes traces and compiles it.

        Raises:
            TensorError: An operation is invalid; the error names its source line.
            TensorIndexError: An integer array used as indices is out of range.
        """
        latest = self._latest
        try:
            if latest is not None and len(arguments) == latest.inputs and not named:
                try:  # contextlib.suppress would cost 0.3 us a call
                    return latest(arguments)
                except NotExactlyError:
                    pass
            return self._at_any_shape(arguments, named)
        except TensorError as error:
            located = refused(error)
            if located is error:  # it already names a line of the function
                raise
        raise located.with_traceback(None)

    def _at_any_shape(self, arguments: tuple[object, ...], named: dict[str, object]) -> Nested:
        """Look up, or compile, the specialization for the arguments and call it."""
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
        specialised = self._known.get(signature)
        if specialised is None:
            specialised = self._known[signature] = specialise(self._function, arguments, named, self._bundle)
        if len(arrays) == len(arguments) and not named and specialised.nonempty is None:
            self._latest = specialised
        return specialised(arrays)

    def _other(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Nested:
        """Call with arguments besides arrays and constants: tensors run the function, NumPy scalars become arrays."""
        values = [*arguments, *named.values()]
        if any(isinstance(value, Tensor) for value in values):
            return self._function(*arguments, **named)
        for number, value in enumerate(values):
            if isinstance(value, np.ma.MaskedArray):
                raise TensorTypeError(f"argument {number} must be an array without a mask, it has one; use .filled(..)")
            if not isinstance(value, (np.ndarray, np.generic, *STATIC)):
                type_name = type(value).__name__
                raise refused(
                    TensorTypeError(f"argument {number} must be an array or a number, got {type_name}; use np.asarray")
                )
        plain = [np.asarray(v) if isinstance(v, (np.ndarray, np.generic)) else v for v in arguments]
        by_name = {n: np.asarray(v) if isinstance(v, (np.ndarray, np.generic)) else v for n, v in named.items()}
        return self(*plain, **by_name)


def specialise(
    function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any], bundle: str
) -> Specialised:
    """Trace and compile a function at the shapes of the given arguments."""
    # keyword arguments are inputs sorted by name, in the same order as in calls
    traced = Traced(function, arguments, {name: named[name] for name in sorted(named)})
    program = traced.program
    if program.payload is None:
        return Specialised(traced, lambda _: [], 0, (), is_plain=False)
    payload = program.payload
    weights = [argument.name for argument in payload.arguments if argument.role == "weight"]
    constants = [stored(node.array) for node in program.constants if node.array is not None]
    nonempty = tuple(number for number, node in enumerate(program.inputs) if 0 not in node.shape)
    names = [argument.name for argument in payload.arguments if argument.role == "input"]
    accepted = {name: accepted_of(program, number, name) for name, number in zip(names, nonempty, strict=True)}
    outputs = [node for node in program.results if 0 not in node.shape]
    results = {a.name: (node.shape, node.dtype) for a, node in zip(payload.outputs, outputs, strict=True)}
    weight_arrays = dict(zip(weights, constants, strict=True))
    compiled = import_module(BUILD).function_of(payload, weight_arrays, bundle, accepted, results)
    count = len(program.inputs)
    return Specialised(
        traced, compiled.call, count, None if len(nonempty) == count else nonempty, len(outputs) == len(program.results)
    )


def accepted_of(program: TensorProgram, number: int, name: str) -> Accepted:
    """Return the shape, element type and, for indices, the range that the array of an input must have."""
    node, size = program.inputs[number], dict(program.bounds).get(number)
    if size is None:
        return Accepted(name, node.shape, node.dtype, is_exact=True)
    title = f"indices in argument {number}"
    return Accepted(name, node.shape, node.dtype, (0, size), error=TensorIndexError, is_exact=True, title=title)


def compile(function: Callable[..., Any], *, bundle: str = "") -> CompiledFunction:
    """Compile a function of tensors into one of arrays, once for each set of argument shapes and element types.

    Tensors that it reads besides its arguments are constants: weights, whose layout schedules may change.

    Args:
        function: Function to compile; its control flow must not depend on elements.
        bundle: Folder of the bundle to compile it with; by default the one that `tune` wrote, or default schedules if
            there is none.

    Example:
        >>> compile(lambda x: x + 1)(np.zeros(2, np.float32))
        array([1., 1.], dtype=float32)
    """
    return CompiledFunction(function, str(bundle))


def payload(function: Callable[..., Any], *arguments: object) -> Payload:
    """Trace a function at the shapes of the arguments and return its payload, e.g. for `autotune.show`.

    Args:
        function: Function of tensors, or the result of `compile`.
        *arguments: Arrays to trace it at; the random inputs of a search are drawn from their ranges.

    Raises:
        TensorError: An operation is invalid, or no result has elements.
    """
    inner = getattr(function, "__wrapped__", function)
    arrays = [np.asarray(v.numpy() if isinstance(v, Tensor) else v) for v in arguments]
    program = Traced(inner, arrays, {}).program
    if program.payload is None:
        raise refused(TensorError("a payload must compute something, no result has elements; give larger arrays"))
    inputs = [array for array in arrays if array.size]
    return like(program.payload, [*inputs, *(node.array for node in program.constants if node.array is not None)])


def tune(function: Callable[..., Any], *arguments: object, **options: object) -> TuneResult:
    """Search schedules for a function at the shapes of the arguments; `compile` uses the best one from then on.

    Args:
        function: Function of tensors, or the result of `compile`.
        *arguments: Arrays to trace it at.
        **options: Options of `autotune.tune`, such as ``trials``.

    Returns:
        The result of `autotune.tune`.

    Raises:
        TensorError: An operation is invalid.
    """
    return cast(TuneResult, import_module(TUNING).tune(payload(function, *arguments), **options))
