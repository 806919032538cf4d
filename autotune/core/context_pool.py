"""Thread-safe pool of execution contexts of a program: concurrent calls use different contexts."""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

C = TypeVar("C")


@dataclass(frozen=True, eq=False)
class FreeContexts:
    """Free contexts of a pool.

    Attributes:
        free: Stack of free contexts, the most recently used last.
        waiting: Number of threads that wait for a context.
        wake: Function that notifies one waiting thread.
    """

    free: list[Any]
    waiting: ctypes.c_int64
    wake: Callable[[], None]


class ContextPool(Generic[C]):
    """Bounded pool of contexts, created on demand; for use by any number of threads.

    Args:
        make: Factory of contexts.
        most: Largest number of contexts.
    """

    def __init__(self, make: Callable[[], C], most: int) -> None:
        self._make, self._most, self._made = make, most, 0
        self._changed = threading.Condition()
        self.contexts = FreeContexts([], ctypes.c_int64(0), self._wake)
        self._free: list[C] = self.contexts.free

    @contextmanager
    def take(self) -> Iterator[C]:
        """Take a context for the ``with`` block; blocks while all contexts are in use."""
        context = self.get()
        try:
            yield context
        finally:
            self.put(context)

    def get(self) -> C:
        """Take a context until `put` returns it; blocks while all contexts are in use."""
        try:
            return self._free.pop()  # the most recently used: its arena is still in the caches
        except IndexError:
            return self._next()

    def put(self, context: C) -> None:
        """Return a context to the pool."""
        # Appended before reading `waiting`: a waiting thread increments that first, and then looks at the list again.
        self._free.append(context)
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
