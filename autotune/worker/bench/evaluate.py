"""Evaluation of a job: compile, verify and time its candidates. Runs in the isolated process only."""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.compiler.codegen.fingerprint import Fingerprints
from autotune.compiler.lowering.program import BoundProgram, CompiledProgram, compile_program
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError, DuplicateError
from autotune.core.evaluator import Evaluation, Job
from autotune.core.host.machine import Machine, Roofs
from autotune.core.host.stopwatch import REPORTER, Stopwatch
from autotune.core.payload import Payload
from autotune.core.printable import one_line
from autotune.core.stats import unrest
from autotune.core.trial import Outcome, Samples
from autotune.worker.bench.energy import joules_of
from autotune.worker.bench.measure import LONG_CALL, Run, calibrate, measure, measure_interleaved
from autotune.worker.bench.program_cache import PROGRAMS
from autotune.worker.bench.roofs import measure_roofs, reference_run
from autotune.worker.bench.testbench import Testbench, open_testbench
from autotune.worker.bench.verify import Verdict

NOISY = 0.25  # relative difference between the halves of the samples above which the time is unreliable
FAR = 4.0  # times the best so far; the verified call starts with cold caches, but is not four times as slow
MOST_CHARACTERS = 200  # characters of an unexpected error
FEWEST_TO_JUDGE = 8  # samples: the racing rule leaves fewer of a hopeless candidate
FAILED_AT: dict[str, Outcome] = {"verify": "verify-failed", "lower": "lowering-failed", "jit": "jit-failed"}


@dataclass(frozen=True)
class ReadyJob:
    """A job whose candidates are compiled and verified, but not yet timed.

    Attributes:
        job: The job.
        bench: Testbench of its payload.
        evaluations: Evaluation of each candidate so far.
        right: Index of each correct candidate, and its program.
    """

    job: Job
    bench: Testbench
    evaluations: tuple[Evaluation, ...]
    right: tuple[tuple[int, BoundProgram], ...]


_waiting: list[ReadyJob] = []  # the job to be timed next in this process, at most one


def evaluate(job: Job) -> list[Evaluation]:
    """Compile and verify every candidate, time the correct ones, and verify them again."""
    return time_prepared(prepared(job))


def prepare(job: Job) -> list[Evaluation]:
    """Compile and verify every candidate; a later `time_waiting` in this process times the correct ones."""
    _waiting.clear()
    reference_run(job.machine)  # compiled and cached now, not while the measuring core is held
    ready = prepared(job)
    _waiting.append(ready)
    return list(ready.evaluations)


def time_waiting(quiet_reference: float) -> list[Evaluation]:
    """Time the job of the last `prepare`; return an empty list if that ran in another process.

    Args:
        quiet_reference: The reference kernel's best time so far.
    """
    if not _waiting:
        return []
    ready = _waiting.pop()
    return time_prepared(replace(ready, job=replace(ready.job, quiet_reference=quiet_reference)))


def prepared(job: Job) -> ReadyJob:
    """Compile and verify every candidate of a job."""
    bench = open_testbench(job.payload, job.seed, job.machine.pages)
    built = []
    for number, candidate in enumerate(job.candidates):
        REPORTER.candidate = number
        built.append(build_and_verify(job.payload, candidate, bench, job.known))
    evaluations = tuple(evaluation for _, evaluation in built)
    right = tuple((number, bound) for number, (bound, _) in enumerate(built) if bound is not None)
    for number, bound in right:
        PROGRAMS.keep(job.payload, job.candidates[number], bound.program)
    return ReadyJob(job, bench, evaluations, right)


def time_prepared(ready: ReadyJob) -> list[Evaluation]:
    """Time the correct candidates and verify them again."""
    job, bench, right, results = ready.job, ready.bench, ready.right, list(ready.evaluations)
    watch = Stopwatch()
    with watch.phase("measure"):
        samples = time_all([bench.runs(bound) for _, bound in right], [results[n].first_call for n, _ in right], job)
    for (number, bound), times in zip(right, samples, strict=True):
        REPORTER.candidate = number
        timed = replace(results[number], samples=times, phases={**results[number].phases, **watch.phases})
        if job.candidates[number].part > 1:
            results[number] = replace(timed, samples=multiplied(times, bound.program.part.scale))
        else:
            results[number] = timed if is_hopeless(timed.first_call, job) else look_again(timed, bound, bench)
    return results


def multiplied(samples: Samples, scale: float) -> Samples:
    """Scale the samples of a part of a program to the whole program."""
    return replace(samples, seconds=tuple(scale * seconds for seconds in samples.seconds))


def is_hopeless(first_call: float, job: Job) -> bool:
    """Return whether the verified call was so slow that no further call is needed to rank the program."""
    return job.best_seconds is not None and first_call > max(FAR * job.best_seconds, LONG_CALL)


def look_again(evaluation: Evaluation, bound: BoundProgram, bench: Testbench) -> Evaluation:
    """Verify a program again after timing, and mark it as noisy if the halves of its samples disagree."""
    watch = Stopwatch(dict(evaluation.phases))
    with watch.phase("verify"):
        verdict = bench.verify_again(bound)
    evaluation = replace(evaluation, phases=watch.phases)
    if verdict.outcome != "ok":
        return replace(
            evaluation,
            outcome=verdict.outcome,
            samples=None,
            max_error=verdict.max_error,
            diagnostic=verdict.diagnostic,
        )
    times = evaluation.samples.seconds if evaluation.samples else ()
    if len(times) >= FEWEST_TO_JUDGE and (wide := unrest(times)) > NOISY:
        diagnostic = f"halves of the samples must agree to {NOISY:.0%}; measured twice, they were {wide:.0%} apart"
        return replace(evaluation, outcome="noisy", diagnostic=diagnostic)
    return evaluation


def time_all(programs: Sequence[Run], first_calls: Sequence[float], job: Job) -> list[Samples]:
    """Take samples of every program; several are interleaved with each other and with the reference kernel."""
    reference = reference_run(job.machine)
    if len(job.candidates) > 1:
        *timed, fma = measure_interleaved([*programs, reference], job.effort, job.seed, [*first_calls, 0.0])
        return [replace(samples, reference_seconds=fma.seconds) for samples in timed]
    return [time_alone(run, seen, reference, job) for run, seen in zip(programs, first_calls, strict=True)]


def time_alone(run: Run, first_call: float, reference: Run, job: Job) -> Samples:
    """Take samples of one program; if they are unstable, take them again and return the more stable ones."""
    if is_hopeless(first_call, job):
        reference_seconds = calibrate(reference, job.effort.sample_seconds).sample(reference)
        return Samples((first_call,), (reference_seconds,), quiet_reference=min(reference_seconds, job.quiet_reference))
    samples = measure(run, reference, job.effort, job.best_seconds, first_call)
    if len(samples.seconds) >= FEWEST_TO_JUDGE and unrest(samples.seconds) > NOISY:
        again = measure(run, reference, job.effort, job.best_seconds, first_call)
        samples = min(samples, again, key=lambda each: unrest(each.seconds))
    joules = joules_of(run, samples.median) if job.effort.has_joules else None
    return replace(samples, quiet_reference=min(samples.quiet_reference, job.quiet_reference), joules=joules)


def build_and_verify(
    payload: Payload, candidate: Candidate, bench: Testbench, known: frozenset[str] = frozenset()
) -> tuple[BoundProgram | None, Evaluation]:
    """Compile one candidate and compare its outputs with the oracle's; return the program if it is new and correct.

    For a part of a program, only results of the executed iterations are compared; if they cannot be told apart, the
    outcome is ``ok`` and the diagnostic says why.
    """
    watch, fingerprints = Stopwatch(), Fingerprints(known)

    def result(outcome: Outcome, diagnostic: str) -> Evaluation:
        return Evaluation(
            outcome, None, None, diagnostic, watch.phases, None, fingerprints.scheduled, fingerprints.compiled
        )

    try:
        program = compile_program(payload, candidate, fingerprints=fingerprints, watch=watch)
    except DuplicateError as error:
        return None, result("duplicate", str(error))
    except CompileError as error:
        return None, result(FAILED_AT.get(error.stage, "transform-failed"), str(error))
    except MemoryError:
        raise
    except Exception as error:  # a bug of ours must fail one candidate, not the sweep
        return None, result("transform-failed", our_fault(error))
    bound = bench.bind(program)
    with watch.phase("verify"):
        verdict = (
            bench.verify_alone(program) if candidate.part == 1 else verify_part(payload, candidate, program, bench)
        )
    evaluation = replace(
        result(verdict.outcome, verdict.diagnostic),
        max_error=verdict.max_error if verdict.outcome != "ok" or not verdict.diagnostic else None,
        buffers=program.buffers,
        first_call=verdict.seconds,
    )
    return (bound if verdict.outcome == "ok" else None), evaluation


def our_fault(error: Exception) -> str:
    """Return a diagnostic for an unexpected exception: its class, message and location."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    cause = one_line(f"{type(error).__name__}: {error}")[:MOST_CHARACTERS]
    return f"{cause}, in {Path(frame.filename).name}:{frame.lineno}; that is a fault of autotune, please report it"


def verify_part(payload: Payload, candidate: Candidate, program: CompiledProgram, bench: Testbench) -> Verdict:
    """Compare the results of the iterations that a part executes; if that is impossible, the diagnostic says why.

    The naive lowering of the same part is run on poisoned outputs to find out which elements it computes.
    """
    if why := program.part.unverifiable or bench.hides_parts:
        return Verdict("ok", 0.0, why)
    try:
        plain = Candidate(None, candidate.pipeline, text=candidate.text, part=candidate.part)
        poisoned = compile_program(payload, plain, poisoned=True)
    except CompileError as error:
        return Verdict("ok", 0.0, str(error))
    return bench.verify_part(poisoned)


def roofs(machine: Machine) -> Roofs:
    """Measure the roofs in this process."""
    return measure_roofs(machine)
