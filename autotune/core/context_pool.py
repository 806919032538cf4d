"""Contexts of a program: a call takes one that nobody else uses, and threads that call at once have one each."""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

C = TypeVar("C")


@dataclass(frozen=True, eq=False)
class FreeContexts:
    """Contexts that nobody uses.

    Attributes:
        free: The contexts, the latest last.
        waiting: Number of threads that wait for one.
        wake: Tells one of them that there is one.
    """

    free: list[Any]
    waiting: ctypes.c_int64
    wake: Callable[[], None]


class ContextPool(Generic[C]):
    """Contexts that are made when they are needed; from any number of threads.

    Args:
        make: Makes a context.
        most: Contexts there may be.
    """

    def __init__(self, make: Callable[[], C], most: int) -> None:
        self._make, self._most, self._made = make, most, 0
        self._changed = threading.Condition()
        self.contexts = FreeContexts([], ctypes.c_int64(0), self._wake)
        self._free: list[C] = self.contexts.free

    @contextmanager
    def take(self) -> Iterator[C]:
        """A context for the ``with`` block alone; waits where as many as there may be are in use."""
        context = self.get()
        try:
            yield context
        finally:
            self.put(context)

    def get(self) -> C:
        """A context for the caller alone, until it is put back; waits where as many as there may be are in use."""
        try:
            return self._free.pop()  # the latest: its arena is still in the caches
        except IndexError:
            return self._next()

    def put(self, context: C) -> None:
        """Give a context back."""
        self._free.append(context)  # before it looks for waiting threads, as those look here last
        if self.contexts.waiting.value:
            self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _next(self) -> C:
        with self._changed:
            self.contexts.waiting.value += 1
            try:
                while self._made == self._most:
                    with suppress(IndexError):
                        return self._free.pop()
                    self._changed.wait()
            finally:
                self.contexts.waiting.value -= 1
            self._made += 1
        try:
            return self._make()
        except BaseException:
            with self._changed:
                self._made -= 1
                self._changed.notify()
            raise
