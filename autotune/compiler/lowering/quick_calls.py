"""Whole calls of a program by compiled code: acquire the context, allocate the result, run the program.

    take the context, if it is free -> check the arrays -> allocate the result -> compute -> give the context back

Python handles all other cases: keyword arguments, another number of arrays, an array that cannot be used without a
copy, a context that another thread uses. The GIL is released only while the program runs, which protects the list of
free contexts.
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
    """Components of a whole call of a program.

    Attributes:
        call: Calls of the program on its inputs only.
        context: Object in the list of free contexts that represents the program.
        ready: Flag that is 1 while all other arguments of the program are set.
        slot: Slot of the data pointer of the result.
        make: Allocator of the result.
    """

    call: ArrayCall
    context: object
    ready: ctypes.c_int64
    slot: ctypes.c_void_p
    make: Callable[[], Array]

    def function(self, contexts: FreeContexts, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """Return a builtin function that runs the program once: it takes the inputs and returns the result.

        Args:
            contexts: List of free contexts.
            otherwise: Fallback in Python for all other cases.
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
        owner = plan, self, contexts, otherwise
        return NEW(ctypes.addressof(entries().serve), owner, None)  # type: ignore[no-any-return]
