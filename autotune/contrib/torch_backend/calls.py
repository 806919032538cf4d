"""Calls of a program on tensors: addresses of the tensors are written to memref descriptors; results are new tensors.

The intermediates of a program share one arena, so every concurrent call needs a context of its own. Values derived from
weights, such as packed panels, are shared between contexts and recomputed when a weight has changed.
"""

import ctypes
import operator
import weakref
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from autotune.compiler.codegen.kernel_code import LinkedKernel
from autotune.compiler.codegen.runner_libraries import runner_libraries
from autotune.contrib.torch_backend.cached_programs import CachedProgram, ProgramArgument
from autotune.core.context_pool import ContextPool
from autotune.core.host.cores import physical_cores
from autotune.core.payload import DTYPES, Argument, Array
from autotune.core.plugs.external_kernel import ExternalKernel, MadeObject

V = TypeVar("V")
TORCH_DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
}
ADDRESS = torch.Tensor.data_ptr
VERSION = operator.attrgetter("_version")
ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class OutOfBoundsError(Exception):
    """An integer of an input is out of the program's bounds; PyTorch must handle the call."""


class DerivedValues(Generic[V]):
    """Cache of values derived from tensors, invalidated when a tensor is replaced, moved or written.

    Args:
        derive: Function from tensors to a value.
    """

    def __init__(self, derive: Callable[[Sequence[torch.Tensor]], V]) -> None:
        self._derive = derive
        CACHES.add(self)
        self._values: dict[tuple[int, ...], tuple[list[int], V, Any]] = {}

    def get(self, tensors: Sequence[torch.Tensor]) -> V:
        """Return the value of tensors; writes are detected by PyTorch's version counter, except those by ``.data``."""
        try:
            state = [*map(ADDRESS, tensors), *map(VERSION, tensors)]
        except RuntimeError:  # inference tensors have no version counter
            return self._derive(tensors)
        key = tuple(map(id, tensors))
        if (entry := self._values.get(key)) is not None and entry[0] == state:
            return entry[1]
        value = self._derive(tensors)

        def forget(_: object) -> None:
            self._values.pop(key, None)

        references = [weakref.ref(tensor, forget) for tensor in tensors]
        self._values[key] = (state, value, references)
        return value

    def forget_written(self, storages: Set[int]) -> None:
        """Drop values of tensors whose storages have the given addresses."""
        for key, (_, _, references) in list(self._values.items()):
            tensors = [tensor for each in references if (tensor := each()) is not None]
            if any(tensor.untyped_storage().data_ptr() in storages for tensor in tensors):
                self._values.pop(key, None)


CACHES = weakref.WeakSet[DerivedValues[Any]]()


def forget_fused(optimizer: torch.optim.Optimizer, *_: object) -> None:
    """Drop values of parameters that a fused optimizer step wrote, which the version counter does not record."""
    if torch.compiler.is_compiling():  # in a graph, the writes are counted
        return
    fused = [group["params"] for group in optimizer.param_groups if group.get("fused")]
    storages = {parameter.untyped_storage().data_ptr() for group in fused for parameter in group if is_dense(parameter)}
    if storages:
        for derived_values in list(CACHES):
            derived_values.forget_written(storages)


def is_dense(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a plain strided CPU tensor."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return plain and tensor.layout is torch.strided and tensor.device.type == "cpu"


register_optimizer_step_post_hook(forget_fused)


class Context:
    """Linked program with the memref descriptors of its arguments; it serves one call at a time."""

    def __init__(self, cached: CachedProgram) -> None:
        for library in runner_libraries():
            ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
        object_code = MadeObject(cached.program.symbol, cached.code)
        self._linked = LinkedKernel(ExternalKernel("graph", "torch", (), object_code))
        self._function = ENTRY(self._linked.value)
        arguments = cached.program.arguments
        self._descriptors = [descriptor(argument.shape) for argument in arguments]
        self._addresses = [0] * len(arguments)
        self._pointers = [ctypes.c_void_p(ctypes.addressof(each)) for each in self._descriptors]
        self._calls = ctypes.c_int64(1)
        arguments_of_entry = [*map(ctypes.addressof, self._pointers), ctypes.addressof(self._calls)]
        self._packed = (ctypes.c_void_p * len(arguments_of_entry))(*arguments_of_entry)

    def run(self, addresses: list[int]) -> None:
        """Call the program once with the address of each argument's elements."""
        if addresses != self._addresses:
            for each, address, previous in zip(self._descriptors, addresses, self._addresses, strict=True):
                if address != previous:
                    each[0] = each[1] = address
            self._addresses = addresses
        self._function(self._packed)


def descriptor(shape: Sequence[int]) -> Any:  # noqa: ANN401 - an array of ctypes
    """Create a row-major memref descriptor: two addresses, offset, sizes and strides."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis], step = step, step * shape[axis]
    return (ctypes.c_int64 * (3 + 2 * len(shape)))(0, 0, 0, *shape, *strides)


class RegionProgram:
    """Program of a region; any number of threads may call it.

    Args:
        cached: The program.
        likes: Tensors with the shape, strides and element type of PyTorch's results.
        threads: Threads that the program may use.
        indices: Half-open bounds of the integers in index tensors, by number of the tensor.
    """

    def __init__(
        self,
        cached: CachedProgram,
        likes: Sequence[torch.Tensor],
        threads: int = 1,
        indices: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        self._cached, arguments = cached, cached.program.arguments
        max_contexts = max(1, len(physical_cores()) // threads)
        self._contexts = ContextPool(lambda: Context(cached), max_contexts)
        self._contexts.put(self._contexts.get())  # linking errors are raised now
        self._constants = {name: np.ascontiguousarray(array) for name, array in cached.constants.items()}
        self._weights = [a.number for a in arguments if a.source == "weight"]
        derived = {a.number for a in arguments if a.source == "weight" and a.order}
        sources = [arguments[panels.source] for panels in cached.program.panels]
        derived |= {source.number for source in sources if source.source == "weight"}
        self._sources = sorted(derived)
        self._derived = DerivedValues(self._derive)
        self._inputs = [
            (number, a.number, TORCH_DTYPES[a.dtype], a) for number, a in enumerate(arguments) if a.source == "input"
        ]
        bounds = {a.number: accepted for a in arguments if (accepted := bounds_of(a)) is not None}
        for number, (low, high) in (indices or {}).items():
            declared = bounds.get(number, (low, high))
            bounds[number] = max(low, declared[0]), min(high, declared[1])
        self._bounded = [(number, *each) for number, each in bounds.items()]
        self._results = [(tuple(like.shape), *layout_of(like)) for like in likes]
        self._strided = {n: like.stride() for n, like in enumerate(likes) if not like.is_contiguous()}
        constants = {n: self._constants[a.name] for n, a in enumerate(arguments) if a.source == "constant"}
        for number, argument in enumerate(arguments):
            if argument.source == "panels" and (source := sources[argument.number]).source == "constant":
                values = self._constants[source.name].view(DTYPES[source.dtype]).reshape(source.shape)
                constants[number] = self._in_panels(argument, values)
        self._constant_arrays = constants
        self._fixed = [constants[n].ctypes.data if n in constants else 0 for n in range(len(arguments))]
        self._in_place = [(n, a.number) for n, a in enumerate(arguments) if a.source == "weight" and not a.order]
        self._seen = [0] * len(arguments)
        self._outputs = [(n, a.number) for n, a in enumerate(arguments) if a.source == "output"]

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run the program; return the region's results as new tensors.

        Args:
            tensors: Inputs and weights of the region, in order.

        Raises:
            OutOfBoundsError: An index is out of bounds.
        """
        for number, low, high in self._bounded:
            indices = tensors[number]
            minimum, maximum = torch.aminmax(indices.view(torch.int8) if indices.dtype is torch.bool else indices)
            if minimum.item() < low or maximum.item() >= high:
                raise OutOfBoundsError
        derived, derived_addresses = self._derived.get([tensors[number] for number in self._sources])
        addresses = derived_addresses.copy()
        copies = []
        for number, source in self._in_place:
            address = tensors[source].data_ptr()
            if address != self._seen[number]:  # on the first call, or if the weight was moved
                weight = tensors[source].contiguous()
                if weight.data_ptr() == address:
                    self._seen[number] = address
                copies.append(weight)
                address = weight.data_ptr()
            addresses[number] = address
        for number, source, _, _ in self._inputs:
            tensor = tensors[source]
            if not tensor.is_contiguous():
                tensor = tensor.contiguous()
                copies.append(tensor)
            addresses[number] = tensor.data_ptr()
        results = [torch.empty_strided(*layout, dtype=dtype, device="cpu") for *layout, dtype in self._results]
        for number, source in self._outputs:
            addresses[number] = results[source].data_ptr()
        context = self._contexts.get()
        try:
            context.run(addresses)
        finally:
            self._contexts.put(context)
        for number, strides in self._strided.items():
            results[number] = in_strides(results[number], strides)
        del derived, copies  # kept alive until the program has read them
        return results

    def _derive(self, tensors: Sequence[torch.Tensor]) -> tuple[list[Array], list[int]]:
        """Return arrays derived from weights, and the addresses of all arguments that do not vary between calls."""
        values = dict(zip(self._sources, tensors, strict=True))
        arguments, addresses = self._cached.program.arguments, self._fixed.copy()
        arrays: list[Array] = []
        for number, argument in enumerate(arguments):
            if argument.source == "panels" and not self._fixed[number]:
                array = self._panels(argument, values)
            elif argument.source == "weight" and argument.order:
                array = in_layout(argument, values[argument.number])
            else:
                continue
            arrays.append(array)
            addresses[number] = array.ctypes.data
        return arrays, addresses

    def _panels(self, argument: ProgramArgument, values: dict[int, torch.Tensor]) -> Array:
        """Pack a weight into panels."""
        source = self._cached.program.arguments[self._cached.program.panels[argument.number].source]
        return self._in_panels(argument, in_layout(source, values[source.number]))

    def _in_panels(self, argument: ProgramArgument, values: Array) -> Array:
        """Pack the elements of a weight or constant into panels."""
        packed = self._cached.program.panels[argument.number].pack(values)
        return aligned(packed, Argument("panels", "weight", argument.shape, argument.dtype))


def layout_of(like: torch.Tensor) -> tuple[tuple[int, ...], torch.dtype]:
    """Return the strides in which a program writes a result, row-major ones, and its element type."""
    return like.stride() if like.is_contiguous() else torch.empty(like.shape, device="meta").stride(), like.dtype


def in_strides(plain: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """Copy a tensor to given strides; return it unchanged if dimensions overlap other than by stride 0."""
    part = plain
    for d, stride in enumerate(strides):
        part = part if stride else part.narrow(d, 0, 1)
    extent = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, part.shape, strict=True) if size > 1):
        if stride < extent:
            return plain
        extent = stride * (size - 1) + extent
    strided = torch.empty_strided(tuple(part.shape), tuple(strides), dtype=plain.dtype, device="cpu")
    return strided.copy_(part).expand(plain.shape)


def bounds_of(argument: ProgramArgument) -> tuple[int, int] | None:
    """Return the bounds of an integer input; `None` if all values of its type are allowed."""
    if argument.source != "input" or argument.accepts is None:
        return None
    type_info = np.iinfo(DTYPES[argument.dtype])
    low, high = argument.accepts
    return None if low <= type_info.min and high > type_info.max else (low, high)


def in_layout(argument: ProgramArgument, weight: torch.Tensor) -> Array:
    """Return the elements of a weight in the layout of an argument."""
    parts = weight.detach().reshape(argument.split) if argument.split else weight.detach()
    transposed = parts.permute(argument.order) if argument.order else parts
    return to_numpy(transposed.contiguous()).reshape(argument.shape)


def aligned(array: Array, argument: Argument) -> Array:
    """Return a copy aligned for vector loads."""
    from autotune.core.host.machine import this_machine
    from autotune.core.host.pages import aligned_empty

    copy = aligned_empty(argument, this_machine().pages)
    copy[...] = array
    return copy


def to_numpy(tensor: torch.Tensor) -> Array:
    """Return a contiguous tensor as an array that shares its memory."""
    name = {torch.bfloat16: "bf16", torch.bool: "i8"}.get(tensor.dtype)
    if name is None:
        return np.asarray(tensor.numpy())
    plain = tensor.view(torch.int16 if name == "bf16" else torch.int8)
    return np.asarray(plain.numpy()).view(DTYPES[name])
