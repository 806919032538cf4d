"""`TaskSearch`: the search of one task, which asks for a config, evaluates or looks it up, records it, and tells."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autotune.compiler.ir.module import compiler_version
from autotune.core.candidate import Candidate
from autotune.core.errors import KernelError
from autotune.core.evaluator import Effort, Evaluation, Evaluator, Job
from autotune.core.host.machine import Machine
from autotune.core.host.stopwatch import Stopwatch
from autotune.core.objective import PLAIN, Objective
from autotune.core.plugs.family import Family
from autotune.core.plugs.program import ProgramIdentity
from autotune.core.scripts.assembly import Step, origin, write_step
from autotune.core.space import Config, Space
from autotune.core.task import Task
from autotune.core.trial import Trial, trial_key
from autotune.store.store import Store
from autotune.store.sweep import Sweep
from autotune.tuning.candidates import candidate_alone
from autotune.tuning.samplers.features import features_of
from autotune.tuning.samplers.sampler import TransferData
from autotune.tuning.samplers.search import Search
from autotune.tuning.stages.requests import SAME_SCRIPT, TrialRequest, identity_of, shared, unmade
from autotune.tuning.stages.warm_start import KnownConfig, starts
from autotune.worker.isolation.limits import learn_time_limits

SEARCH_EFFORT = Effort(samples=12, seconds=0.25)
TOO_COARSE = 3  # wrong results after which a rounding family without a right one is given up: errors hardly vary


@dataclass(frozen=True)
class SearchSetting:
    """Settings that all searches of a run share.

    Attributes:
        machine: Host that tasks are tuned for.
        store: Store of the trials of this and earlier runs.
        payload: Name of the payload of the tasks.
        sampler: Name of the sampler.
        seed: Seed of the samplers and of the input data.
        known: Recorded configs; each task starts from the nearest.
        transfer: Transfer data for samplers with a model; `None` for none.
        rules: Rewrite rules that were applied to the payload, in the form of stores.
        objective: Objectives that are minimised.
        unproved: Whether results are compared with no reference; `None` where that is not known.
    """

    machine: Machine
    store: Store
    payload: str
    sampler: str
    seed: int
    known: Sequence[KnownConfig] = ()
    transfer: TransferData | None = None
    rules: dict[str, str] | None = None
    objective: Objective = PLAIN
    unproved: bool | None = None


@dataclass
class TaskSearch:
    """One task's search in progress.

    Attributes:
        task: Task that is tuned.
        family: Family that writes the scripts.
        machine: Host that the task is tuned for.
        space: The family's knobs for the task.
        search: Search that proposes configs.
        sweep: Sweep that trials are recorded in.
        seed: Seed of the input data.
        compiler: Version of the compiler, part of a trial's key; cached, since a query takes 0.4 ms.
        trials: Trials so far, in order, including those found in the store.
        best_seconds: Seconds a call of the fastest trial; `None` before the first success.
        watch: Stopwatch of the tuner's own work.
        objective: Objectives that are minimised.
        under_way: Configs under evaluation, by their keys.
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
    best_seconds: float | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)
    objective: Objective = PLAIN
    under_way: dict[str, TrialRequest] = field(default_factory=dict)
    _duplicates: list[TrialRequest] = field(default_factory=list)  # duplicates of configs that are under evaluation
    _elsewhere: dict[str, ProgramIdentity] = field(default_factory=dict)  # key and program of trials of other tuners
    _learnt: set[str] = field(default_factory=set)  # keys of `trials`
    _programs: dict[ProgramIdentity, Trial] = field(default_factory=dict)  # the first trial of every program
    _marks: dict[str, Trial] = field(default_factory=dict)  # the first trial of every fingerprint

    @classmethod
    def open(cls, task: Task, family: Family, setting: SearchSetting) -> "TaskSearch":
        """Start a search from the nearest recorded configs, or resume it: trials in the store are not run again."""
        machine, objective = setting.machine, setting.objective
        space, default = family.space(task, machine), family.default(task, machine)
        sweep = setting.store.sweep(
            setting.payload,
            task.tag,
            identity_of(task, family, machine, space, compiler_version()) | objective.identity,
            flops=float(task.payload.flops),
            size=float(task.payload.bytes),
            default=default,
            name=task.name,
            script=family.record(),
            rules=setting.rules,
            unproved=setting.unproved,
        )
        search = Search(
            space,
            default,
            sampler=setting.sampler,
            seed=setting.seed,
            starts=starts(setting.known, task, family, space, machine),
            features=features_of(task, family, machine),
            transfer=setting.transfer(family) if setting.transfer is not None else (),
            has_joules=objective.has_joules,
        )
        return cls(task, family, machine, space, search, sweep, setting.seed, objective=objective)

    @property
    def right(self) -> list[Trial]:
        """Measured trials, fastest first."""
        return sorted((t for t in self.trials if t.seconds is not None), key=lambda t: t.seconds or 0.0)

    @property
    def is_too_coarse(self) -> bool:
        """Whether rounding seems to exceed the allowed error for every config."""
        wrong = sum(trial.outcome == "wrong-result" for trial in self.trials)
        return self.family.error > 0 and wrong >= TOO_COARSE and self.best_seconds is None

    def step(self, evaluator: Evaluator) -> tuple[Trial, bool] | None:
        """Try the next config.

        Args:
            evaluator: Evaluator that compiles, verifies and times it.

        Returns:
            The trial, and whether it was run now (not looked up, not a duplicate); `None` when none is left.
        """
        request = self.ask()
        if request is None or isinstance(request, Trial):
            return (request, False) if request is not None else None
        try:
            (evaluation,) = evaluator.evaluate(request.job)
        except BaseException:
            self.drop(request)
            raise
        trial, *_ = self.tell(request, evaluation)
        return trial, trial.outcome != "duplicate"

    @property
    def own_seconds(self) -> float:
        """Overhead of the tuner in seconds: asking, telling, generating scripts, recording."""
        return sum(self.watch.phases.values())

    def ask(self) -> TrialRequest | Trial | None:
        """Return the next config to evaluate, or its trial if it is known; `None` when none is left.

        Several configs may be proposed before any is recorded: the search tracks which are under evaluation.
        """
        with self.watch.phase("ask"):
            self._catch_up()
            if self.is_too_coarse:
                return None
            while (config := self.search.ask([request.config for request in self.under_way.values()])) is not None:
                step = self.script_step(config, alone=True)
                identity, threads = step.program.identity, self.machine.threads
                key = trial_key(self.task.payload.text, identity.text, config, shared(threads), self.compiler)
                recorded = self.sweep.records.get(key)
                if recorded is not None:
                    self._learn(recorded, identity)
                    return recorded
                request = TrialRequest(config, identity, key, self.job([], SEARCH_EFFORT), self.search.reason)
                if any(each.program == identity for each in self.under_way.values()):
                    self._duplicates.append(request)
                    continue
                if not self.sweep.claim(key):
                    self._elsewhere[key] = identity
                    continue
                if identity in self._programs:
                    return self._record(request, SAME_SCRIPT)
                try:
                    request = replace(request, job=self._job_of(config, step))
                except KernelError as error:
                    return self._record(request, unmade(error))
                self.under_way[key] = request
                return request
            return None

    def tell(self, request: TrialRequest, evaluation: Evaluation) -> list[Trial]:
        """Record the outcome of a proposed config.

        Returns:
            The trial, and those of its duplicates that were proposed meanwhile.
        """
        with self.watch.phase("tell"):
            del self.under_way[request.key]
            trials = [self._record(request, evaluation)]
            for duplicate in [each for each in self._duplicates if each.program == request.program]:
                self._duplicates.remove(duplicate)
                if self.sweep.claim(duplicate.key):
                    trials.append(self._record(duplicate, SAME_SCRIPT))
                else:
                    self._elsewhere[duplicate.key] = duplicate.program
            return trials

    def drop(self, request: TrialRequest) -> None:
        """Abandon a proposed config, and release its claim: a resumed run will ask for it again."""
        if self.under_way.pop(request.key, None) is not None:
            self.sweep.release(request.key)

    def recall(self) -> list[Trial]:
        """Learn all trials of the store, in the order they were recorded, and return them.

        A search with several configs under evaluation would not propose the same configs again.
        """
        with self.watch.phase("recall"):
            self._catch_up()
            trials = list(self.sweep.recorded)
            for trial in trials:
                self._learn(trial, self.script_step(trial.config, alone=True).program.identity)
            return trials

    def unlearned(self, count: int) -> list[Trial]:
        """Return the trials recorded after the first `count` that the search has not learnt."""
        return [trial for trial in self.sweep.recorded[count:] if trial.key not in self._learnt]

    def learn_since(self, count: int) -> None:
        """Learn every trial recorded after the first `count`."""
        self.sweep.refresh()
        for trial in self.unlearned(count):
            self._learn(trial, self.script_step(trial.config, alone=True).program.identity)

    def _catch_up(self) -> None:
        """Learn the outcome of trials that other tuners had claimed and have recorded."""
        self.sweep.refresh()
        for key in [key for key in self._elsewhere if key in self.sweep.records]:
            self._learn(self.sweep.records[key], self._elsewhere.pop(key))

    def _learn(self, trial: Trial, program: ProgramIdentity) -> None:
        """Register a trial, and tell the search its outcome, or that of the original if it is a duplicate."""
        self.trials.append(trial)
        self._learnt.add(trial.key)
        original = self.sweep.records.get(trial.twin, trial)
        self._programs.setdefault(program, original)
        for mark in filter(None, (trial.scheduled, trial.compiled)):
            self._marks.setdefault(mark, original)
        if trial.seconds is not None:
            self.best_seconds = min(trial.seconds, self.best_seconds or trial.seconds)
        self.search.tell(trial.config, original.seconds, sum(trial.phases.values()), original.joules)

    def _job_of(self, config: Config, step: Step) -> Job:
        """Return the job that evaluates a config, with limits and fingerprints from the trials so far."""
        job = self.job([self.candidate(config, step)], self.objective.effort(SEARCH_EFFORT), self.best_seconds)
        return replace(job, time_limits=learn_time_limits(self.trials), known=frozenset(self._marks))

    def _record(self, request: TrialRequest, evaluation: Evaluation) -> Trial:
        """Record the outcome of a claimed config, release the claim, and learn from it."""
        original = self._original(request.program, evaluation) if evaluation.outcome == "duplicate" else None
        number, family = len(self.sweep.recorded), self.family.name
        trial = request.trial(evaluation, task=self.task.tag, number=number, family=family, original=original)
        try:
            self.sweep.add(trial, self.space)
        finally:
            self.sweep.release(request.key)
        self._learn(trial, request.program)
        return trial

    def _original(self, program: ProgramIdentity, evaluation: Evaluation) -> Trial | None:
        """Return the trial that a duplicate is the same program as."""
        return (
            self._programs.get(program) or self._marks.get(evaluation.compiled) or self._marks.get(evaluation.scheduled)
        )

    def candidate(self, config: Config, step: Step | None = None) -> Candidate:
        """Return the candidate of a config for the task alone; a known `step` is not generated again.

        Raises `KernelError` as `made` does.
        """
        return candidate_alone(self.made(step or self.script_step(config, alone=True)), self.machine.threads)

    def made(self, step: Step) -> Step:
        """Return a step with its external code generated, if it has any; raises `KernelError` on failure."""
        return replace(step, program=step.program.made())

    def script_step(self, config: Config, *, alone: bool = False, note: str = "") -> Step:
        """Return the step of a config in the script of the whole, or of the task alone; `note` follows its origin."""
        note = origin(self.task, self.family, config) + note
        return write_step(self.task, self.family, config, self.machine, alone=alone, note=note)

    def job(self, candidates: Sequence[Candidate], effort: Effort, best_seconds: float | None = None) -> Job:
        """Return the job that measures candidates of this task."""
        return Job(self.task.payload, tuple(candidates), self.machine, self.seed, effort, best_seconds)
