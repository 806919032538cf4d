"""Recording of a script in an isolated process, where payload and script are parsed."""

import hashlib
import time
from dataclasses import dataclass, field, replace

from mlir import ir

from autotune.compiler.ir.module import context, copy_module, run_passes
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.stages import alone
from autotune.compiler.lowering.steps import rewrite
from autotune.compiler.script.apply import run_script
from autotune.contrib.debug.recording import KNOB, DebugRecording, Mark, PayloadText, ScriptVariant
from autotune.contrib.debug.script_facts import ScriptFacts
from autotune.contrib.debug.stepper import DebugLimits, Ended, Stepper
from autotune.contrib.debug.whatif import first_difference
from autotune.core.candidate import Candidate
from autotune.core.errors import AutotuneError, CompileError, ScheduleError
from autotune.core.evaluator import Evaluation
from autotune.core.payload import Payload
from autotune.core.printable import first_lines
from autotune.worker.loading.reading import bare
from autotune.worker.worker import Worker

SECONDS = 300.0  # of the whole recording
VARIANT_SECONDS, MOST_STEPS = 20.0, 120  # time for all variants; longest script that variants are tried of
MEMORY_BYTES = 8 << 30
PREPARED = "panels"  # the last step before the script itself


@dataclass(frozen=True)
class ChangedScript:
    """A script with one change.

    Attributes:
        label: Description of the change.
        candidate: Candidate with the changed script.
        skip: Number of the skipped step; 0 for none.
        knob: Name of the changed knob; empty for none.
    """

    label: str
    candidate: Candidate
    skip: int = 0
    knob: str = ""


@dataclass(frozen=True)
class DebugRequest:
    """A request to record a script.

    Attributes:
        payload: Payload that the script is applied to.
        candidate: Candidate with the script.
        lowering: Whether to include the lowering that all schedules share.
        limits: Limits of the recording.
        changed: Changed scripts to record as variants.
    """

    payload: Payload
    candidate: Candidate
    lowering: bool = False
    limits: DebugLimits = field(default_factory=DebugLimits)
    changed: tuple[ChangedScript, ...] = ()


def record(request: DebugRequest) -> DebugRecording:
    """Record a script in an isolated process.

    Raises:
        ScheduleError: The process crashed or timed out.
        CompileError: The payload or the script does not parse.
    """
    with Worker(SECONDS, MEMORY_BYTES) as worker:
        recording = worker.call(record_here, replace(request, payload=bare(request.payload)))
    if isinstance(recording, Evaluation):
        requirement = "a schedule must be applied to its end to be shown step by step, it is not"
        raise ScheduleError(f"{requirement} ({recording.outcome}: {recording.diagnostic}); leave out its last ops")
    return recording


def record_here(request: DebugRequest) -> DebugRecording:
    """Record a script and its variants with single changes; runs in the isolated process only.

    Raises:
        CompileError: The payload or the script does not parse, or a rewrite before the script fails.
    """
    recording = record_one(request)
    if not request.changed or len(recording.steps) > MOST_STEPS:
        return recording
    left_out = (
        ChangedScript(f"without step {number}, {step.short}", request.candidate, number)
        for number, step in enumerate(recording.steps, 1)
        if step.changes
    )
    start, variants = time.monotonic(), list[ScriptVariant]()
    for changed in (*left_out, *request.changed):
        if time.monotonic() - start > VARIANT_SECONDS:
            note = f"other variants than the first {len(variants)} were not tried: the limit of time was reached"
            recording = replace(recording, notes=(*recording.notes, note))
            break
        variants.append(variant_of(request, recording, changed))
    return marked(replace(recording, variants=tuple(variants)))


def variant_of(request: DebugRequest, recording: DebugRecording, changed: ChangedScript) -> ScriptVariant:
    """Record a variant with one change, from the first step that differs."""
    limits = replace(request.limits, skip=(changed.skip,) if changed.skip else ())
    try:
        variant = record_one(replace(request, candidate=changed.candidate, limits=limits))
    except (AutotuneError, ValueError) as error:
        return ScriptVariant(changed.label, (), len(recording.steps) + 1, first_lines(str(error)), knob=changed.knob)
    first = first_difference(recording, variant) or len(recording.steps) + 1
    same = recording.result == variant.result and not (variant.message or recording.message)
    return ScriptVariant(changed.label, variant.steps[first - 1 :], first, variant.message, same, changed.knob)


def marked(recording: DebugRecording) -> DebugRecording:
    """Mark, at the step that sets each, the knobs whose other values all lead to the same payload."""
    steps, marks = list(recording.steps), list(recording.marks)
    lines = ["", *recording.script.splitlines()]
    for knob in dict.fromkeys(each.knob for each in recording.variants if each.knob):
        variants = [each for each in recording.variants if each.knob == knob]
        if not all(each.same for each in variants):
            continue
        mark = Mark(KNOB, f"{knob}: the payload is the same in the end with each of {len(variants) + 1} values")
        setting = [number for number, step in enumerate(steps) if f'<"{knob}">' in lines[step.line]]
        for number in setting:
            steps[number] = replace(steps[number], marks=(*steps[number].marks, mark))
        marks += [] if setting else [mark]
    return replace(recording, steps=tuple(steps), marks=tuple(marks))


def record_one(request: DebugRequest) -> DebugRecording:
    """Record a script without variants; raises as `record_here`."""
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
        argument_bytes = sum(argument.bytes for argument in request.payload.arguments)
        stepper = Stepper(unit.module, ScriptFacts.read(unit.script, unit.text), request.limits, argument_bytes)
        try:
            stepper.run()
        except Ended as ended:
            failure = failure or str(ended)
        notes = [] if request.limits.skip else disagreements(stepper, whole, failure)
        result = "" if failure else canonical(stepper.named.module)
    if stepper.costless:
        notes.append(f"costs are shown up to step {stepper.costless} only: the limit of time was reached")
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
        nests=stepper.nests,
        result=result,
    )


def canonical(module: ir.Module) -> str:
    """Return a hash of the canonicalized module, in which loops of one iteration are folded; modifies the module."""
    run_passes(module, "builtin.module(canonicalize,cse)")
    return hashlib.sha256(str(module).encode()).hexdigest()


def prepared(request: DebugRequest) -> Unit:
    """Open payload and script, and apply the rewrites that precede the script."""
    candidate = request.candidate
    script = candidate.script if request.lowering or candidate.script is None else alone(candidate.script)
    unit = Unit.open(request.payload, replace(candidate, script=script))
    if unit.script is not None:
        for step in rewrite(unit):
            if step == PREPARED:
                break
    return unit


def disagreements(stepper: Stepper, whole: ir.Module, failure: str) -> list[str]:
    """Return a note if the last step differs from one run of the whole script."""
    failed = any(step.failed for step in stepper.steps)
    if failed != bool(failure):
        return [f"one run of the whole script ends otherwise: {failure or 'it works'}"]
    same = failed or str(stepper.named.module) == str(whole)
    return [] if same else ["one run of the whole script gives another payload than the last step shows"]
