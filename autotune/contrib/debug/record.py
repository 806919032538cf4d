"""Recording in an isolated process: payload and script are parsed there, and data comes back."""

import time
from dataclasses import dataclass, field, replace

from mlir import ir

from autotune.compiler.ir.module import context, copy_module
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.stages import alone
from autotune.compiler.lowering.steps import rewrite
from autotune.compiler.script.apply import run_script
from autotune.contrib.debug.recording import DebugRecording, PayloadText
from autotune.contrib.debug.script_facts import ScriptFacts
from autotune.contrib.debug.stepper import DebugLimits, Ended, Stepper
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError, ScheduleError
from autotune.core.evaluator import Evaluation
from autotune.core.payload import Payload
from autotune.worker.loading.reading import bare
from autotune.worker.worker import Worker

SECONDS = 300.0  # for all of it
MEMORY_BYTES = 8 << 30
PREPARED = "panels"  # the last step before the script itself


@dataclass(frozen=True)
class DebugRequest:
    """What is to be recorded.

    Attributes:
        payload: The payload.
        candidate: How it is compiled.
        lowering: Whether the lowering that all schedules share is part of it.
        limits: How much is recorded.
    """

    payload: Payload
    candidate: Candidate
    lowering: bool = False
    limits: DebugLimits = field(default_factory=DebugLimits)


def record(request: DebugRequest) -> DebugRecording:
    """The steps of a script, from an isolated process.

    Raises:
        ScheduleError: The process did not survive the script.
        CompileError: The payload or the script does not parse.
    """
    with Worker(SECONDS, MEMORY_BYTES) as worker:
        found = worker.call(record_here, replace(request, payload=bare(request.payload)))
    if isinstance(found, Evaluation):
        requirement = "a schedule must be applied to its end to be shown step by step, it is not"
        raise ScheduleError(f"{requirement} ({found.outcome}: {found.diagnostic}); leave out its last ops")
    return found


def record_here(request: DebugRequest) -> DebugRecording:
    """The steps of a script. In the isolated process only.

    Raises:
        CompileError: The payload or the script does not parse, or a rewrite before the script refuses it.
    """
    begun = time.monotonic()
    with context():
        unit = prepared(request)
        if unit.script is None or unit.text is None:
            raise CompileError("transform", "there must be a schedule to be shown, the payload has the plain lowering")
        whole, failure = copy_module(unit.module), ""
        try:
            run_script(whole, copy_module(unit.script), unit.text, unit.source)
        except CompileError as error:
            failure = str(error)
        stepper = Stepper(unit.module, ScriptFacts.read(unit.script, unit.text), request.limits)
        try:
            stepper.run()
        except Ended as ended:
            failure = failure or str(ended)
        notes = [] if request.limits.skip else list(disagreements(stepper, whole, failure))
    if stepper.thinned:
        notes.append(
            f"from step {stepper.thinned} on, a step is a whole call: the limits of time and size were reached"
        )
    return DebugRecording(
        request.payload.name,
        unit.source,
        unit.text,
        PayloadText(*stepper.before),
        tuple(stepper.steps),
        failure,
        tuple(notes),
        seconds=time.monotonic() - begun,
    )


def prepared(request: DebugRequest) -> Unit:
    """Payload and script as they are when the script begins."""
    candidate = request.candidate
    script = candidate.script if request.lowering or candidate.script is None else alone(candidate.script)
    unit = Unit.open(request.payload, replace(candidate, script=script))
    if unit.script is not None:
        for step in rewrite(unit):
            if step == PREPARED:
                break
    return unit


def disagreements(stepper: Stepper, whole: ir.Module, failure: str) -> list[str]:
    """Where the last step is not what one run of the whole script gives."""
    failed = any(step.failed for step in stepper.steps)
    if failed != bool(failure):
        return [f"one run of the whole script ends otherwise: {failure or 'it works'}"]
    same = failed or str(stepper.named.module) == str(whole)
    return [] if same else ["one run of the whole script gives another payload than the last step shows"]
