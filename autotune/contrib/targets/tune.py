"""Model-based search for another machine: no program is run, and no store is read or written.

    config --family, LLVM for that machine--> machine code --llvm-mca--> cycles of the hot loop, data in L1
           --family's model of caches--> cycles of a call --tell--> next config

Results are of the type `Prediction`, so that no store can take them for trials.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autotune.compiler.codegen.llvm_tools import check_processor
from autotune.compiler.codegen.loop_model import judge_hot_loop
from autotune.compiler.codegen.object_code import disassemble
from autotune.compiler.lowering.emit import Emission, emit_program
from autotune.core.candidate import Candidate, Claim
from autotune.core.errors import CompileError
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import Machine
from autotune.core.listener import SILENT, Listener
from autotune.core.payload import Payload
from autotune.core.plugs.family import Family
from autotune.core.scripts.assembly import Step, write_step
from autotune.core.space import Config, Value
from autotune.core.target import Target
from autotune.core.task import Task
from autotune.registry import family_for
from autotune.tuning.candidates import candidate_alone, candidate_whole
from autotune.tuning.options import TuneOptions
from autotune.tuning.samplers.search import Search
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker

NANOSECOND = 1e-9  # one cycle in the seconds that samplers expect


@dataclass(frozen=True)
class Prediction:
    """Predicted performance of a config.

    Attributes:
        config: Value of every knob.
        cycles: Cycles per call, without everything that the models omit.
        in_l1: Cycles per vector multiply-add in the hot loop by llvm-mca, with data in L1.
    """

    config: dict[str, Value]
    cycles: float
    in_l1: float


@dataclass(frozen=True)
class TaskPrediction:
    """Result of the model-based search of one task.

    Attributes:
        task: Name of the task, for people.
        family: Name of its family.
        default: Prediction for the default config; `None` if there is none, and the default is kept.
        best: Prediction for the best config.
        tried: Number of configs that were compiled.
    """

    task: str
    family: str
    default: Prediction | None
    best: Prediction | None
    tried: int

    @property
    def gain(self) -> float:
        """Predicted speed-up of the best config over the default; 1 without predictions."""
        return self.default.cycles / self.best.cycles if self.default and self.best else 1.0


@dataclass(frozen=True)
class ModelTuning:
    """Result of a model-based search.

    Attributes:
        payload: The payload.
        target: The machine.
        candidate: Candidate with the chosen configs.
        tasks: Result for each task.
    """

    payload: Payload
    target: Target
    candidate: Candidate
    tasks: tuple[TaskPrediction, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON-compatible dict, marked as not measured."""
        tasks = [asdict(task) | {"gain": task.gain} for task in self.tasks]
        return {"payload": self.payload.name, "target": asdict(self.target), "measured": False, "tasks": tasks}


def tune_for(
    payload: Payload, target: Target, options: TuneOptions, listener: Listener = SILENT, *, worker: Worker
) -> ModelTuning:
    """Choose configs for a machine by models alone.

    Args:
        payload: Payload to tune.
        target: The machine.
        options: Options of the search; its trials are configs to compile, over all tasks with predictions.
        listener: Notified of stages.
        worker: Process that compiles.

    Raises:
        MachineError: LLVM does not know the machine's processor, or a tool is missing.
        PayloadError: The payload cannot be partitioned.
    """
    check_processor(target)
    parts = partition(payload)
    covered = [(task, family) for task in parts.tasks if (family := family_for(task, target.machine)) is not None]
    known = sum(is_predicted(task, family, target.machine) for task, family in covered)
    steps: list[Step] = []
    predictions: list[TaskPrediction] = []
    for task, family in covered:
        listener.stage(f"predicting {task.name}")
        search = ModelSearch(task, family, target, worker)
        each = search.run(max(1, options.trials // max(1, known)), options.sampler, options.seed)
        config = each.best.config if each.best is not None else family.default(task, target.machine)
        predictions.append(each)
        steps.append(write_step(task, family, config, target.machine))
    candidate = candidate_whole(steps, 1, parts.payload.text)
    return ModelTuning(payload, target, candidate, tuple(predictions))


def is_predicted(task: Task, family: Family, machine: Machine) -> bool:
    """Return whether a family's model has a prediction for a task."""
    return family.predicted_cycles(task, family.default(task, machine), machine, 1.0) > 0


@dataclass(frozen=True)
class ModelSearch:
    """Model-based search of one task.

    Attributes:
        task: The task.
        family: Family that writes its scripts.
        target: The machine.
        worker: Process that compiles.
    """

    task: Task
    family: Family
    target: Target
    worker: Worker

    def run(self, trials: int, sampler: str, seed: int) -> TaskPrediction:
        """Predict `trials` configs, the default first; none if the family has no model."""
        name, machine = self.task.name, self.target.machine
        if not is_predicted(self.task, self.family, machine):
            return TaskPrediction(name, self.family.name, None, None, 0)
        default = self.family.default(self.task, machine)
        search = Search(self.family.space(self.task, machine), default, sampler=sampler, seed=seed)
        predictions: list[Prediction | None] = []
        while len(predictions) < trials and (config := search.ask()) is not None:
            predictions.append(self.predict(config))
            search.tell(config, predictions[-1].cycles * NANOSECOND if predictions[-1] is not None else None)
        right = [each for each in predictions if each is not None]
        best = min(right, key=lambda each: each.cycles, default=None)
        return TaskPrediction(name, self.family.name, predictions[0], best, len(predictions))

    def predict(self, config: Config) -> Prediction | None:
        """Predict a config; return `None` if it does not compile or llvm-mca has no model of its loop."""
        step = write_step(self.task, self.family, config, self.target.machine, alone=True)
        code = self.compile(candidate_alone(step))
        loop = judge_hot_loop(disassemble(code, self.task.payload.entry), self.target) if code else None
        if loop is None or loop.expected is None:
            return None
        products = loop.mix.fmas or loop.mix.arithmetic / 2  # without FMA, each takes a multiplication and an addition
        if not products:
            return None
        in_l1 = loop.expected.cycles / products
        cycles = self.family.predicted_cycles(self.task, config, self.target.machine, in_l1)
        return Prediction(dict(config), cycles, in_l1)

    def compile(self, candidate: Candidate) -> bytes:
        """Compile the task for the machine; return its object code, empty if compilation fails."""
        try:
            emitted = self.worker.call(
                emit_program, Emission(Claim(self.task.payload, candidate), "object", self.target)
            )
        except CompileError:
            return b""
        return b"" if isinstance(emitted, Evaluation) else emitted.data


def notes_of(tasks: Sequence[TaskPrediction]) -> list[str]:
    """Return notes on a model-based search, one sentence each."""
    silent = [task.task for task in tasks if task.best is None]
    notes = ["nothing was measured: these are predictions of llvm-mca and of the model of caches, for data in order"]
    if silent:
        notes.append(f"default configs where no model says anything: {', '.join(silent)}")
    return notes
