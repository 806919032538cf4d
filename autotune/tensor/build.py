"""Compile the payload of a graph to a function on arrays, cached in memory and on disk by the graph's structure.

This module imports the compiler; the package imports it on the first compilation only.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path

from autotune.bundles.candidates import recorded_candidate
from autotune.bundles.contexts import Caller, Result
from autotune.compiler.ir.module import compiler_version
from autotune.compiler.lowering.pipeline import compilation
from autotune.compiler.lowering.text import LoweredProgram, load_program, lower_program
from autotune.core.arrays import Accepted
from autotune.core.candidate import Candidate
from autotune.core.errors import TensorError
from autotune.core.host.extras import DISTRIBUTION
from autotune.core.host.machine import this_machine
from autotune.core.payload import Array, Payload
from autotune.store.bundle import read_bundle
from autotune.store.folders import bundle_folder
from autotune.store.manifest import MANIFEST_FILE
from autotune.tensor.program_cache import keep, key_of, read_cached
from autotune.tuning.candidates import default_candidate
from autotune.worker.loading.own_code import check_own_code
from autotune.worker.loading.reading import partition

MOST_CACHED = 256  # compiled graphs of `Tensor.numpy` that are cached in memory


class TensorFunction:
    """A compiled payload; calls are thread-safe.

    Args:
        payload: Payload that the function computes.
        lowered: Program to call.
        weights: Arrays of the weights, by name.
        seen: Shapes and element types that input arrays must have, by name; by default the payload's.
        results: Shapes and element types of the output arrays, by name; by default the payload's.

    Attributes:
        call: Function from one array for each input to new arrays of the outputs.

    Raises:
        BundleError: The program calls untrusted machine code.
    """

    def __init__(
        self,
        payload: Payload,
        lowered: LoweredProgram,
        weights: Mapping[str, Array],
        seen: Mapping[str, Accepted] | None = None,
        results: Mapping[str, Result] | None = None,
    ) -> None:
        check_own_code(lowered.kernels)
        machine = replace(this_machine(), threads=lowered.threads)
        accepted = {argument.name: Accepted.unbounded(argument) for argument in payload.arguments}
        caller = Caller(
            payload, lambda: load_program(lowered), machine, weights, seen={**accepted, **(seen or {})}, results=results
        )
        self.call: Callable[[Sequence[object]], list[Array]] = partial(caller.call, caller.plan)


def function_of(
    payload: Payload,
    weights: Mapping[str, Array],
    bundle: str = "",
    seen: Mapping[str, Accepted] | None = None,
    results: Mapping[str, Result] | None = None,
) -> TensorFunction:
    """Compile the payload of a graph, or load it from the cache on disk.

    Args:
        payload: Payload to compile.
        weights: Arrays of the weights, by name.
        bundle: Folder of the bundle with its schedules; by default the one that `tune` writes, if it exists.
        seen: Shapes and element types that input arrays must have, by name.
        results: Shapes and element types of the output arrays, by name.

    Raises:
        TensorError: The bundle is of another payload.
        BundleError: The bundle cannot be read, or its program calls untrusted machine code.
        CompileError: The payload does not compile.
    """
    folder = Path(bundle) if bundle else bundle_folder(payload.name)
    recorded = folder / MANIFEST_FILE
    is_tuned = bool(bundle) or recorded.is_file()
    schedule = hashlib.sha256(recorded.read_bytes()).hexdigest() if recorded.is_file() else ""
    key = key_of(*identity(payload), schedule)
    lowered = read_cached(key)
    if lowered is None:
        lowered = lower_program(payload, tuned(payload, folder) if is_tuned else by_default(payload))
        keep(key, lowered)
    return TensorFunction(payload, lowered, weights, seen, results)


def identity(payload: Payload) -> list[str]:
    """Return the strings that determine, besides the schedule, the compiled program of a payload on this machine."""
    machine = this_machine()
    roles = " ".join(argument.role for argument in payload.arguments)
    facts = [machine.fingerprint, machine.pages, compiler_version(), version(DISTRIBUTION)]
    return [payload.text, roles, *facts, compilation(machine.threads)]


def by_default(payload: Payload) -> Candidate:
    """Return the candidate of default schedules."""
    return default_candidate(partition(payload), this_machine())


def tuned(payload: Payload, folder: Path) -> Candidate:
    """Return the candidate that a bundle records.

    Raises:
        TensorError: The bundle is of another payload.
    """
    files = read_bundle(folder)
    if files.payload.text != payload.text:
        raise TensorError(
            f"the bundle in {folder} must be of this function and these shapes, it is of {files.payload.name}; "
            f"tune {payload.name}"
        )
    return recorded_candidate(files)


@lru_cache(MOST_CACHED)
def shared_function(payload: Payload) -> TensorFunction:
    """Return the compiled function of a payload without weights, shared by all graphs of the same structure."""
    return function_of(payload, {})
