"""Contexts of a compiled payload: arrays and an arena that one call has for itself, and a pool that callers share.

A program's intermediates lie in one arena, and its arguments in arrays of its own. So a call takes a context nobody
else uses; where there is none, another is made, up to one a core, and then callers wait for each other.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

import numpy as np

from autotune.compiler.program import Program
from autotune.core.machine import Machine
from autotune.core.pages import aligned_empty
from autotune.core.payload import Argument, Array, Payload

C = TypeVar("C")


class ContextPool(Generic[C]):
    """Contexts that are made when they are needed; from any number of threads.

    Args:
        make: Makes a context.
        most: Contexts there may be.
    """

    def __init__(self, make: Callable[[], C], most: int) -> None:
        self._make, self._most = make, most
        self._free: list[C] = []
        self._made = 0
        self._changed = threading.Condition()

    @contextmanager
    def take(self) -> Iterator[C]:
        """A context for the ``with`` block alone; waits where as many as there may be are in use."""
        context = self._next()
        try:
            yield context
        finally:
            with self._changed:
                self._free.append(context)
                self._changed.notify()

    def _next(self) -> C:
        with self._changed:
            while not self._free and self._made >= self._most:
                self._changed.wait()
            if self._free:
                return self._free.pop()  # the latest: its arrays are still in the caches
            self._made += 1
        try:
            return self._make()
        except BaseException:
            with self._changed:
                self._made -= 1
                self._changed.notify()
            raise


class CallContext:
    """A program with arrays of its own for every argument; one call at a time.

    A weight that did not change since the last call is not stored in panels again.

    Args:
        payload: Payload that the program computes.
        program: Program that no other context calls.
        machine: Host.
    """

    def __init__(self, payload: Payload, program: Program, machine: Machine) -> None:
        self._payload = payload
        self._arrays = {a.name: aligned_empty(a, machine.pages) for a in payload.arguments}
        self._weights = program.weights
        sources = [payload.arguments[weight.source] for weight in program.weights]
        self._panels = [
            aligned_empty(w.argument(a), machine.pages) for w, a in zip(program.weights, sources, strict=True)
        ]
        self._stored = {source.name: False for source in sources}
        self._bound = program.bind([*self._arrays.values(), *self._panels])

    def keep(self, weights: Mapping[str, Array]) -> None:
        """Write weights that later calls need not give."""
        for argument in self._payload.arguments:
            if argument.name in weights:
                self._fill(argument, weights[argument.name])

    def call(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """Compute once; copies of what was written, by name. States that are not given begin as zeros."""
        for argument in self._payload.arguments:
            self._fill(argument, given.get(argument.name))
        for weight, panels in zip(self._weights, self._panels, strict=True):
            source = self._payload.arguments[weight.source].name
            if not self._stored[source]:
                panels[...] = weight.pack(self._arrays[source])
        self._stored = dict.fromkeys(self._stored, True)
        self._bound.run()
        return {argument.name: self._arrays[argument.name].copy() for argument in self._payload.written}

    def _fill(self, argument: Argument, array: Array | None) -> None:
        """Write an argument's array, and note whether panels made of it are out of date; a weight may be as it was."""
        if array is None and argument.role == "weight":
            return
        mine = self._arrays[argument.name]
        if argument.name in self._stored:
            self._stored[argument.name] &= np.array_equal(mine, np.asarray(array, mine.dtype))
        if array is not None:
            mine[...] = array
        elif argument.role == "state":
            mine.fill(0)
