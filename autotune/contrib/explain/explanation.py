"""Explanation of a winner's speed: the contribution of each technique, hardware counters and memory use."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from autotune.bundles.candidates import recorded_machine
from autotune.compiler.lowering.program import compile_program
from autotune.contrib.explain.ablation import (
    Measured,
    against_first,
    against_previous,
    build_up,
    leave_one_out,
    run_variants,
)
from autotune.contrib.explain.counters import Counts, count_events
from autotune.core.candidate import Candidate
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import Machine, this_machine
from autotune.core.payload import Payload
from autotune.core.winner_time import interference_of
from autotune.store.bundle import BundleFiles, read_bundle
from autotune.store.sessions import recorded_quiet
from autotune.tuning.stages.roofline import why_unsteady
from autotune.worker.bench.testbench import open_testbench
from autotune.worker.worker import Worker

COUNTING_SECONDS = 600.0


@dataclass(frozen=True)
class Memory:
    """Memory use of a winner in bytes.

    Attributes:
        arguments: Size of the payload's arguments.
        intermediates: Sum of the sizes of all intermediate buffers.
        arena: Size of the arena that the intermediate buffers share.
        packed_weights: Size of the packed copies of weights.
    """

    arguments: int
    intermediates: int
    arena: int
    packed_weights: int


@dataclass(frozen=True)
class Explanation:
    """Result of an ablation study.

    Attributes:
        payload: Name of the payload.
        kind: ``leave-one-out`` (each row removes a technique from the winner), or ``build-up`` (each row adds one).
        rows: Measured variants.
        counts: Hardware events of the winner; `None` for a build-up.
        memory: Memory use of the winner; `None` for a build-up.
        machine: The host.
        unproved: Whether the payload was imported and its only oracle is its own plain lowering.
        unsteady: Sentence on why the times are not reliable; empty if they are.
    """

    payload: str
    kind: str
    rows: tuple[Measured, ...]
    counts: Counts | None
    memory: Memory | None
    machine: Machine
    unproved: bool = False
    unsteady: str = ""

    @property
    def is_right(self) -> bool:
        """Whether all variants compute the oracle's result."""
        return all(row.seconds is not None for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as a JSON-compatible dict."""
        return asdict(self) | {"machine": asdict(self.machine) | {"fingerprint": self.machine.fingerprint}}


def explain(folder: Path, family: str = "") -> Explanation:
    """Measure the winner of a bundle without one technique at a time, interleaved.

    Args:
        folder: Folder of the bundle.
        family: Family from a file with which the bundle was tuned, ``mine.py:FAMILY``.

    Raises:
        ScheduleError: A family is neither installed nor the named one.
        BundleError: The bundle is incomplete, edited, or of a release that partitioned payloads differently.
    """
    bundle = read_bundle(folder)
    machine = recorded_machine(bundle)
    variants = leave_one_out(bundle, machine, family)
    evaluations = run_variants(bundle.payload, variants, machine, bundle.manifest.seed)
    counts, memory = observe(bundle, variants[0].candidate, machine.threads)
    rows = against_first(variants, evaluations, quiet_here(bundle, machine, evaluations))
    explanation = explanation_of(bundle, machine, "leave-one-out", rows, evaluations)
    return replace(explanation, counts=counts, memory=memory)


def explain_steps(folder: Path, baseline: str | None, family: str = "") -> Explanation:
    """Build the winner up from a baseline, technique by technique, and measure all steps interleaved.

    Raises:
        BundleError: The bundle is refused, as for `explain`.
        ScheduleError: The baseline is unknown.
    """
    bundle = read_bundle(folder)
    machine = recorded_machine(bundle)
    variants = build_up(bundle.payload, machine, bundle, baseline, family)
    evaluations = run_variants(bundle.payload, variants, machine, bundle.manifest.seed)
    rows = against_previous(variants, evaluations, quiet_here(bundle, machine, evaluations))
    return explanation_of(bundle, machine, "build-up", rows, evaluations)


def explanation_of(
    bundle: BundleFiles, machine: Machine, kind: str, rows: Sequence[Measured], evaluations: Sequence[Evaluation]
) -> Explanation:
    """Return an explanation without hardware events and memory use."""
    unsteady = unsteady_here(bundle, machine, evaluations)
    return Explanation(bundle.payload.name, kind, tuple(rows), None, None, machine, bundle.payload.unproved, unsteady)


def quiet_here(bundle: BundleFiles, machine: Machine, evaluations: Sequence[Evaluation]) -> float | None:
    """Return the best seconds per call of the FMA kernel, now or, on the same machine, when the bundle was recorded."""
    recorded = recorded_quiet(bundle.manifest) if bundle.manifest.fingerprint == machine.fingerprint else None
    now = [
        min(each.samples.reference_seconds) for each in evaluations if each.samples and each.samples.reference_seconds
    ]
    return min([*now, *([recorded] if recorded else [])], default=None)


def unsteady_here(bundle: BundleFiles, machine: Machine, evaluations: Sequence[Evaluation]) -> str:
    """Return a sentence on why the present times are not reliable; empty if they are."""
    beside = [seconds for each in evaluations if each.samples for seconds in each.samples.reference_seconds]
    winner = evaluations[0].samples
    if winner is None:
        return ""
    interference = interference_of(winner.seconds, beside, quiet_here(bundle, machine, evaluations))
    roof = bundle.manifest.roofs["flops"] if bundle.manifest.fingerprint == machine.fingerprint else 0.0
    return why_unsteady(None, interference, median(beside) if beside else None, machine, roof)


def observe(bundle: BundleFiles, winner: Candidate, threads: int) -> tuple[Counts, Memory]:
    """Measure hardware counters and memory use of the winner in a worker."""
    with Worker(COUNTING_SECONDS, threads=threads) as worker:
        answer = worker.call(run_counted, (bundle.payload, winner, bundle.manifest.seed))
    if isinstance(answer, Evaluation):
        failed = f"the winner {answer.outcome}: {answer.diagnostic}"
        return Counts({}, failed), Memory(bundle.payload.bytes, 0, 0, 0)
    return answer


def run_counted(work: tuple[Payload, Candidate, int]) -> tuple[Counts, Memory]:
    """Compile a candidate, and measure its counters and memory use. Call this in the isolated process only."""
    payload, candidate, seed = work
    bench = open_testbench(payload, seed, this_machine().pages)
    program = compile_program(payload, candidate)
    bound = bench.bind(program)
    bench.run_from_start(bound)
    packed = [weight.argument(payload.arguments[weight.source]) for weight in program.weights]
    plan = program.buffers
    memory = Memory(
        arguments=payload.bytes,
        intermediates=plan.naive_bytes if plan else 0,
        arena=plan.peak_bytes if plan else 0,
        packed_weights=sum(argument.bytes for argument in packed),
    )
    return count_events(bound.run, calls=10), memory
