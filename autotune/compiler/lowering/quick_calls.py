"""Whole calls of a program by compiled code: an unused context is taken, a result is made, the program is called.

    take the context, if it is free -> look at the arrays -> make a result -> compute -> give the context back

Whatever is out of the ordinary is Python's: names, another number of arrays, an array that cannot be read as it lies, a
context that another thread has. The interpreter's lock is held but while the program runs, so that nothing else takes
from the list of contexts meanwhile.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.compiler.lowering.array_calls import NEW, ArrayCall
from autotune.compiler.lowering.array_code import CONTEXT, FREE, MAKE, PLAN, READY, RESULT, SLOW, WAITING, WAKE, entries
from autotune.core.context_pool import FreeContexts
from autotune.core.payload import Array


@dataclass(frozen=True, eq=False)
class QuickCall:
    """What a whole call of a program is made of.

    Attributes:
        call: Calls of the program on its inputs alone.
        context: Object that stands for the program while nobody uses it.
        ready: 1 while the program has whatever else it reads, as `call` knows it.
        slot: Address of the result's elements, as the program reads it.
        make: Makes an array of the result.
    """

    call: ArrayCall
    context: object
    ready: ctypes.c_int64
    slot: ctypes.c_void_p
    make: Callable[[], Array]

    def function(self, contexts: FreeContexts, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """A function of CPython that computes once: inputs in, the result out.

        Args:
            contexts: Contexts that nobody uses.
            otherwise: Computes what such a call leaves.
        """
        numbers = {
            PLAN: self.call.plan,
            FREE: id(contexts.free),
            CONTEXT: id(self.context),
            READY: ctypes.addressof(self.ready),
            WAITING: ctypes.addressof(contexts.waiting),
            MAKE: id(self.make),
            RESULT: ctypes.addressof(self.slot),
            SLOW: id(otherwise),
            WAKE: id(contexts.wake),
        }
        plan = np.array([numbers[position] for position in sorted(numbers)], np.uint64)
        lives_as_long = plan, self, contexts, otherwise
        return NEW(ctypes.addressof(entries().serve), lives_as_long, None)  # type: ignore[no-any-return]
