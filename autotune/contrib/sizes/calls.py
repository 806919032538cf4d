"""Calls of a model at any size: the cheapest compiled sizes compute a request, padded or in parts; results are cut."""

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from autotune.bundles.call import compile_candidate
from autotune.bundles.candidates import recorded_candidate
from autotune.bundles.contexts import CallContext, CallPlan
from autotune.compiler.lowering.program import CompiledProgram
from autotune.compiler.tasks.payload_folder import read_description
from autotune.contrib.sizes.bounds import Sizes, name_of
from autotune.contrib.sizes.folder import SizedModel, read_sized
from autotune.contrib.sizes.grains import OpenProgram
from autotune.contrib.sizes.narrow_steps import narrow_candidate, read_narrow
from autotune.contrib.sizes.paths import bundle_folder, size_folder
from autotune.contrib.sizes.plan import PlannedCall, open_dim, plan_request, split_dim, unserved
from autotune.contrib.sizes.proof import Dim, cut
from autotune.contrib.sizes.upper_bounds import SETTER
from autotune.core.arrays import Accepted, as_array
from autotune.core.candidate import Candidate
from autotune.core.context_pool import ContextPool
from autotune.core.errors import PayloadError
from autotune.core.host.cores import physical_cores
from autotune.core.host.machine import Machine, this_machine
from autotune.core.host.pages import ALIGNMENT, aligned_empty
from autotune.core.host.tensor_file import read_header
from autotune.core.payload import DTYPES, Argument, Array, Payload
from autotune.core.plugs.any_size import SizeProgram
from autotune.core.plugs.imported import WEIGHTS
from autotune.store.bundle import read_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.worker.loading.reading import open_payload, partition

MOST_PLANS = 1 << 12  # cached plans, one per size of a request


class SharedWeights:
    """Weights shared by all sizes: memory-mapped where possible, and packed once into the panels that products read."""

    def __init__(self) -> None:
        self._machine = this_machine()
        self._weights: dict[tuple[str, str, tuple[int, ...]], Array] = {}
        self._panels: dict[tuple[object, ...], Array] = {}

    @property
    def panel_bytes(self) -> int:
        """Bytes of packed weights."""
        return sum(array.nbytes for array in self._panels.values())

    def hold(self, argument: Argument, owner: str, array: Array) -> Array:
        """Return a weight as programs read it: the given array if it is aligned and contiguous, else a copy.

        Args:
            argument: Argument that the weight belongs to.
            owner: Name of the size that owns it; empty for a weight shared by all sizes.
            array: Values of the weight.
        """
        key = (argument.name, owner, argument.shape)
        if key not in self._weights:
            dtype = DTYPES[argument.dtype]
            plain = array.dtype == dtype and array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0
            self._weights[key] = array if plain else self._copy(argument, array)
        return self._weights[key]

    def pack(
        self, context: CallContext, payload: Payload, owners: Mapping[str, str], stored: Mapping[str, Array]
    ) -> dict[int, Array]:
        """Return the panels that a program reads, by number."""
        panels = {}
        for number, weight in enumerate(context.weights):
            source = payload.arguments[weight.source]
            layout = (weight.columns, weight.transposed, weight.shape, weight.precision)
            key = (source.name, owners[source.name], *layout)
            if key not in self._panels:
                self._panels[key] = self._copy(weight.argument(source), weight.pack(stored[source.name]))
            panels[number] = self._panels[key]
        return panels

    def _copy(self, argument: Argument, array: Array) -> Array:
        copied = aligned_empty(argument, self._machine.pages)
        copied[...] = array
        return copied


class SizeContext:
    """A call context of a compiled size that can set where its loops end.

    Args:
        context: Call context.
        program: Program of the context.
        extents: Whether the program's loops end at the extent of each call.
    """

    def __init__(self, context: CallContext, program: CompiledProgram, *, extents: bool) -> None:
        self._context = context
        self._set = program.function(SETTER) if extents else None
        self._extent = ctypes.c_int64()
        self._packed = (ctypes.c_void_p * 1)(ctypes.addressof(self._extent))

    def call(self, plan: CallPlan, arrays: Sequence[object], extent: int) -> list[Array]:
        """Compute one call; see `CallContext.call`."""
        if self._set is not None and self._extent.value != extent:
            self._extent.value = extent
            self._set(self._packed)
        return self._context.call(plan, arrays)

    def pack(
        self, shared: SharedWeights, payload: Payload, owners: Mapping[str, str], stored: Mapping[str, Array]
    ) -> dict[int, Array]:
        """Return the panels that the program reads, by number."""
        return shared.pack(self._context, payload, owners, stored)


class SizeFunction:
    """The compiled program of one size; callable from any number of threads.

    Args:
        prepared: Program of the size, not yet compiled.
        shared: Weights shared by all sizes.
    """

    def __init__(self, prepared: SizeProgram, shared: SharedWeights) -> None:
        payload, owners, machine = prepared.payload, prepared.owners, this_machine()
        results = {a.name: (a.shape, DTYPES[a.dtype]) for a in payload.written}

        def make() -> SizeContext:
            program = compile_candidate(payload, prepared.candidate)
            context = CallContext(payload, program, machine.pages, results)
            return SizeContext(context, program, extents=prepared.extents)

        self._contexts = ContextPool(make, max(1, len(physical_cores())))
        weights = [argument for argument in payload.arguments if argument.role == "weight"]
        values = payload.make_inputs(0) if weights else {}
        stored = {a.name: shared.hold(a, owners[a.name], values[a.name]) for a in weights}
        with self._contexts.take() as context:
            panels = context.pack(shared, payload, owners, stored)
        accepted = {argument.name: Accepted.of(argument) for argument in payload.arguments}
        self._plan = CallPlan.of(payload, accepted, stored, panels)
        self._names = [each.name for each in self._plan.takes[: self._plan.needed]]

    def __call__(self, inputs: Mapping[str, Array], extent: int = 0) -> list[Array]:
        """Return new arrays of the results, in order.

        Args:
            inputs: Inputs by name, of the compiled size.
            extent: Size at which loops end, for programs that take one; results beyond it are undefined.

        Raises:
            PayloadError: An array has a wrong type or shape, or values out of range.
        """
        with self._contexts.take() as context:
            return context.call(self._plan, [inputs[name] for name in self._names], extent)


def check_described(model: SizedModel, number: int, prepared: SizeProgram) -> SizeProgram:
    """Return a compiled size after checking its arguments against the dimensions in the folder's description.

    Raises:
        PayloadError: An argument does not match.
    """
    sizes, payload = model.sizes[number].sizes, prepared.payload
    inputs = [argument for argument in payload.arguments if argument.role == "input"]
    described = [(a.shape, axis, name) for a in inputs for name, axis in model.axes.get(a.name, {}).items()]
    for dim in model.dims:
        if len(dim.results) != len(payload.outputs) or dim.name not in {name for *_, name in described}:
            raise undescribed(model, dim.name)
        results = zip(payload.outputs, dim.results, strict=True)
        described += [(output.shape, axis, dim.name) for output, axis in results if axis is not None]
    for shape, axis, name in described:
        if not 0 <= axis < len(shape) or shape[axis] != sizes.get(name):
            raise undescribed(model, name)
    return prepared


def undescribed(model: SizedModel, name: str) -> PayloadError:
    """Return the error for a description whose axes do not match the compiled sizes."""
    return PayloadError(f"{model.source} must have {name[:80]} where its folder says, a size has not; import it again")


class AnySize:
    """A model callable at any size within its bounds, from any number of threads.

    Args:
        model: Description of the model.
        prepare: Function that returns a compiled size by its number.
    """

    def __init__(self, model: SizedModel, prepare: Callable[[int], SizeProgram]) -> None:
        self.model = model
        self._dims, self._served = model.dims, model.served
        self._sizes = [each.sizes for each in self._served]
        self._prepare = cache(lambda number: check_described(model, number, prepare(number)))
        self._shared = SharedWeights()
        self._functions: dict[int, SizeFunction] = {}
        self._making = threading.Lock()
        first = self._prepare(0).payload
        self._inputs = tuple(argument for argument in first.arguments if argument.role == "input")
        self._outputs = tuple(argument.name for argument in first.outputs)
        self._apart = split_dim(self._dims)
        self._plan = lru_cache(MOST_PLANS)(self._plan_of)

    def __repr__(self) -> str:
        return f"<AnySize {self.model.source}: {', '.join(f'{d.name} {d.low} to {d.high}' for d in self._dims)}>"

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the compiled sizes."""
        return tuple(each.name for each in self.model.sizes)

    @property
    def panel_bytes(self) -> int:
        """Bytes of packed weights, over all sizes called so far."""
        return self._shared.panel_bytes

    def plan(self, /, **sizes: int) -> list[tuple[str, int]]:
        """Return the sizes that compute a request, each with its length along the split dimension.

        A size is a compiled one, or a smaller one that a compiled size's program serves as well.

        Raises:
            PayloadError: A size is missing or out of bounds.
        """
        self._check_names(sizes)
        for dim in self._dims:
            dim.bounds.check(sizes[dim.name])
        return [
            (name_of(self._sizes[each.size]), each.count)
            for each in self._plan(tuple(sizes[d.name] for d in self._dims))
        ]

    def __call__(self, /, *arrays: Array, **named: Array) -> Array | dict[str, Array]:
        """Compute a request of any size within the bounds; the first call of a compiled size compiles it.

        Args:
            *arrays: Inputs in order.
            **named: Inputs by name.

        Returns:
            The result; a dictionary by name where there are several.

        Raises:
            PayloadError: An array is missing, unknown, or has a wrong shape or type, or a size is out of bounds.
        """
        inputs = self._match(arrays, named)
        request = self._request_of(inputs)
        parts = self._plan(tuple(request.values()))
        part_results = [self._compute(inputs, request, part) for part in parts]
        if len(part_results) == 1:
            results = part_results[0]
        else:
            axes = [axis or 0 for axis in self._apart.results] if self._apart is not None else []
            results = [
                np.concatenate(each, axis) for axis, each in zip(axes, zip(*part_results, strict=True), strict=True)
            ]
        return results[0] if len(results) == 1 else dict(zip(self._outputs, results, strict=True))

    def _plan_of(self, request: tuple[int, ...]) -> tuple[PlannedCall, ...]:
        sizes = dict(zip([dim.name for dim in self._dims], request, strict=True))
        parts = plan_request(self._dims, self._sizes, [each.seconds for each in self._served], sizes)
        if not parts:
            raise unserved(self._sizes, sizes)
        return tuple(parts)

    def _match(self, arrays: Sequence[Array], named: Mapping[str, Array]) -> dict[str, Array]:
        names = [argument.name for argument in self._inputs]
        inputs = {**dict(zip(names, arrays, strict=False)), **named}
        if len(arrays) + len(named) != len(names) or inputs.keys() != set(names):
            more = f"{len(arrays) - len(names)} more in order" if len(arrays) > len(names) else ""
            got = ", ".join(filter(None, [*names[: len(arrays)], more, *named])) or "none"
            raise PayloadError(f"{self.model.source} takes {', '.join(names)}, each once; got {got}")
        return {name: as_array(name, inputs[name], PayloadError) for name in names}

    def _request_of(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        """Return the sizes of a request, in the order of the dimensions.

        Raises:
            PayloadError: Arrays have different sizes of a dimension, or it is out of bounds.
        """
        sizes: dict[str, int] = {}
        for argument in self._inputs:
            array = arrays[argument.name]
            if array.ndim != len(argument.shape):
                raise PayloadError(
                    f"{argument.name} must have {len(argument.shape)} axes, got {array.ndim}; reshape it"
                )
            for name, axis in self.model.axes.get(argument.name, {}).items():
                size = array.shape[axis]
                if sizes.setdefault(name, size) != size:
                    raise PayloadError(f"{name} must be one size in all arrays, got {sizes[name]} and {size}")
        for dim in self._dims:
            dim.bounds.check(sizes[dim.name])
        return {dim.name: sizes[dim.name] for dim in self._dims}

    def _compute(self, inputs: Mapping[str, Array], request: Sizes, part: PlannedCall) -> list[Array]:
        """Return the results of a part of a request, cut to its size."""
        served, part_sizes = self._served[part.size], dict(request)
        whole, function = self.model.sizes[served.number].sizes, self._function(served.number)
        if self._apart is not None:
            part_sizes[self._apart.name] = part.count
        arrays = {}
        for argument in self._inputs:
            axes, array = self.model.axes.get(argument.name, {}), inputs[argument.name]
            if self._apart is not None:
                array = cut(array, axes.get(self._apart.name), part.start, part.start + part.count)
            self._check_masks(argument.name, array, part_sizes, served.sizes)
            arrays[argument.name] = self._padded(argument.name, array, part_sizes, whole)
        results = function(arrays, served.extent)
        for dim in self._dims:
            if part_sizes[dim.name] != whole[dim.name]:
                results = [
                    cut(array, axis, 0, part_sizes[dim.name]) for array, axis in zip(results, dim.results, strict=True)
                ]
        return [np.ascontiguousarray(array) for array in results]

    def _check_masks(self, name: str, array: Array, mine: Sizes, size: Sizes) -> None:
        """Check that a mask does not let padding reach the results.

        Raises:
            PayloadError: A mask has a line of zeros where padding would then reach the results.
        """
        axes = self.model.axes.get(name, {})
        for dim in self._dims:
            if dim.name in axes and mine[dim.name] != size[dim.name]:
                check_mask(name, array, dim, axes[dim.name])

    def _padded(self, name: str, array: Array, mine: Sizes, size: Sizes) -> Array:
        """Return an input padded with zeros to a compiled size."""
        axes = self.model.axes.get(name, {})
        longer = [dim for dim in self._dims if dim.name in axes and mine[dim.name] != size[dim.name]]
        if not longer:
            return array
        shape = list(array.shape)
        for dim in longer:
            shape[axes[dim.name]] = size[dim.name]
        padded = np.zeros(shape, array.dtype)
        padded[tuple(slice(0, each) for each in array.shape)] = array
        return padded

    def _function(self, number: int) -> SizeFunction:
        """Return the program of a compiled size, compiling it on first use."""
        if number not in self._functions:
            with self._making:
                if number not in self._functions:
                    self._functions[number] = SizeFunction(self._prepare(number), self._shared)
        return self._functions[number]

    def _check_names(self, sizes: Sizes) -> None:
        names = [dim.name for dim in self._dims]
        if sizes.keys() != set(names):
            raise PayloadError(f"a size must give {', '.join(names)}, got {', '.join(sizes) or 'none'}")


def check_mask(name: str, array: Array, dim: Dim, axis: int) -> None:
    """Check that a mask has a 1 in every line, if padding would otherwise reach the results.

    Raises:
        PayloadError: A line is all zeros.
    """
    if name in dim.masks and not array.any(axis=axis).all():
        raise PayloadError(
            f"{name} must hold a 1 in each line along {dim.name}, one has zeros alone; leave that one out"
        )


def prepare(folder: Path, model: SizedModel, number: int, machine: Machine | None = None) -> SizeProgram:
    """Return the program of a compiled size in a folder, not yet compiled.

    Args:
        folder: The folder.
        model: Description of the folder's model.
        number: Index of the size.
        machine: Machine of default schedules; `None` for the recorded candidate.

    Raises:
        PayloadError: A file is missing or damaged.
    """
    sizes, grain, dim = model.sizes[number].sizes, model.sizes[number].grain, open_dim(model.dims)
    directory = size_folder(folder, sizes)
    payload, described = open_payload(directory), read_description(directory).arguments
    own = set(read_header(directory / WEIGHTS)) if (directory / WEIGHTS).is_file() else set()
    named = zip(payload.arguments, described, strict=True)
    owners = {argument.name: name_of(sizes) if each.name in own else "" for argument, each in named}
    candidate, machine = candidate_of(folder, sizes, payload, machine)
    if grain and dim is not None:
        candidate = OpenProgram.of(payload, candidate, dim, model.axes, sizes[dim.name]).shortened(grain)
    return SizeProgram(payload, candidate, owners, machine, bool(grain))


def candidate_of(
    folder: Path, sizes: Sizes, payload: Payload, machine: Machine | None = None
) -> tuple[Candidate, Machine]:
    """Return a size's candidate and its machine: as recorded in its bundle, or with default schedules for this machine.

    Default schedules use the narrow steps that the size's folder asks for; see `narrow_steps`.

    Args:
        folder: Folder of the model.
        sizes: The size.
        payload: Payload of the size.
        machine: Other machine, for which only default schedules are available; `None` for this one.
    """
    directory = bundle_folder(folder, sizes)
    if machine is None and (directory / MANIFEST_FILE).is_file():
        bundle = read_bundle(directory, payload)
        return recorded_candidate(bundle), bundle.manifest.machine
    machine = machine or this_machine()
    return narrow_candidate(partition(payload), machine, read_narrow(size_folder(folder, sizes))), machine


def open_sized(folder: str | Path) -> AnySize:
    """Open a model of any size from the folder that `autotune import --dim` wrote.

    Raises:
        PayloadError: The folder holds no such model.
    """
    path = Path(folder)
    model = read_sized(path)
    return AnySize(model, lambda number: prepare(path, model, number))
