"""Calls of a compiled payload on NumPy arrays: programs read operands in place and write newly allocated arrays.

A program's intermediates are in one arena, so that it can run one call at a time. A call therefore takes an unused
context; if there is none, another is created, up to one per core, beyond which callers wait. Stored weights are shared
by all contexts.

A large result reuses the memory of an earlier result of the same function that is no longer referenced: the kernel
zeroes fresh memory page by page, which takes as long as a program that only writes it.
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
    """Operands that calls pass, and weights that are stored for all calls.

    Attributes:
        takes: Operands in order: inputs and weights that are not stored, then states, then stored weights.
        needed: Number of leading operands that every call must pass.
        stored: Stored weights by name, which calls need not pass.
        panels: Stored weights in panels, by their index among the program's packed weights.
    """

    takes: tuple[Accepted, ...]
    needed: int
    stored: Mapping[str, Array] = field(default_factory=dict)
    panels: Mapping[int, Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls, payload: Payload, seen: Mapping[str, Accepted], stored: Mapping[str, Array], panels: Mapping[int, Array]
    ) -> "CallPlan":
        """Create the plan of a payload with the given stored weights."""
        read = [a.name for a in payload.arguments if a.role not in WRITTEN]
        passed = [name for name in read if name not in stored]
        states = [a.name for a in payload.arguments if a.role == "state"]
        order = [*passed, *states, *(name for name in read if name in stored)]
        return cls(tuple(seen[name] for name in order), len(passed), stored, panels)


class PassedWeight:
    """Panels of a weight that calls pass; packed again only if the weight has changed.

    A read-only array that is passed again is not compared again.
    """

    def __init__(self, argument: Argument, packed: Mapping[int, PanelWeight], pages: Pages) -> None:
        self._packed = packed
        self.panels = {number: aligned_empty(weight.argument(argument), pages) for number, weight in packed.items()}
        self._last: Array | None = None
        self._frozen: Array | None = None

    def store(self, array: Array) -> None:
        """Pack a weight unless it equals the last one."""
        if array is self._frozen:
            return
        if self._last is None or not np.array_equal(self._last, array):
            self._last = array.copy()
            for number, weight in self._packed.items():
                self.panels[number][...] = weight.pack(array)
        self._frozen = array if is_frozen(array) else None


class CallContext:
    """A program and the pointers that it is called with; runs one call at a time.

    Args:
        payload: Payload that the program computes.
        program: Program that no other context calls.
        pages: Kind of memory pages for large arrays.
        results: Shape and element type of each written array, by name.
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
        self._is_ready = ctypes.c_int64(0)  # whether quick calls with the current plan are valid
        self._passed_weights: dict[str, PassedWeight] = {}

    def call(self, plan: CallPlan, arrays: Sequence[object]) -> list[Array]:
        """Run the program once; return new arrays for all written arguments, in order.

        Args:
            plan: Order of the arrays, and stored weights.
            arrays: Arrays in the plan's order; a missing state or `None` is zero, a missing weight the stored one.

        Raises:
            PayloadError: An array has the wrong shape or dtype, or is out of range.
        """
        if plan is not self._plan:
            self._adopt(plan)
        written = [self._make()]  # most programs have one result, and a comprehension takes as long as allocating it
        for make in self._make_more:
            written.append(make())
        if self._is_plain and len(arrays) == plan.needed:
            operands = (*arrays, *written)
            if (wrong := self._direct(*operands)) != self._count:
                self._call.run_from(wrong, operands)
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
        """Return calls of this context by compiled code alone; `None` with states, packing or several results."""
        self._adopt(plan)
        if not self._is_plain or self._make_more:
            return None
        needed, (output,) = plan.takes[: plan.needed], self._outputs
        call = ArrayCall(self._bound, [self._slots[each.name] for each in needed], needed)
        return QuickCall(call, self, self._is_ready, self._slots[output.name], self._make)

    def _adopt(self, plan: CallPlan) -> None:
        """Set the program's pointers to the stored weights of a plan."""
        self._is_ready.value = 0  # invalidates quick calls with the old plan
        needed = plan.takes[: plan.needed]
        operands = [*needed, *self._outputs]
        self._call = ArrayCall(self._bound, [self._slots[each.name] for each in operands], operands)
        self._direct, self._count = self._call.direct, self._call.count
        self._packing = []
        for name, array in plan.stored.items():
            self._slots[name].value = array.ctypes.data
        for number, panels in plan.panels.items():
            self._panel_slots[number].value = panels.ctypes.data
        for number, each in enumerate(needed):
            if (weight := self._passed_weight(each.name)) is not None:
                self._packing.append((number, weight))
        self._is_plain = not self._packing and not self._states
        self._is_ready, self._plan = ctypes.c_int64(self._is_plain), plan

    def _passed_weight(self, name: str) -> PassedWeight | None:
        """Set the pointers to panels of a passed weight; return `None` if the program reads no panels of it."""
        source = list(self._arguments).index(name)
        packed = {number: weight for number, weight in enumerate(self.weights) if weight.source == source}
        if not packed:
            return None
        if name not in self._passed_weights:
            self._passed_weights[name] = PassedWeight(self._arguments[name], packed, self._pages)
        for number, panels in self._passed_weights[name].panels.items():
            self._panel_slots[number].value = panels.ctypes.data
        return self._passed_weights[name]

    def _more(self, plan: CallPlan, arrays: Sequence[object], copies: list[Array]) -> dict[str, Array]:
        """Set the pointers to passed weights that override stored ones; return the passed states by name."""
        starts: dict[str, Array] = {}
        for each, value in zip(plan.takes[plan.needed :], arrays[plan.needed :], strict=False):
            if value is None:
                continue
            array = each.convert(value)
            if self._arguments[each.name].role == "state":
                starts[each.name] = array
                continue
            self._plan, self._is_ready.value = None, 0  # the next call restores the pointers to stored weights
            self._slots[each.name].value = array.ctypes.data
            copies.append(array)
            if (weight := self._passed_weight(each.name)) is not None:
                weight.store(array)
        return starts


class Caller:
    """A compiled payload, which any number of threads may call concurrently.

    Args:
        payload: Payload that is computed.
        compile: Function that compiles the payload for a new context.
        machine: Host, with the number of threads that a program runs on.
        weights: Stored weights by name, which calls need not pass.
        seen: Accepted arrays of arguments, by name; by default as the payload declares them.
        results: Shapes and element types of written arrays, by name; by default as the payload declares them.

    Attributes:
        plan: Operands that calls pass.
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
        """Store copies of weights, shared by all contexts, which later calls need not pass.

        Raises:
            PayloadError: A name is not a weight of the payload, or an array has the wrong shape or dtype.
        """
        weights_by_name = {argument.name: argument for argument in self._payload.arguments if argument.role == "weight"}
        if unknown := weights.keys() - weights_by_name.keys():
            raise PayloadError(
                f"only weights are kept, {self._payload.name} has {', '.join(weights_by_name) or 'none'}; "
                f"got {', '.join(sorted(unknown))}"
            )
        with self._contexts.take() as context:  # a compile error is raised now
            packed = context.weights
        fresh = {
            name: self._copy(weights_by_name[name], self._seen[name].convert(array)) for name, array in weights.items()
        }
        with self._changing:
            stored, panels = {**self.plan.stored, **fresh}, dict(self.plan.panels)
            for number, weight in enumerate(packed):
                source = self._payload.arguments[weight.source]
                if source.name in fresh:
                    panels[number] = self._copy(weight.argument(source), weight.pack(fresh[source.name]))
            self.plan = CallPlan.of(self._payload, self._seen, stored, panels)

    def quick(self, otherwise: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return a function that calls one context by compiled code; valid until weights are kept.

        Calls that compiled code cannot handle go to `otherwise`. See `CallContext.quick`.
        """
        with self._contexts.take() as context:
            quick = context.quick(self.plan)
        return quick.function(self._contexts.contexts, otherwise) if quick is not None else None

    def _copy(self, argument: Argument, array: Array) -> Array:
        copy = aligned_empty(argument, self._pages)
        copy[...] = array
        return copy

    def call(self, plan: CallPlan, arrays: Sequence[object]) -> list[Array]:
        """Run the program once in a free context; see `CallContext.call`."""
        context = self._contexts.get()
        try:
            return context.call(plan, arrays)
        finally:
            self._contexts.put(context)


def shape_of(argument: Argument) -> Array:
    """Return an array of an argument's shape that is backed by one element; calls replace its pointer."""
    item = np.empty(1, DTYPES[argument.dtype])
    strides = [item.itemsize * prod(argument.shape[i + 1 :]) for i in range(len(argument.shape))]  # copies read them
    return np.lib.stride_tricks.as_strided(item, argument.shape, strides)


LEAST_BYTES = 1 << 16  # from about this size on, malloc returns memory to the kernel and gets it back zeroed
MOST_FREE = 2  # one is computed while the caller still refers to the previous one


class Results:
    """Allocator of the arrays of one result, which reuses memory; thread-safe.

    All views of an array refer to the owner of its memory. If this object holds the only reference to the owner, the
    memory is reused.

    Args:
        shape: Shape of the result.
        dtype: Element type of the result.
        pages: Kind of memory pages.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], pages: Pages) -> None:
        self._shape, self._dtype, self._pages = shape, dtype, pages
        self._bytes = prod(shape) * dtype.itemsize
        self._recent: deque[tuple[Array, object, int]] = deque(maxlen=MOST_FREE)

    def maker(self) -> Callable[[], Array]:
        """Return a function that allocates uninitialized arrays."""
        return self.empty if self._bytes >= LEAST_BYTES else partial(np.empty, self._shape, self._dtype)

    def empty(self) -> Array:
        """Return an uninitialized array in the most recent free memory, which is likely still in the caches."""
        examined = []
        while self._recent:
            try:
                entry = self._recent.pop()
            except IndexError:  # another thread was faster
                break
            array = entry[0].view() if getrefcount(entry[1]) == entry[2] else None
            examined.append(entry)
            if array is not None:
                self._recent.extend(examined)
                return array
        self._recent.extend(reversed(examined))
        return self._keep()

    def _keep(self) -> Array:
        """Return an array in new memory and keep that for reuse; the oldest kept memory is dropped."""
        array = aligned_array(self._shape, self._dtype, self._pages)
        entry = (array, array.base)  # every view of the array has the same base
        references = getrefcount(entry[1])
        self._recent.append((*entry, references))
        return array.view()
