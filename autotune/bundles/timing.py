"""Timing of a bundle's schedule and baseline in one process, with a time limit derived from the recorded times."""

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

LEAST_SECONDS = 60.0  # time limit of a process, some fifty times what a kernel takes on a quiet core
SECONDS_PER_BYTE = 5e-4  # of MLIR to compile, some twenty times what GPT-2 takes
CALLS = 20  # of schedule and baseline: verification, calibration and samples


@dataclass(frozen=True)
class Timing:
    """Result of a process that compiled, verified and timed a bundle.

    Attributes:
        theirs: Evaluation of the baseline.
        ours: Evaluation of the recorded schedule.
        half: Evaluation of half of the timed part of the baseline; `None` if the whole is timed.
    """

    theirs: Evaluation
    ours: Evaluation
    half: Evaluation | None = None

    @property
    def session(self) -> ProcessTimes | None:
        """Samples of the process; `None` if there are none of the schedule."""
        if self.ours.samples is None:
            return None
        baseline = self.theirs.samples.seconds if self.theirs.samples else ()
        return ProcessTimes(self.ours.samples.seconds, baseline, self.ours.samples.reference_seconds)

    def part_error(self, recorded: float) -> float:
        """Return the relative error of the baseline's times as measured here; as recorded if not measured."""
        if self.half is None or self.half.samples is None or self.theirs.samples is None:
            return recorded
        return abs(min(self.half.samples.seconds) / min(self.theirs.samples.seconds) - 1)


def expected_seconds(bundle: BundleFiles) -> float:
    """Return a time limit in seconds for compiling, verifying and timing a bundle once, from the recorded times.

    It is at most `MODEL_SECONDS`, since an untrusted bundle may record anything and run for ever.
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
    baselines = () if baseline.why_not else tuple(Candidate(None, baseline.pipeline, part=part) for part in parts)
    candidates = (recorded_candidate(bundle), *baselines)
    job = Job(bundle.payload, candidates, machine, seed=bundle.manifest.seed, effort=effort)
    try:
        ours, *others = worker.evaluate(job)
        return Timing(others[0] if others else Evaluation("timed-out", diagnostic=baseline.why_not), ours, *others[1:])
    except PayloadError as error:
        if not lacks_reference(bundle):
            raise
        raise PayloadError(f"{error}; {why_unknown_here(bundle)}") from error
