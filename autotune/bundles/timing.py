"""How a bundle is timed again: its schedule and its baseline in one process, for a time that its record lets expect."""

from dataclasses import dataclass

from autotune.bundles.candidates import lacks_reference, recorded_candidate, why_unknown_here
from autotune.core.candidate import Candidate
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.host.machine import Machine
from autotune.store.bundle import BundleFiles
from autotune.store.records import ProcessTimes
from autotune.store.sessions import recorded_figures
from autotune.worker.isolation.limits import MODEL_SECONDS
from autotune.worker.worker import Worker

LEAST_SECONDS = 60.0  # of a process that replays: some fifty times what a kernel takes on a quiet core
SECONDS_PER_BYTE = 5e-4  # of MLIR to compile, some twenty times what GPT-2 takes
CALLS = 20  # of schedule and baseline: to verify them, to find how many calls are a sample, and the samples


@dataclass(frozen=True)
class Timing:
    """A process that built a bundle again.

    Attributes:
        theirs: The baseline.
        ours: The recorded schedule.
        half: Half of the part of the baseline that is timed, where a part is.
    """

    theirs: Evaluation
    ours: Evaluation
    half: Evaluation | None = None

    @property
    def session(self) -> ProcessTimes | None:
        """Its samples, if there are any of the schedule."""
        if self.ours.samples is None:
            return None
        baseline = self.theirs.samples.seconds if self.theirs.samples else ()
        return ProcessTimes(self.ours.samples.seconds, baseline, self.ours.samples.reference_seconds)

    def part_error(self, recorded: float) -> float:
        """Relative error of the baseline's times as it is seen here; as it is recorded where it is not seen."""
        if self.half is None or self.half.samples is None or self.theirs.samples is None:
            return recorded
        return abs(min(self.half.samples.seconds) / min(self.theirs.samples.seconds) - 1)


def expected_seconds(bundle: BundleFiles) -> float:
    """Most seconds that building, verifying and timing a bundle once should take, from what it records.

    An untrusted bundle may claim what it likes, and run for ever: never more than `MODEL_SECONDS`.
    """
    text = sum(map(len, bundle.texts.values()))
    figures = recorded_figures(bundle.manifest)
    calls = figures.drift * (figures.best_seconds + (figures.baseline_seconds or 0.0))
    return min(MODEL_SECONDS, LEAST_SECONDS + text * SECONDS_PER_BYTE + calls * CALLS)


def time_bundle(bundle: BundleFiles, machine: Machine, worker: Worker, effort: Effort) -> Timing:
    """Build a bundle's baseline and schedule, verify both, and time them interleaved.

    Raises:
        PayloadError: The oracle fails.
    """
    baseline = bundle.manifest.baseline
    parts = (baseline.part, 2 * baseline.part) if baseline.part > 1 else (1,)
    theirs = () if baseline.why_not else tuple(Candidate(None, baseline.pipeline, part=part) for part in parts)
    candidates = (recorded_candidate(bundle), *theirs)
    job = Job(bundle.payload, candidates, machine, seed=bundle.manifest.seed, effort=effort)
    try:
        ours, *found = worker.evaluate(job)
        return Timing(found[0] if found else Evaluation("timed-out", diagnostic=baseline.why_not), ours, *found[1:])
    except PayloadError as error:
        if not lacks_reference(bundle):
            raise
        raise PayloadError(f"{error}; {why_unknown_here(bundle)}") from error
