"""Calling a bundle: its program, compiled in this process, on NumPy arrays."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from autotune.bundles.candidates import recorded_candidate, recorded_machine
from autotune.bundles.contexts import CallContext, ContextPool
from autotune.compiler.lower import PLAIN
from autotune.compiler.program import Program, compile_program
from autotune.core.candidate import Candidate
from autotune.core.cores import physical_cores
from autotune.core.errors import PayloadError
from autotune.core.machine import Machine, this_machine
from autotune.core.payload import DTYPES, WRITTEN, Argument, Array, Payload
from autotune.store.bundle import BundleFiles
from autotune.tuning.backends import check_own_code
from autotune.tuning.default_program import default_candidate
from autotune.tuning.tunable import payload as payload_of
from autotune.worker.reading import partition


def compile_bundle(files: BundleFiles) -> "PayloadFunction":
    """Compile a bundle's program for this host, in this process.

    Raises:
        CompileError: The program does not compile here.
    """
    return PayloadFunction(files.payload, recorded_candidate(files), recorded_machine(files))


def compile_candidate(payload: Payload, candidate: Candidate) -> Program:
    """Compile a payload as a candidate says.

    Raises:
        BundleError: The candidate calls machine code of a stranger.
    """
    check_own_code(candidate.kernels)
    given, panels = candidate, dict(candidate.panels)
    return compile_program(
        payload, given.script, given.pipeline, text=given.text, panels=panels, kernels=candidate.kernels
    )


class PayloadFunction:
    """A compiled payload, which any number of threads may call: each call has arrays and an arena for itself.

    Weights of an imported model are known: they need not be given.

    Attributes:
        payload: Payload that the function computes.
    """

    def __init__(self, payload: Payload, candidate: Candidate, machine: Machine) -> None:
        """Compile a payload as a candidate says, once now, and again when several threads call at once."""
        self.payload = payload
        self._held = payload.make_inputs(0) if payload.foreign and payload.inputs is not None else {}
        self._contexts = ContextPool(
            lambda: CallContext(payload, compile_candidate(payload, candidate), machine),
            most=max(1, len(physical_cores()) // machine.threads),
        )
        with self._contexts.take():
            pass  # what does not compile is told now

    def __call__(self, *arrays: Array, **named: Array) -> Array | dict[str, Array]:
        """Compute once; see `Bundle.__call__`. A weight that did not change since the last call is not stored again.

        Raises:
            PayloadError: An array is missing, unknown, of another shape or kind, or out of range; nothing is run.
        """
        given = self._match(arrays, named)
        for argument in self.payload.arguments:
            if argument.name in given and (why := unfit(argument, given[argument.name])):
                raise PayloadError(why)
        with self._contexts.take() as context:
            written = context.call(given)
        return written if len(written) > 1 else next(iter(written.values()))

    def _match(self, arrays: tuple[Array, ...], named: Mapping[str, Array]) -> dict[str, Array]:
        """Arrays by name.

        Raises:
            PayloadError: There are too many, one is given twice or is unknown, or an input or weight is missing.
        """
        read = [a for a in self.payload.arguments if a.role not in WRITTEN]
        known = [a for a in read if a.role == "weight" and a.name in self._held]
        asked = [a for a in read if a not in known]
        order = [*asked, *(a for a in self.payload.arguments if a.role == "state"), *known]
        takes = ", ".join(f"{a.name} {list(a.shape)} {a.dtype}" for a in order)
        if len(arrays) > len(order):
            raise PayloadError(f"{self.payload.name} takes {len(order)} arrays: {takes}; got {len(arrays)}")
        given = {argument.name: np.asarray(array) for argument, array in zip(order, arrays, strict=False)}
        twice, unknown = given.keys() & named.keys(), named.keys() - {a.name for a in order}
        given |= {name: np.asarray(array) for name, array in named.items()}
        given |= {a.name: self._held[a.name] for a in known if a.name not in given}
        missing = [a.name for a in read if a.name not in given]
        for said, names in (("twice", twice), ("unknown", unknown), ("missing", missing)):
            if names:
                raise PayloadError(f"{self.payload.name} takes {takes}; {said}: {', '.join(sorted(names))}")
        return given


def unfit(argument: Argument, array: Array) -> str | None:
    """Why an array cannot be an argument, as a sentence; `None` if it can.

    Whole numbers must lie in their range: out of it a compiled function would read memory that is not its own.
    """
    if array.shape != argument.shape:
        return f"{argument.name} must have shape {argument.shape}, got {array.shape}; reshape it"
    kind = DTYPES[argument.dtype]
    if kind.kind != "i":
        fits = array.dtype.kind in "fiu" or array.dtype == kind
        return None if fits else f"{argument.name} must hold real numbers, got {array.dtype}; convert it"
    if array.dtype.kind not in "iu":
        return f"{argument.name} must hold whole numbers, got {array.dtype}; convert it"
    low, high = int(argument.low), int(argument.high) - 1
    outside = array[(array < low) | (array > high)]
    return (
        f"{argument.name} must be from {low} to {high}, got {outside.flat[0]}; choose another" if outside.size else None
    )


def compile_payload(source: str | Path | Payload, *, scheduled: bool = True) -> PayloadFunction:
    """Compile a payload for this host, in this process, to a function on NumPy arrays.

    Args:
        source: A spec, a path to an ``.mlir`` file, or a payload.
        scheduled: Compile with the default configs of the families; else with the plain lowering to loops.

    Raises:
        PayloadError: There is no such payload.
        CompileError: The payload does not compile.
    """
    payload, machine = payload_of(source), this_machine()
    candidate = default_candidate(partition(payload), machine) if scheduled else Candidate(None, PLAIN)
    return PayloadFunction(payload, candidate, machine)
