"""Building: the payload of a graph as a function on arrays; compiled once for each structure, in memory and on disk.

This is where tensors meet the compiler: the package imports it when something is compiled, not before.
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
from autotune.store.manifest import MANIFEST_FILE
from autotune.store.places import bundle_folder
from autotune.tensor.kept import keep, key_of, read_kept
from autotune.tuning.candidates import default_candidate
from autotune.worker.loading.own_code import check_own_code
from autotune.worker.loading.reading import partition

KEPT = 256  # functions of `numpy` in memory


class TensorFunction:
    """A compiled payload, which any number of threads may call.

    Args:
        payload: Payload that the function computes.
        lowered: Program to call.
        weights: Arrays by name that no call gives.
        seen: What arrays of inputs must be, by name; by default of the payload's shapes, their numbers looked at.
        results: Shapes and element types of the outputs' arrays, by name; by default the payload's.

    Attributes:
        call: Computes once: an array for every input in, new arrays of the outputs out.

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
        plain = {argument.name: Accepted.unbounded(argument) for argument in payload.arguments}
        caller = Caller(
            payload, lambda: load_program(lowered), machine, weights, seen={**plain, **(seen or {})}, results=results
        )
        self.call: Callable[[Sequence[object]], list[Array]] = partial(caller.call, caller.plan)


def function_of(
    payload: Payload,
    weights: Mapping[str, Array],
    bundle: str = "",
    seen: Mapping[str, Accepted] | None = None,
    results: Mapping[str, Result] | None = None,
) -> TensorFunction:
    """A payload of a graph, compiled.

    Args:
        payload: Payload to compile.
        weights: Arrays by name that no call gives.
        bundle: Folder of a bundle that says how; by default where `tune` puts one, if there is one.
        seen: What arrays of inputs must be, by name.
        results: Shapes and element types of the outputs' arrays, by name.

    Raises:
        TensorError: The bundle is of something else.
        BundleError: The bundle is refused.
        CompileError: The payload does not compile.
    """
    folder = Path(bundle) if bundle else bundle_folder(payload.name)
    recorded = folder / MANIFEST_FILE
    is_tuned = bool(bundle) or recorded.is_file()
    schedule = hashlib.sha256(recorded.read_bytes()).hexdigest() if recorded.is_file() else ""
    key = key_of(*identity(payload), schedule)
    lowered = read_kept(key)
    if lowered is None:
        lowered = lower_program(payload, tuned(payload, folder) if is_tuned else by_default(payload))
        keep(key, lowered)
    return TensorFunction(payload, lowered, weights, seen, results)


def identity(payload: Payload) -> list[str]:
    """Whatever decides, besides its schedule, which program a payload becomes here."""
    machine = this_machine()
    roles = " ".join(argument.role for argument in payload.arguments)
    facts = [machine.fingerprint, machine.pages, compiler_version(), version(DISTRIBUTION)]
    return [payload.text, roles, *facts, compilation(machine.threads)]


def by_default(payload: Payload) -> Candidate:
    """How a payload is compiled without any search."""
    return default_candidate(partition(payload), this_machine())


def tuned(payload: Payload, folder: Path) -> Candidate:
    """How a bundle says that a payload is compiled.

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


@lru_cache(KEPT)
def shared_function(payload: Payload) -> TensorFunction:
    """The function of all graphs of a structure, which gives every array."""
    return function_of(payload, {})
