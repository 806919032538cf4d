"""Explain: why a winner is fast. Each technique's share, hardware counters, and what memory it takes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
    """Bytes a winner takes besides the payload's arguments.

    Attributes:
        arguments: Bytes of the payload's own arguments.
        intermediates: Bytes of intermediates, if each is taken separately.
        arena: Bytes of the one arena that intermediates share.
        packed_weights: Bytes of weights stored a second time, in panels.
    """

    arguments: int
    intermediates: int
    arena: int
    packed_weights: int


@dataclass(frozen=True)
class Explanation:
    """Why a winner is fast.

    Attributes:
        payload: Name of the payload.
        kind: ``leave-one-out`` (each row is the winner without something), or ``build-up`` (each row adds something).
        rows: Variants that were measured.
        counts: Hardware events of the winner; `None` where no winner was run.
        memory: Bytes that the winner takes; `None` where no winner was run.
        machine: The host.
        unproved: Whether the payload was imported, and nothing but its own plain lowering says what is right here.
        unsteady: Why times say nothing, a sentence; empty where they do.
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
        """Whether everything that was measured computes what the oracle says."""
        return all(row.seconds is not None for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self) | {"machine": asdict(self.machine) | {"fingerprint": self.machine.fingerprint}}


def explain(folder: Path, family: str = "") -> Explanation:
    """Take one technique at a time from the winner and measure again, interleaved.

    Args:
        folder: Folder of the bundle.
        family: Family of a file that the bundle was tuned with, ``mine.py:FAMILY``.

    Raises:
        ScheduleError: A family is not installed, and not the one that is named.
        BundleError: The bundle is incomplete, edited, or of a release that formed tasks otherwise.
    """
    bundle = read_bundle(folder)
    machine = recorded_machine(bundle)
    variants = leave_one_out(bundle, machine, family)
    found = run_variants(bundle.payload, variants, machine, bundle.manifest.seed)
    counts, memory = observe(bundle, variants[0].candidate, machine.threads)
    rows = tuple(against_first(variants, found, quiet_here(bundle, machine, found)))
    return Explanation(
        bundle.payload.name,
        "leave-one-out",
        rows,
        counts,
        memory,
        machine,
        bundle.payload.unproved,
        unsteady_here(bundle, machine, found),
    )


def explain_steps(folder: Path, baseline: str | None, family: str = "") -> Explanation:
    """Build the winner up from a baseline, technique by technique, and measure all steps interleaved.

    Raises:
        BundleError: The bundle is refused, as for `explain`.
        ScheduleError: The baseline is unknown.
    """
    bundle = read_bundle(folder)
    machine = recorded_machine(bundle)
    variants = build_up(bundle.payload, machine, bundle, baseline, family)
    found = run_variants(bundle.payload, variants, machine, bundle.manifest.seed)
    rows = tuple(against_previous(variants, found, quiet_here(bundle, machine, found)))
    return Explanation(
        bundle.payload.name,
        "build-up",
        rows,
        None,
        None,
        machine,
        bundle.payload.unproved,
        unsteady_here(bundle, machine, found),
    )


def quiet_here(bundle: BundleFiles, machine: Machine, found: Sequence[Evaluation]) -> float | None:
    """Best seconds a call of the FMA kernel now, and when the bundle was recorded, if that was on such a machine."""
    recorded = recorded_quiet(bundle.manifest) if bundle.manifest.fingerprint == machine.fingerprint else None
    now = [min(one.samples.reference_seconds) for one in found if one.samples and one.samples.reference_seconds]
    return min([*now, *([recorded] if recorded else [])], default=None)


def unsteady_here(bundle: BundleFiles, machine: Machine, found: Sequence[Evaluation]) -> str:
    """Why times that were taken now say nothing, in a sentence; empty where they do."""
    beside = [seconds for one in found if one.samples for seconds in one.samples.reference_seconds]
    winner = found[0].samples
    if winner is None:
        return ""
    interference = interference_of(winner.seconds, beside, quiet_here(bundle, machine, found))
    roof = bundle.manifest.roofs["flops"] if bundle.manifest.fingerprint == machine.fingerprint else 0.0
    return why_unsteady(None, interference, median(beside) if beside else None, machine, roof)


def observe(bundle: BundleFiles, winner: Candidate, threads: int) -> tuple[Counts, Memory]:
    """Counters and memory of the winner, from a worker."""
    with Worker(COUNTING_SECONDS, threads=threads) as worker:
        found = worker.call(run_counted, (bundle.payload, winner, bundle.manifest.seed))
    if isinstance(found, Evaluation):
        failed = f"the winner {found.outcome}: {found.diagnostic}"
        return Counts({}, failed), Memory(bundle.payload.bytes, 0, 0, 0)
    return found


def run_counted(work: tuple[Payload, Candidate, int]) -> tuple[Counts, Memory]:
    """Compile, count and weigh a candidate. In the isolated process only."""
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
