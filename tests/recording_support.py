"""A recording of made-up trials, and an evaluator that makes them up."""

from dataclasses import replace

from sweep_support import SPACE, make_trial
from tuning_support import MACHINES, contraction_payload

from autotune.core.evaluator import Evaluation
from autotune.core.ops.op import Contraction, LoopNest, Op
from autotune.core.task import Task
from autotune.core.trial import Samples
from autotune.store.recording import Recording
from autotune.tuning.stages.record import versions

TASK = Task(
    "first",
    contraction_payload(64, 64, 64),
    (Op(LoopNest((64, 64, 64), ("parallel", "parallel", "reduction")), contraction=Contraction(64, 64, 64)),),
)


def made_up_recording():
    """Every config of a small space, some of which failed."""
    trials = tuple(replace(make_trial("first", number), number=number) for number in range(SPACE.size))
    return Recording(
        format_version=3,
        payload="mine",
        task=TASK,
        family="matmul",
        machine=MACHINES["avx512"],
        versions=versions(),
        seed=0,
        knobs=SPACE.knobs,
        combinations=SPACE.size,
        lawful=SPACE.size,
        default=dict(next(SPACE.configs())),
        trials=trials,
    )


class CountingEvaluator:
    """Gives every candidate a time by its script, and stops like Ctrl-C after so many."""

    def __init__(self, stops_after=10**6):
        self.left, self.scripts, self.jobs = stops_after, [], []

    def evaluate(self, job):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        (candidate,) = job.candidates
        self.jobs.append(job)
        self.scripts.append(candidate.script)
        seconds = 1e-6 * (1 + len(candidate.script) % 17)
        return [Evaluation("ok", Samples((seconds,) * 3, (1e-3,) * 3, 1, 1e-3), 0.0, phases={"jit": 0.1})]
