"""The search of one task: ask, write the script, evaluate or look up, record, tell."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from autotune.compiler.lower import COMPILATION, TAIL
from autotune.compiler.module import compiler_version
from autotune.core.candidate import Candidate
from autotune.core.evaluator import Effort, Evaluation, Evaluator, Job
from autotune.core.family import Family
from autotune.core.machine import Machine
from autotune.core.own_family import OwnFamily
from autotune.core.script import DESTINATIONS, LOWERING, Step, origin, panels_of, script_of, write_step
from autotune.core.space import Config, Space
from autotune.core.stopwatch import Stopwatch
from autotune.core.task import Task
from autotune.core.task_names import readable_name
from autotune.core.trial import Trial, trial_key
from autotune.store.store import Store
from autotune.store.sweep import Sweep
from autotune.tuning.search import Search
from autotune.tuning.warm_start import KnownConfig, starts
from autotune.worker.limits import learn_time_limits

SHARED = DESTINATIONS + LOWERING + COMPILATION  # what every candidate goes through after its schedule
SEARCH_EFFORT = Effort(samples=12, seconds=0.25)


@dataclass
class TaskSearch:
    """One task's search in progress.

    Attributes:
        task: Task that is tuned.
        family: Family that writes the scripts.
        machine: Host that the task is tuned for.
        space: The family's knobs for the task.
        search: Proposes configs.
        sweep: Sweep that trials are recorded in.
        seed: Seed of the input data.
        compiler: Version of the compiler, part of a trial's key; looking it up takes 0.4 ms.
        trials: Trials so far, in order; also those found in the store.
        exhausted: Whether no config is left.
        best_seconds: The fastest trial's seconds; `None` before the first success.
        watch: Time spent in steps, and the share of it that evaluators took.
    """

    task: Task
    family: Family
    machine: Machine
    space: Space
    search: Search
    sweep: Sweep
    seed: int
    compiler: str = field(default_factory=compiler_version)
    trials: list[Trial] = field(default_factory=list)
    exhausted: bool = False
    best_seconds: float | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)
    _elsewhere: dict[str, str] = field(default_factory=dict)  # key and script of what other tuners work on
    _scripts: dict[str, Trial] = field(default_factory=dict)  # the first trial of every script
    _marks: dict[str, Trial] = field(default_factory=dict)  # the first trial of every fingerprint

    @classmethod
    def open(
        cls,
        task: Task,
        family: Family,
        machine: Machine,
        store: Store,
        *,
        payload: str,
        sampler: str,
        seed: int,
        known: Sequence[KnownConfig] = (),
    ) -> "TaskSearch":
        """Begin a search from the nearest of what is known, or resume it: trials in the store are not run again."""
        space = family.space(task, machine)
        identity = {
            "payload_sha256": task.payload.sha256,
            "machine": machine.fingerprint,
            "compiler": compiler_version(),
            "pipeline": sha256(SHARED.encode()).hexdigest(),
            "schedule": family.name,
            "knobs": sha256(repr(space.knobs).encode()).hexdigest(),
        }
        if isinstance(family, OwnFamily):
            identity["script"] = family.script.digest
        if machine.pages != "huge":
            identity["pages"] = machine.pages  # left out where it is huge, as it was before there was a choice
        flops, size = float(task.payload.flops), float(task.payload.bytes)
        default = family.default(task, machine)
        name = readable_name(task.tag, task.payload.text)
        own = family.record() if isinstance(family, OwnFamily) else None
        sweep = store.sweep(payload, task.tag, identity, flops=flops, size=size, default=default, name=name, script=own)
        first = starts(known, task, family, space, machine)
        search = Search(space, default, sampler=sampler, seed=seed, starts=first)
        return cls(task, family, machine, space, search, sweep, seed)

    @property
    def right(self) -> list[Trial]:
        """Measured trials, fastest first."""
        return sorted((t for t in self.trials if t.seconds is not None), key=lambda t: t.seconds or 0.0)

    def step(self, evaluator: Evaluator) -> tuple[Trial, bool] | None:
        """Try the next config.

        Args:
            evaluator: Whoever compiles, verifies and times it.

        Returns:
            The trial, and whether it was run now (not looked up, not a duplicate); `None` when none is left.
        """
        with self.watch.phase("step"):
            return self._step(evaluator)

    @property
    def own_seconds(self) -> float:
        """What the tuner itself took: asking, telling, writing scripts, recording."""
        return self.watch.phases.get("step", 0.0) - self.watch.phases.get("evaluate", 0.0)

    def _step(self, evaluator: Evaluator) -> tuple[Trial, bool] | None:
        self._catch_up()
        while (config := self.search.ask()) is not None:
            step = self.script_step(config, alone=True)
            key = trial_key(self.task.payload.text, step.body, config, SHARED, self.compiler)
            known = self.sweep.records.get(key)
            if known is not None:
                self._learn(known, step.body)
                return known, False
            if not self.sweep.claim(key):
                self._elsewhere[key] = step.body
                continue
            try:
                trial = self._try(config, step, key, evaluator)
                self.sweep.add(trial, self.space)
            finally:
                self.sweep.release(key)
            self._learn(trial, step.body)
            return trial, trial.outcome != "duplicate"
        self.exhausted = True
        return None

    def _catch_up(self) -> None:
        """Learn what became of trials that other tuners worked on."""
        self.sweep.refresh()
        for key in [key for key in self._elsewhere if key in self.sweep.records]:
            self._learn(self.sweep.records[key], self._elsewhere.pop(key))

    def _learn(self, trial: Trial, body: str) -> None:
        """Remember a trial, and tell the search what became of its config: what became of its twin, if it has one."""
        self.trials.append(trial)
        twin = self.sweep.records.get(trial.twin, trial)
        self._scripts.setdefault(body, twin)
        for mark in (trial.scheduled, trial.compiled):
            if mark:
                self._marks.setdefault(mark, twin)
        if trial.seconds is not None:
            self.best_seconds = min(trial.seconds, self.best_seconds or trial.seconds)
        self.search.tell(trial.config, twin.seconds)

    def _try(self, config: Config, step: Step, key: str, evaluator: Evaluator) -> Trial:
        """Evaluate a config that is not in the store."""
        if step.body in self._scripts:
            found = Evaluation("duplicate", diagnostic="writes the same script as an earlier trial")
        else:
            job = replace(
                self.job([self.candidate(config, step)], SEARCH_EFFORT, self.best_seconds),
                time_limits=learn_time_limits(self.trials),
                known=frozenset(self._marks),
            )
            with self.watch.phase("evaluate"):
                (found,) = evaluator.evaluate(job)
        twin = self._twin(step.body, found) if found.outcome == "duplicate" else None
        return Trial(
            task=self.task.tag,
            number=len(self.sweep.recorded),
            config=dict(config),
            outcome=found.outcome,
            key=key,
            family=self.family.name,
            samples=found.samples,
            max_error=found.max_error,
            diagnostic=found.diagnostic,
            phases=found.phases,
            scheduled=found.scheduled,
            compiled=found.compiled,
            twin=twin.key if twin is not None else "",
        )

    def _twin(self, body: str, found: Evaluation) -> Trial | None:
        """The trial that a duplicate is the same as."""
        twins = (self._scripts.get(body), self._marks.get(found.compiled), self._marks.get(found.scheduled))
        return next((twin for twin in twins if twin is not None), None)

    def candidate(self, config: Config, step: Step | None = None) -> Candidate:
        """A config as a worker takes it: the task alone. `step` saves writing it again."""
        return candidate_of(step or self.script_step(config, alone=True))

    def script_step(self, config: Config, *, alone: bool = False, note: str = "") -> Step:
        """A config as a share of the script of the whole, or of the task alone; `note` goes below its origin."""
        said = origin(self.task, self.family, config) + note
        return write_step(self.task, self.family, config, self.machine, alone=alone, note=said)

    def job(self, candidates: Sequence[Candidate], effort: Effort, best_seconds: float | None = None) -> Job:
        """The job that measures candidates of this task."""
        return Job(self.task.payload, tuple(candidates), self.machine, self.seed, effort, best_seconds)


def candidate_of(step: Step) -> Candidate:
    """A step as a worker takes it: the whole script of a task alone."""
    return Candidate(script_of([step]), TAIL, panels=panels_of([step]))
