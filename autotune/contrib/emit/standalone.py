"""Python interface of an emitted library, for NumPy arrays and objects that support DLPack. Depends only on NumPy.

This file is copied into the wheels that ``autotune emit --as wheel`` writes.
"""

import ctypes
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class CallArgument(NamedTuple):
    """An argument of a library's ``run``.

    Attributes:
        name: Name as in the header.
        role: ``input``, ``state``, which a call reads and writes, or ``output``.
        dtype: NumPy's name of the element type; bf16 is passed as its bits, ``uint16``.
        shape: Sizes, outermost first; names for sizes that the call chooses.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[int | str, ...]


class LibraryError(ValueError):
    """Raised for a call that the library rejects; the message is the library's."""


class Function:
    """A tuned payload, callable from any number of threads.

    Args:
        library: File of the shared library.
        name: Prefix of the library's functions.
        arguments: Arguments of a call, in order.
        weights: File of weights; `None` if there are none.
        threads: Threads per call; 0 for as many as it was tuned on.
        sizes: Names of the sizes that a call chooses, in order.

    Raises:
        LibraryError: The library cannot be opened on this machine, or with these weights.
        TypeError: ``threads`` is not an integer.
    """

    def __init__(
        self,
        library: str | Path,
        name: str,
        arguments: Sequence[CallArgument],
        weights: str | Path | None = None,
        threads: int = 0,
        sizes: Sequence[str] = (),
    ) -> None:
        if not isinstance(threads, int):
            raise TypeError(f"threads must be a whole number, it is {threads!r}; weights are given by weights=")
        loaded = ctypes.CDLL(str(library))
        self._open, self._run, self._close = (getattr(loaded, f"{name}_{call}") for call in ("open", "run", "close"))
        self._status = getattr(loaded, f"{name}_status")
        self._status.restype, self._status.argtypes = ctypes.c_char_p, (ctypes.c_int,)
        self._open.argtypes = (ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p, ctypes.c_int)
        pointers = (ctypes.c_void_p,) * len(arguments)
        self._run.argtypes = (ctypes.c_void_p, *(ctypes.c_int64,) * len(sizes), *pointers)
        self._close.argtypes = (ctypes.c_void_p,)
        self._close.restype = None
        self._weights = str(weights).encode() if weights is not None else None
        self._threads, self._sizes = threads, tuple(sizes)
        self.arguments = tuple(arguments)
        self._call_arguments = [argument for argument in arguments if argument.role != "output"]
        self._idle: deque[ctypes.c_void_p] = deque()
        self._idle.append(self._new_context())

    def __call__(self, /, *arrays: object, **named: object) -> Any:  # noqa: ANN401 - an array, or a tuple of some
        """Compute once.

        Args:
            arrays: Arrays of inputs and states, in order, or objects that support DLPack. Non-contiguous inputs are
                copied; a state is updated in place.
            named: Arrays by name.

        Returns:
            The output, or a tuple of the outputs: new arrays.

        Raises:
            TypeError: An array is missing, unknown, or has a wrong element type.
            ValueError: An array has a wrong shape, or a state is not contiguous.
            LibraryError: An element or a size is out of range.
        """
        values = self._in_order(arrays, named)
        inputs = {each.name: self._convert(each, values[each.name]) for each in self._call_arguments}
        sizes = self._find_sizes(inputs)
        written = {
            a.name: np.empty([size if isinstance(size, int) else sizes[size] for size in a.shape], a.dtype)
            for a in self.arguments
            if a.role == "output"
        }
        pointers = [(inputs | written)[argument.name].ctypes.data for argument in self.arguments]
        try:
            context = self._idle.pop()
        except IndexError:
            context = self._new_context()
        try:
            self._check(self._run(context, *map(sizes.__getitem__, self._sizes), *pointers))
        finally:
            self._idle.append(context)
        results = tuple(written.values())
        return results[0] if len(results) == 1 else results

    def close(self) -> None:
        """Close idle contexts; a later call opens a new one."""
        while self._idle:
            self._close(self._idle.pop())

    def _new_context(self) -> ctypes.c_void_p:
        context = ctypes.c_void_p()
        self._check(self._open(ctypes.byref(context), self._weights, self._threads))
        return context

    def _check(self, status: int) -> None:
        if status != 0:
            raise LibraryError(self._status(status).decode())

    def _in_order(self, arrays: Sequence[object], named: dict[str, object]) -> dict[str, object]:
        """Return the arguments of a call by name."""
        names = [argument.name for argument in self._call_arguments]
        values = dict(zip(names, arrays, strict=False)) | named
        if len(arrays) > len(names) or set(values) != set(names) or len(arrays) + len(named) != len(names):
            raise TypeError(
                f"a call takes {', '.join(names) or 'no array'}; got {len(arrays)} by order and {sorted(named)} by name"
            )
        return values

    def _find_sizes(self, arrays: dict[str, Array]) -> dict[str, int]:
        """Return the sizes that a call chooses, by name."""
        sizes: dict[str, int] = {}
        for argument in self._call_arguments:
            for name, size in zip(argument.shape, arrays[argument.name].shape, strict=True):
                if isinstance(name, str) and sizes.setdefault(name, size) != size:
                    raise ValueError(
                        f"{name} must be one size in all arrays, it is {sizes[name]} and, in {argument.name}, {size}"
                    )
        return sizes

    def _convert(self, argument: CallArgument, value: object) -> Array:
        """Return an array in the form that the library reads."""
        source: Any = value
        is_foreign = not isinstance(source, np.ndarray) and hasattr(source, "__dlpack__")
        array: Array = np.from_dlpack(source) if is_foreign else np.asarray(source)
        if array.dtype.name == "bfloat16":  # of ml_dtypes
            array = array.view(np.uint16)
        if array.dtype != argument.dtype:
            raise TypeError(f"{argument.name} must be {argument.dtype}, it is {array.dtype}")
        pairs = zip(argument.shape, array.shape, strict=False)
        if array.ndim != len(argument.shape) or any(
            expected_size != size for expected_size, size in pairs if isinstance(expected_size, int)
        ):
            expected = f"({', '.join(map(str, argument.shape))}{',' * (len(argument.shape) == 1)})"
            raise ValueError(f"{argument.name} must be of shape {expected}, it is {array.shape}")
        if argument.role != "state":
            return np.require(array, requirements=("C", "A"))
        if not (isinstance(source, np.ndarray) and array.flags.carray):
            raise ValueError(f"{argument.name} is written, so it must be a NumPy array in one block of memory")
        return array
