"""Calls of a bundle's or payload's program on NumPy arrays, compiled in this process."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.bundles.candidates import default_alone, recorded_candidate, recorded_machine
from autotune.bundles.contexts import Caller, CallPlan
from autotune.bundles.recorded import check_recorded
from autotune.compiler.lowering.program import CompiledProgram, compile_program
from autotune.compiler.passes.pipelines import PLAIN
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError, PayloadError
from autotune.core.host.machine import Machine, this_machine
from autotune.core.listener import SILENT, Listener, tell_stage, telling
from autotune.core.partition import Partition
from autotune.core.payload import Array, Payload
from autotune.core.plugs.family import Family
from autotune.core.task import Task
from autotune.store.bundle import BundleFiles
from autotune.tuning.candidates import default_candidate
from autotune.tuning.half_results import family_as_typed
from autotune.tuning.tunable import payload as payload_of
from autotune.worker.loading.own_code import check_own_code
from autotune.worker.loading.reading import partition


def compile_bundle(files: BundleFiles) -> "PayloadFunction":
    """Compile a bundle's program for this host, in this process.

    Raises:
        CompileError: The program does not compile here.
    """
    return PayloadFunction(files.payload, recorded_candidate(files), recorded_machine(files))


def compile_candidate(payload: Payload, candidate: Candidate) -> CompiledProgram:
    """Compile a payload with the script and pipeline of a candidate.

    Raises:
        BundleError: The candidate calls untrusted machine code.
    """
    check_own_code(candidate.kernels)
    return compile_program(payload, candidate)


class PayloadFunction:
    """A compiled payload, which any number of threads may call concurrently.

    The weights of an imported model are stored, so that calls need not pass them.

    Attributes:
        payload: Payload that the function computes.
    """

    def __init__(self, payload: Payload, candidate: Candidate, machine: Machine) -> None:
        """Compile a payload with a candidate, now and again for each further thread that calls concurrently."""
        self.payload = payload
        weights = {a.name for a in payload.arguments if a.role == "weight"}
        inputs = payload.make_inputs(0) if payload.foreign and payload.inputs is not None and weights else {}
        caller = Caller(
            payload,
            lambda: compile_candidate(payload, candidate),
            machine,
            {name: array for name, array in inputs.items() if name in weights},
        )
        self._calls = NamedCalls(payload, caller)
        self._compute = self._calls.quickest()

    def keep(self, /, **weights: Array) -> None:
        """Store copies of weights, which later calls need not pass and do not check or copy again.

        Raises:
            PayloadError: A name is not a weight of the payload, or an array has the wrong shape or dtype.
        """
        self._calls.caller.keep(weights)
        self._compute = self._calls.quickest()

    if TYPE_CHECKING:

        def __call__(self, /, *arrays: Array, **named: Array) -> Array | dict[str, Array]:
            """Compute once; see `NamedCalls.compute`."""

    else:  # compiled code is called directly: a Python method would take as long as a small program
        __call__ = property(attrgetter("_compute"), doc="Compute once; see `Bundle.__call__`.")


class NamedCalls:
    """Calls of a compiled payload on arrays in order or by name.

    Args:
        payload: The payload.
        caller: Caller of its program.

    Attributes:
        caller: Caller of its program.
    """

    def __init__(self, payload: Payload, caller: Caller) -> None:
        self.caller, self._payload = caller, payload
        self._names = tuple(argument.name for argument in payload.written)

    def quickest(self) -> Callable[..., Array | dict[str, Array]]:
        """Return the fastest function for a call, compiled code if possible; valid until weights are kept."""
        return self.caller.quick(self.compute) or self.compute

    def compute(self, /, *arrays: Array, **named: Array) -> Array | dict[str, Array]:
        """Run the program once; see `Bundle.__call__`.

        Raises:
            PayloadError: An array is missing, unknown, of the wrong shape or dtype, or out of range; nothing is run.
        """
        plan = self.caller.plan
        operands = arrays if len(arrays) == plan.needed and not named else self._match(plan, arrays, named)
        written = self.caller.call(plan, operands)
        return written[0] if len(written) == 1 else dict(zip(self._names, written, strict=True))

    def _match(self, plan: CallPlan, arrays: tuple[Array, ...], named: Mapping[str, Array]) -> list[Array | None]:
        """Return the arrays in the order of a plan.

        Raises:
            PayloadError: There are too many arrays, one is passed twice or unknown, or an input or weight is missing.
        """
        order = plan.takes
        names = [each.name for each in order]
        positional = dict(zip(names, arrays, strict=False))
        operands = {**positional, **named}
        missing = [name for name in names[: plan.needed] if name not in operands]
        wrong = {"twice": positional.keys() & named.keys(), "unknown": named.keys() - set(names), "missing": missing}
        if len(arrays) > len(order) or any(wrong.values()):
            takes = ", ".join(f"{a.name} {list(a.shape)} {a.dtype}" for a in order)
            if len(arrays) > len(order):
                raise PayloadError(f"{self._payload.name} takes {len(order)} arrays: {takes}; got {len(arrays)}")
            fault, which = next((fault, which) for fault, which in wrong.items() if which)
            raise PayloadError(f"{self._payload.name} takes {takes}; {fault}: {', '.join(sorted(which))}")
        return [operands.get(name) for name in names]


def compile_payload(
    source: str | Path | Payload, *, scheduled: bool = True, verify: bool = True, listener: Listener = SILENT
) -> PayloadFunction:
    """Compile a payload in this process for this host, to a function on NumPy arrays.

    Args:
        source: A spec, a path to an ``.mlir`` file, or a payload.
        scheduled: Compile with the default configs of the families; else with the plain lowering to loops.
        verify: Call an imported model once, and compare the results with those recorded by its import.
        listener: Listener of stages: reading, importing, partitioning and compiling take minutes for a large model.

    Raises:
        PayloadError: There is no such payload.
        CompileError: The payload does not compile, or its results differ from those recorded by its import.
    """
    with telling(listener):
        tell_stage(f"reading {source.name if isinstance(source, Payload) else source}")
        payload, machine = payload_of(source), this_machine()
        candidate = Candidate(None, PLAIN)
        if scheduled:
            tell_stage("partitioning the payload")
            parts = partition(payload)
            tell_stage(f"scheduling {len(parts.tasks)} tasks by default configs")
            candidate = default_candidate(parts, machine)
        tell_stage("compiling the whole")
        try:
            function = PayloadFunction(payload, candidate, machine)
        except CompileError:
            if not scheduled:
                raise
            function = compile_fallback(parts, payload, machine, listener)
        if verify:
            check_recorded(payload, function)
        return function


def compile_fallback(parts: Partition, payload: Payload, machine: Machine, listener: Listener) -> PayloadFunction:
    """Compile a payload that does not compile with the default configs of all its tasks.

    Args:
        parts: Partition of the payload.
        payload: The payload.
        machine: This host.
        listener: Listener that is notified of tasks that fall back to the plain lowering.

    Raises:
        CompileError: The plain lowering does not compile either.
    """
    tell_stage("compiling each task alone, as the whole does not compile")
    try:
        return PayloadFunction(payload, compilable_default(parts, machine, listener), machine)
    except CompileError as error:
        listener.note(f"{payload.name}: default configs compile alone, not together ({error}); plain lowering instead")
        tell_stage("compiling the whole by plain loops")
        return PayloadFunction(payload, Candidate(None, PLAIN), machine)


def compile_default(
    payload: Payload, machine: Machine, choose: Callable[[Task, Machine], Family | None], listener: Listener
) -> CompiledProgram:
    """Compile a payload with default configs; tasks whose configs do not compile use the plain lowering.

    Args:
        payload: The payload.
        machine: Machine that it is compiled for.
        choose: Function that returns the family of a task; `None` for the plain lowering.
        listener: Listener that is notified of tasks that fall back to the plain lowering.

    Raises:
        CompileError: The payload does not compile without these tasks' configs either.
    """
    parts = partition(payload)
    try:
        return compile_candidate(payload, default_candidate(parts, machine, choose))
    except CompileError:
        return compile_candidate(payload, compilable_default(parts, machine, listener, choose))


def compilable_default(
    parts: Partition,
    machine: Machine,
    listener: Listener,
    choose: Callable[[Task, Machine], Family | None] = family_as_typed,
) -> Candidate:
    """Return a candidate with default configs for the tasks that compile alone, and the plain lowering for others.

    The listener is notified of each task that does not compile.
    """

    def family_that_compiles(task: Task, machine: Machine) -> Family | None:
        family = choose(task, machine)
        if family is None:
            return None
        candidate = default_alone(task, family, machine)
        try:
            compile_candidate(task.payload, candidate)
        except CompileError as error:
            listener.note(f"{task.name}: its default config does not compile ({error}); plain lowering instead")
            return None
        return family

    return default_candidate(parts, machine, family_that_compiles)
