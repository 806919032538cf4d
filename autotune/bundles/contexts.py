"""Calls of a compiled payload on NumPy arrays: programs read what they are given where it lies, and write new arrays.

A program's intermediates lie in one arena. So a call takes an unused context; where there is none, another is
made, up to one a core, and then callers wait for each other. Weights that are held lie once, for all contexts.

A large array of results lies on memory that an earlier result of the same call gave back when it was dropped: fresh
memory of the system is zeroed page by page, which takes as long as a program that only writes it.
"""

import ctypes
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from sys import getrefcount
from typing import Any

import numpy as np

from autotune.compiler.lowering.array_calls import ArrayCall
from autotune.compiler.lowering.program import CompiledProgram
from autotune.compiler.lowering.quick_calls import QuickCall
from autotune.compiler.panel_weight import PanelWeight
from autotune.core.arrays import Accepted, is_frozen
from autotune.core.context_pool import ContextPool
from autotune.core.errors import PayloadError
from autotune.core.host.cores import physical_cores
from autotune.core.host.machine import Machine
from autotune.core.host.pages import Pages, aligned_array, aligned_empty
from autotune.core.payload import DTYPES, WRITTEN, Argument, Array, Payload

Result = tuple[tuple[int, ...], np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class CallPlan:
    """What calls give, and what is held for all of them.

    Attributes:
        takes: What calls give, in order: inputs and weights that are not held, then states, then held weights.
        needed: How many of these every call gives: the first.
        held: Weights that calls need not give, by name, and those in panels, by number.
    """

    takes: tuple[Accepted, ...]
    needed: int
    held: Mapping[str, Array] = field(default_factory=dict)
    panels: Mapping[int, Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls, payload: Payload, seen: Mapping[str, Accepted], held: Mapping[str, Array], panels: Mapping[int, Array]
    ) -> "CallPlan":
        """The plan of a payload some of whose weights are held."""
        read = [a.name for a in payload.arguments if a.role not in WRITTEN]
        given = [name for name in read if name not in held]
        states = [a.name for a in payload.arguments if a.role == "state"]
        order = [*given, *states, *(name for name in read if name in held)]
        return cls(tuple(seen[name] for name in order), len(given), held, panels)


class GivenWeight:
    """Panels of a weight that calls give; packed again only where it has changed since.

    An array that is read-only, and is given again, is not looked at again.
    """

    def __init__(self, argument: Argument, packed: Mapping[int, PanelWeight], pages: Pages) -> None:
        self._packed = packed
        self.panels = {number: aligned_empty(weight.argument(argument), pages) for number, weight in packed.items()}
        self._last: Array | None = None
        self._frozen: Array | None = None

    def store(self, array: Array) -> None:
        """Pack a weight, if it is another than the last one."""
        if array is self._frozen:
            return
        if self._last is None or not np.array_equal(self._last, array):
            self._last = array.copy()
            for number, weight in self._packed.items():
                self.panels[number][...] = weight.pack(array)
        self._frozen = array if is_frozen(array) else None


class CallContext:
    """A program of its own, and the pointers that it is called with; one call at a time.

    Args:
        payload: Payload that the program computes.
        program: Program that no other context calls.
        pages: Kind of memory pages that large arrays lie on.
        results: Shape and element type of the array of everything that is written, by name.
    """

    def __init__(self, payload: Payload, program: CompiledProgram, pages: Pages, results: Mapping[str, Result]) -> None:
        self.weights = program.weights
        self._arguments, self._pages = {a.name: a for a in payload.arguments}, pages
        packed = [weight.argument(payload.arguments[weight.source]) for weight in program.weights]
        self._bound = program.bind([shape_of(argument) for argument in (*payload.arguments, *packed)])
        self._slots = dict(zip((a.name for a in payload.arguments), self._bound.slots, strict=False))
        self._panel_slots = self._bound.slots[len(payload.arguments) :]
        written = [a.name for a in payload.written]
        self._make, *self._make_more = (Results(*results[name], pages).maker() for name in written)
        self._outputs = [Accepted(name, *results[name]) for name in written]
        self._states = [(number, a.name) for number, a in enumerate(payload.written) if a.role == "state"]
        self._plan: CallPlan | None = None
        self._is_ready = ctypes.c_int64(0)  # for quick calls by the plan
        self._given: dict[str, GivenWeight] = {}

    def call(self, plan: CallPlan, arrays: Sequence[object]) -> list[Array]:
        """Compute once: new arrays of what is written, in order.

        Args:
            plan: What the arrays are, and what is held.
            arrays: Arrays in the plan's order; `None`, or none, for a state begins as zeros, for a held weight as held.

        Raises:
            PayloadError: An array is of another shape or kind, or out of range.
        """
        if plan is not self._plan:
            self._adopt(plan)
        written = [self._make()]  # most have one result, and a comprehension takes as long as making that
        for make in self._make_more:
            written.append(make())
        if self._is_plain and len(arrays) == plan.needed:
            given = (*arrays, *written)
            if (wrong := self._direct(*given)) != self._count:
                self._call.run_from(wrong, given)
            return written
        copies = self._call.point((*arrays[: plan.needed], *written))
        starts = self._more(plan, arrays, copies)
        for number, weight in self._packing:
            weight.store(plan.takes[number].convert(arrays[number]))
        for number, name in self._states:
            written[number][...] = starts.get(name, 0)
        self._bound.run()
        return written

    def quick(self, plan: CallPlan) -> QuickCall | None:
        """Calls of this context by compiled code alone; `None` where there are states, or several results."""
        self._adopt(plan)
        if not self._is_plain or self._make_more:
            return None
        needed, (output,) = plan.takes[: plan.needed], self._outputs
        call = ArrayCall(self._bound, [self._slots[each.name] for each in needed], needed)
        return QuickCall(call, self, self._is_ready, self._slots[output.name], self._make)

    def _adopt(self, plan: CallPlan) -> None:
        """Point to what a plan holds."""
        self._is_ready.value = 0  # of the plan before
        needed = plan.takes[: plan.needed]
        wanted = [*needed, *self._outputs]
        self._call = ArrayCall(self._bound, [self._slots[each.name] for each in wanted], wanted)
        self._direct, self._count = self._call.direct, self._call.count
        self._packing = []
        for name, array in plan.held.items():
            self._slots[name].value = array.ctypes.data
        for number, panels in plan.panels.items():
            self._panel_slots[number].value = panels.ctypes.data
        for number, each in enumerate(needed):
            if (weight := self._give(each.name)) is not None:
                self._packing.append((number, weight))
        self._is_plain = not self._packing and not self._states
        self._is_ready, self._plan = ctypes.c_int64(self._is_plain), plan

    def _give(self, name: str) -> GivenWeight | None:
        """Point to panels of a weight that a call gives; `None` where the program reads none of it."""
        source = list(self._arguments).index(name)
        packed = {number: weight for number, weight in enumerate(self.weights) if weight.source == source}
        if not packed:
            return None
        if name not in self._given:
            self._given[name] = GivenWeight(self._arguments[name], packed, self._pages)
        for number, panels in self._given[name].panels.items():
            self._panel_slots[number].value = panels.ctypes.data
        return self._given[name]

    def _more(self, plan: CallPlan, arrays: Sequence[object], copies: list[Array]) -> dict[str, Array]:
        """Point to weights that are given though they are held; states that are given, by name."""
        starts: dict[str, Array] = {}
        for each, value in zip(plan.takes[plan.needed :], arrays[plan.needed :], strict=False):
            if value is None:
                continue
            array = each.convert(value)
            if self._arguments[each.name].role == "state":
                starts[each.name] = array
                continue
            self._plan, self._is_ready.value = None, 0  # what is held is pointed to again by the next call
            self._slots[each.name].value = array.ctypes.data
            copies.append(array)
            if (weight := self._give(each.name)) is not None:
                weight.store(array)
        return starts


class Caller:
    """A compiled payload, which any number of threads may call.

    Args:
        payload: Payload that is computed.
        compile: Compiles it anew, for a context.
        machine: Host, with the threads that a program runs on.
        weights: Arrays by name that calls need not give.
        seen: What arrays of arguments must be, by name; by default what the payload says.
        results: Shapes and element types of what is written, by name; by default what the payload says.

    Attributes:
        plan: What calls give.
    """

    def __init__(
        self,
        payload: Payload,
        compile: Callable[[], CompiledProgram],
        machine: Machine,
        weights: Mapping[str, Array],
        *,
        seen: Mapping[str, Accepted] | None = None,
        results: Mapping[str, Result] | None = None,
    ) -> None:
        self._payload, self._pages = payload, machine.pages
        self._seen = {a.name: Accepted.of(a) for a in payload.arguments} | dict(seen or {})
        plain = {a.name: (a.shape, DTYPES[a.dtype]) for a in payload.written} | dict(results or {})
        most = max(1, len(physical_cores()) // machine.threads)
        self._contexts = ContextPool(lambda: CallContext(payload, compile(), machine.pages, plain), most)
        self._changing = threading.Lock()
        self.plan = CallPlan.of(payload, self._seen, {}, {})
        self.keep(weights)

    def keep(self, weights: Mapping[str, Array]) -> None:
        """Hold copies of weights, once for all contexts: later calls need not give them.

        Raises:
            PayloadError: One is none of the payload's weights, or of another shape or kind.
        """
        taken = {argument.name: argument for argument in self._payload.arguments if argument.role == "weight"}
        if unknown := weights.keys() - taken.keys():
            raise PayloadError(
                f"only weights are kept, {self._payload.name} has {', '.join(taken) or 'none'}; "
                f"got {', '.join(sorted(unknown))}"
            )
        with self._contexts.take() as context:  # what does not compile raises now
            packed = context.weights
        fresh = {name: self._copy(taken[name], self._seen[name].convert(array)) for name, array in weights.items()}
        with self._changing:
            held, panels = {**self.plan.held, **fresh}, dict(self.plan.panels)
            for number, weight in enumerate(packed):
                source = self._payload.arguments[weight.source]
                if source.name in fresh:
                    panels[number] = self._copy(weight.argument(source), weight.pack(fresh[source.name]))
            self.plan = CallPlan.of(self._payload, self._seen, held, panels)

    def quick(self, otherwise: Callable[..., Any]) -> Callable[..., Any] | None:
        """Calls by compiled code, of one context, until weights are kept; see `CallContext.quick`."""
        with self._contexts.take() as context:
            quick = context.quick(self.plan)
        return quick.function(self._contexts.contexts, otherwise) if quick is not None else None

    def _copy(self, argument: Argument, array: Array) -> Array:
        mine = aligned_empty(argument, self._pages)
        mine[...] = array
        return mine

    def call(self, plan: CallPlan, arrays: Sequence[object]) -> list[Array]:
        """Compute once; see `CallContext.call`."""
        context = self._contexts.get()
        try:
            return context.call(plan, arrays)
        finally:
            self._contexts.put(context)


def shape_of(argument: Argument) -> Array:
    """An array that has an argument's shape, and no memory: calls point elsewhere."""
    one = np.empty(1, DTYPES[argument.dtype])
    strides = [one.itemsize * prod(argument.shape[i + 1 :]) for i in range(len(argument.shape))]  # copies read them
    return np.lib.stride_tricks.as_strided(one, argument.shape, strides)


LEAST_BYTES = 1 << 16  # the heap gives memory from about there on back to the system, and gets it zeroed
MOST_KEPT = 2  # one is computed while the caller still has the one before


class Results:
    """Makes the arrays of one result; from any number of threads.

    Memory of an array lies in an owner, which whatever sees the memory refers to. Where only this object refers
    to it any more, it is used again.

    Args:
        shape: Shape of the result.
        dtype: Element type of the result.
        pages: Kind of memory pages that it lies on.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], pages: Pages) -> None:
        self._shape, self._dtype, self._pages = shape, dtype, pages
        self._bytes = prod(shape) * dtype.itemsize
        self._kept: deque[tuple[Array, object, int]] = deque(maxlen=MOST_KEPT)

    def maker(self) -> Callable[[], Array]:
        """A function that allocates uninitialised arrays."""
        return self.empty if self._bytes >= LEAST_BYTES else partial(np.empty, self._shape, self._dtype)

    def empty(self) -> Array:
        """An uninitialised array, on memory that is kept: on the latest that is free, which is still in the caches."""
        looked = []
        while self._kept:
            try:
                kept = self._kept.pop()
            except IndexError:  # another thread was faster
                break
            array = kept[0].view() if getrefcount(kept[1]) == kept[2] else None
            looked.append(kept)
            if array is not None:
                self._kept.extend(looked)
                return array
        self._kept.extend(reversed(looked))
        return self._keep()

    def _keep(self) -> Array:
        """An array on fresh memory, which is kept; that of the oldest one is not any more."""
        array = aligned_array(self._shape, self._dtype, self._pages)
        kept = (array, array.base)  # which every view of it has as its base, too
        references = getrefcount(kept[1])
        self._kept.append((*kept, references))
        return array.view()
