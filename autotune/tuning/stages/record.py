"""Recording of a tuned payload as a bundle: its files and manifest, with numerics and IR hashes from the worker."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import requires
from pathlib import Path
from re import match
from typing import TypeVar

from autotune.compiler.guard import OPEN, RULES
from autotune.compiler.ir.module import compiler_version
from autotune.compiler.lowering.steps import rewrites_on
from autotune.compiler.panel_weight import PanelWeight
from autotune.compiler.passes.pipelines import tail
from autotune.core.candidate import Candidate, Claim
from autotune.core.errors import BundleError, CompileError, ProofError
from autotune.core.evaluator import Evaluation
from autotune.core.host.extras import DISTRIBUTION, version_of
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.printable import one_line
from autotune.core.scripts.assembly import assemble
from autotune.store.bundle import (
    PAYLOAD,
    REWRITTEN,
    SCHEDULE,
    TAGGED,
    digest,
    read_bundle,
    scratch_beside,
    write_bundle,
)
from autotune.store.manifest import FORMAT_VERSION, Manifest
from autotune.store.records import (
    ArgumentRecord,
    BaselineRecord,
    BudgetRecord,
    Buffers,
    CaseRecord,
    KernelRecord,
    Numerics,
    OutputNumerics,
    RulesRecord,
    ScriptRecord,
    TaskRecord,
    UncoveredRecord,
    Versions,
    WeightRecord,
)
from autotune.store.room import Pause, with_room
from autotune.store.sessions import speedup_of
from autotune.tuning.result import TuneResult
from autotune.tuning.stages.assemble import Assembly, script_steps
from autotune.tuning.stages.choose import Choice
from autotune.tuning.stages.run import Run
from autotune.tuning.stages.slow_baseline import TimedBaseline
from autotune.tuning.stages.summary import Proof, Winners
from autotune.tuning.stages.user_script import written
from autotune.tuning.stages.warm_start import sizes_of, structure_of
from autotune.worker.bench.proof import OutputError, Transformed, hash_stages, measure_errors, transform
from autotune.worker.isolation.limits import MODEL_SECONDS
from autotune.worker.loading.own_code import remember_kernels

T = TypeVar("T")


@dataclass(frozen=True)
class BundleDraft:
    """Contents of a bundle that is not written yet.

    Attributes:
        texts: Contents of the files by name, without the manifest.
        manifest: Manifest of the bundle.
    """

    texts: Mapping[str, str | bytes]
    manifest: Manifest


def record(run: Run, winners: Winners, proof: Proof, result: TuneResult, command: Sequence[str]) -> BundleDraft:
    """Return the files and the manifest of a run's bundle.

    Args:
        run: The run.
        winners: Choices of the tasks.
        proof: Assembled and verified whole.
        result: Summary of the run.
        command: Command line that repeats the run.

    Raises:
        BundleError: The verified program cannot be built again.
    """
    payload, parts, seed, worker = run.payload, run.parts, run.seed, run.worker
    choices, assembly, baseline, sessions = winners.choices, proof.assembly, proof.baseline, proof.sessions
    claim = Claim(payload, assembly.candidate(parts.payload.text), seed)
    applied = called(worker.call(transform, claim, MODEL_SECONDS))
    texts = files_of(payload, parts, assembly, choices) | rewritten(applied, assembly)
    own = next(filter(None, (choice.search.family.record() for choice in choices)), None)
    if own is not None:
        texts[OPEN] = own["text"]
    rewriting = parts.rewriting
    if rewriting.firings:
        texts[RULES] = rewriting.applied
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        payload=payload.name,
        entry=payload.entry,
        arguments=tuple(ArgumentRecord(**asdict(argument)) for argument in payload.arguments),
        flops=float(payload.flops),
        reduction=payload.reduction,
        sha256={name: digest(text) for name, text in sorted(texts.items())},
        seed=seed,
        pipeline=tail(result.machine.threads),
        panels=dict(assembly.panels),
        weights=weight_records(payload, applied),
        buffers=Buffers(**assembly.buffers.to_json()) if assembly.buffers else None,
        baseline=baseline_record(baseline, assembly),
        tasks={c.search.task.tag: task_record(c, assembly) for c in choices},
        samples=tuple(sessions),
        speedup=speedup_of(sessions, baseline.error),
        numerics=numerics(payload, seed, called(worker.call(measure_errors, claim, MODEL_SECONDS))),
        ir_sha256=called(worker.call(hash_stages, claim, MODEL_SECONDS)),
        machine=result.machine,
        fingerprint=result.machine.fingerprint,
        roofs=result.roofs.known,
        noise_floor=result.noise_floor,
        versions=versions(),
        command=tuple(command),
        notes=result.notes,
        cases=tuple(CaseRecord(case.values, case.weight) for case in payload.cases),
        online=applied.online,
        rewrites=(*rewrites_on(result.machine.threads), *applied.rewrites),
        script=ScriptRecord(own["source"], own["tasks"]) if own is not None else None,
        rules=RulesRecord(payload.rules.source, rewriting.counts) if rewriting.firings else None,
        kernels={kernel.tag: kernel_record(kernel) for kernel in assembly.kernels},
        budget=BudgetRecord(**asdict(result.spent)) if result.spent is not None else None,
        uncovered=tuple(UncoveredRecord(**asdict(each.op), share=each.share) for each in result.uncovered),
    )
    remember_kernels(assembly.kernels)
    return BundleDraft(texts, manifest)


def check_recorded(run: Run, folder: Path, draft: BundleDraft, pause: Pause | None) -> None:
    """Write a bundle to a temporary folder, read it again, and verify its program as a replay does.

    Args:
        run: The run, whose worker verifies it in a new process.
        folder: Destination of the bundle, which is not changed.
        draft: Contents of the bundle.
        pause: Function called while the disk is full.

    Raises:
        ProofError: The files are inconsistent, or the program is wrong.
    """
    worker, manifest = run.worker, draft.manifest
    worker.renew()  # state of earlier calls in the old process must not influence the check
    with scratch_beside(folder) as scratch:
        copy = scratch.path / folder.name
        with_room(partial(write_bundle, copy, draft.texts, manifest), copy, pause)
        try:
            bundle = read_bundle(copy, run.payload)
            panels = tuple(manifest.panels.items())
            candidate = Candidate(bundle.script, manifest.pipeline, bundle.tagged, panels, kernels=bundle.kernels)
            called(worker.call(measure_errors, Claim(bundle.payload, candidate, manifest.seed), MODEL_SECONDS))
        except (BundleError, CompileError) as error:
            raise ProofError(f"a bundle must verify when it is read again, it does not: {error}; no bundle") from error


def baseline_record(timed: TimedBaseline, assembly: Assembly) -> BaselineRecord:
    """Return the record of the baseline, or of the reason why it was not timed."""
    why_not = one_line(assembly.why_no_baseline)[:1000]
    return BaselineRecord(timed.baseline.name, timed.baseline.pipeline, timed.part, timed.error, why_not)


def called(answer: T | Evaluation) -> T:
    """Return the value of a worker's call.

    Raises:
        BundleError: The process failed in the call.
    """
    if isinstance(answer, Evaluation):
        raise BundleError(f"what was right must build again, it was {answer.outcome}: {answer.diagnostic}; tune again")
    return answer


def rewritten(applied: Transformed, assembly: Assembly) -> dict[str, str | bytes]:
    """Return the file of the module that the script is applied to, where that is not the tagged module."""
    return {REWRITTEN: applied.before} if applied.weights or applied.online or assembly.kernels else {}


def files_of(
    payload: Payload, parts: Partition, assembly: Assembly, choices: Sequence[Choice]
) -> dict[str, str | bytes]:
    """Return all files except the rewritten module and the manifest."""
    texts: dict[str, str | bytes] = {PAYLOAD: payload.text, TAGGED: parts.payload.text, SCHEDULE: assembly.script}
    for choice in choices:
        task = choice.search.task
        texts[f"tasks/{task.tag}.mlir"] = task.payload.text
        if choice.config is not None and assembly.uses(choice):
            texts[f"schedules/{task.tag}.mlir"] = assemble(written(script_steps([choice])))
    return texts | {name: data for kernel in assembly.kernels for name, data in kernel.files.items()}


def kernel_record(kernel: ExternalKernel) -> KernelRecord:
    """Return the manifest's record of an external kernel."""
    return KernelRecord(kernel.backend, kernel.symbol, kernel.types, kernel.made.sizes, one_line(kernel.made.maker))


def task_record(choice: Choice, assembly: Assembly) -> TaskRecord:
    """Return the manifest's record of a task."""
    search = choice.search
    used = choice.config is not None and assembly.uses(choice)
    return TaskRecord(
        schedule=search.family.name,
        config=dict(choice.config) if choice.config is not None and used else None,
        knobs={knob.name: knob.values for knob in search.space.knobs},
        structure=structure_of(search.task, search.family),
        sizes=sizes_of(search.task),
        ops=search.task.occurrences,
        count=search.task.count,
        seconds=choice.samples.seconds if choice.samples else (),
        baseline_seconds=choice.baseline_seconds,
        note=choice.note[:10_000],
        rivals={name: samples.seconds for name, samples in choice.rivals},
        reference_seconds=choice.samples.reference_seconds if choice.samples else (),
    )


def weight_records(payload: Payload, applied: Transformed) -> tuple[WeightRecord, ...]:
    """Return the manifest's records of packed weights."""
    return tuple(weight_record(payload, weight) for weight in applied.weights)


def weight_record(payload: Payload, weight: PanelWeight) -> WeightRecord:
    """Return the manifest's record of a packed weight."""
    name = payload.arguments[weight.source].name
    return WeightRecord(name, weight.shape, weight.stored_shape, weight.columns, weight.transposed, weight.precision)


def numerics(payload: Payload, seed: int, errors: Sequence[OutputError]) -> Numerics:
    """Return the manifest's record of the outputs' errors."""
    outputs = {e.name: OutputNumerics(e.max_error, e.tolerance, e.magnitude, e.rms_error) for e in errors}
    return Numerics(payload.oracle, seed, outputs, payload.unproved)


def versions() -> Versions:
    """Return the versions of this project, Python, the compiler, and required packages."""
    return Versions(
        autotune=installed(DISTRIBUTION),
        python=sys.version.split()[0],
        compiler=compiler_version(),
        packages=packages(),
    )


def packages() -> dict[str, str]:
    """Return the installed versions of the packages that the distribution requires, without extras."""
    requirements = (requires(DISTRIBUTION) if version_of(DISTRIBUTION) else None) or []
    names = [name[0] for line in requirements if "extra ==" not in line and (name := match(r"[\w.-]+", line))]
    return {name: installed(name) for name in sorted(names)}


def installed(name: str) -> str:
    """Return a distribution's version; ``unknown`` where it is not installed."""
    return version_of(name) or "unknown"
