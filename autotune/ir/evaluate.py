"""What a worker does with a job: compile, verify and time candidates. Runs in the isolated process only."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autotune.buffers import BufferPlan
from autotune.errors import CompileError, PayloadError
from autotune.ir.lower import PLAIN
from autotune.ir.panels import PanelWeight
from autotune.ir.program import BoundProgram, aligned_empty, compile_program
from autotune.ir.roofs import Roofs, measure_roofs, reference_run
from autotune.machine import Machine
from autotune.measure import Effort, measure, measure_interleaved
from autotune.task import Array, Payload
from autotune.trial import Outcome, Samples
from autotune.verify import Verdict, poison, verify
from autotune.watch import Stopwatch

KEPT_PAYLOADS = 2  # a GPT-2 with its oracle takes over a gigabyte


@dataclass(frozen=True)
class Candidate:
    """One way to compile a payload.

    Attributes:
        script: Transform script; `None` for a pure pass pipeline.
        pipeline: Passes after it.
        text: The module it starts from, where that is not the payload's own text (the tagged module).
        panels: Tags whose op reads its weight from panels, with their columns.
    """

    script: str | None
    pipeline: str
    text: str | None = None
    panels: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Job:
    """Work for a worker: candidates of one payload.

    Attributes:
        payload: What they compute.
        candidates: One to be measured with the reference kernel, or several to be measured interleaved.
        machine: The host.
        seed: Seed of the input data.
        effort: How long to measure.
        best_seconds: Best time so far, to give up early on a hopeless candidate.
    """

    payload: Payload
    candidates: tuple[Candidate, ...]
    machine: Machine
    seed: int = 0
    effort: Effort = field(default_factory=Effort)
    best_seconds: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """What became of one candidate; the fields mean what they mean in `Trial`, `buffers` what it means in `Program`."""

    outcome: Outcome
    samples: Samples | None = None
    max_error: float | None = None
    diagnostic: str = ""
    phases: dict[str, float] = field(default_factory=dict)
    buffers: BufferPlan | None = None


class PreparedPayload:
    """Inputs, outputs and oracle of a payload, made once a worker."""

    def __init__(self, payload: Payload, seed: int) -> None:
        self.payload = payload
        values = payload.make_inputs(seed)
        self.arrays = [aligned_empty(argument) for argument in payload.arguments]
        for argument, array in zip(payload.arguments, self.arrays, strict=True):
            if argument.role != "output":
                array[...] = values[argument.name]
        self.outputs = [a for a, arg in zip(self.arrays, payload.arguments, strict=True) if arg.role == "output"]
        self._stored: dict[tuple[int, int, bool], Array] = {}
        self.expected = self.ask_oracle(payload, values)
        if any(not np.isfinite(array).all() for array in self.expected):
            raise PayloadError(
                f"the oracle of {payload.name} must give finite values for random inputs, it gives NaN or infinity; "
                "check that every output is written before it is read"
            )

    def stored(self, weight: PanelWeight) -> Array:
        """A weight in panels; packed once, however many candidates want it."""
        key = (weight.source, weight.columns, weight.transposed)
        if key not in self._stored:
            array = aligned_empty(weight.argument(self.payload.arguments[weight.source]))
            array[...] = weight.pack(self.arrays[weight.source])
            self._stored[key] = array
        return self._stored[key]

    def ask_oracle(self, payload: Payload, values: dict[str, Array]) -> list[Array]:
        """The reference's outputs, or those of the plain lowering where there is no reference."""
        if payload.reference is not None:
            return [np.asarray(array) for array in payload.reference(**values)]
        for array in self.outputs:
            poison(array)
        compile_program(payload, None, PLAIN).bind(self.arrays).run()
        return [array.copy() for array in self.outputs]


_quiet = float("inf")
_prepared: OrderedDict[tuple[str, int], PreparedPayload] = OrderedDict()


def prepare(payload: Payload, seed: int) -> PreparedPayload:
    """The prepared payload, from this worker's memory if it is there."""
    key = (payload.sha256, seed)
    if key not in _prepared:
        _prepared[key] = PreparedPayload(payload, seed)
        while len(_prepared) > KEPT_PAYLOADS:
            _prepared.popitem(last=False)
    _prepared.move_to_end(key)
    return _prepared[key]


def evaluate(job: Job) -> list[Evaluation]:
    """Compile and verify every candidate, then time those that are right."""
    prepared = prepare(job.payload, job.seed)
    built = [build_and_verify(job.payload, candidate, prepared) for candidate in job.candidates]
    right = [bound for bound, _ in built if bound is not None]
    watch = Stopwatch()
    with watch.phase("measure"):
        samples = time_all(right, job)
    timed = iter(samples)
    return [
        evaluation if bound is None else with_samples(evaluation, next(timed), watch.phases)
        for bound, evaluation in built
    ]


def time_all(programs: Sequence[BoundProgram], job: Job) -> list[Samples]:
    """Samples of every program, interleaved with each other and with the reference kernel."""
    reference = reference_run(job.machine)
    if len(job.candidates) > 1:
        *mine, beside = measure_interleaved([*(p.run for p in programs), reference], job.effort, job.seed)
        return [replace(samples, reference_seconds=beside.seconds) for samples in mine]
    alone = [measure(p.run, reference, job.effort, job.best_seconds) for p in programs]
    return [replace(samples, quiet_reference=quietest(samples.quiet_reference)) for samples in alone]


def quietest(seconds: float) -> float:
    """The reference kernel's best time in the life of this worker."""
    global _quiet  # noqa: PLW0603 - one process, one memory of how fast it can be
    _quiet = min(_quiet, seconds)
    return _quiet


def build_and_verify(
    payload: Payload, candidate: Candidate, prepared: PreparedPayload
) -> tuple[BoundProgram | None, Evaluation]:
    """Compile one candidate and compare its outputs to the oracle's."""
    try:
        program = compile_program(
            payload, candidate.script, candidate.pipeline, text=candidate.text, panels=dict(candidate.panels)
        )
    except CompileError as error:
        outcomes: dict[str, Outcome] = {"lower": "lowering-failed", "jit": "jit-failed"}
        return None, Evaluation(outcomes.get(error.stage, "transform-failed"), diagnostic=str(error))
    watch = Stopwatch(dict(program.phases))
    bound = program.bind([*prepared.arrays, *map(prepared.stored, program.weights)])
    with watch.phase("verify"):
        verdict = run_and_verify(payload, bound, prepared)
    evaluation = Evaluation(
        verdict.outcome,
        max_error=verdict.max_error,
        diagnostic=verdict.diagnostic,
        phases=watch.phases,
        buffers=program.buffers,
    )
    return (bound if verdict.outcome == "ok" else None), evaluation


def run_and_verify(payload: Payload, bound: BoundProgram, prepared: PreparedPayload) -> Verdict:
    """Run once into poisoned outputs and check them."""
    for array in prepared.outputs:
        poison(array)
    bound.run()
    return verify(payload, prepared.outputs, prepared.expected)


def with_samples(evaluation: Evaluation, samples: Samples, phases: dict[str, float]) -> Evaluation:
    """The evaluation with its times."""
    return replace(evaluation, samples=samples, phases={**evaluation.phases, **phases})


def roofs(machine: Machine) -> Roofs:
    """Measure the roofs in this worker."""
    return measure_roofs(machine)
