"""Tune a payload end to end: partition, search every task, choose, assemble, and prove the whole faster and right."""

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from autotune.core.cores import MOST_THREADS, check_jobs
from autotune.core.listener import SILENT, Listener
from autotune.core.objective import PLAIN, Objective
from autotune.core.options import LEAST_TIMEOUT, MOST_COUNT, MOST_SECONDS, check_real, check_seed, check_whole
from autotune.core.payload import Payload
from autotune.registry import load_baseline, load_family, ties
from autotune.store.bundle import check_target, write_bundle
from autotune.store.recording import Recording
from autotune.store.records import SearchRecord
from autotune.store.room import with_room
from autotune.store.sessions import figures_of
from autotune.store.store import Store
from autotune.tuning.allowed import Allowed, Errors
from autotune.tuning.assemble import assemble_model
from autotune.tuning.backends import open_makers, refusals
from autotune.tuning.budget import rounding_here, spend
from autotune.tuning.choose import choose_all
from autotune.tuning.choose_rules import choose_rules
from autotune.tuning.opening import open_searches, say_sampler
from autotune.tuning.own import parts_of, read_own, rehearse_all
from autotune.tuning.prove_rules import prove_rules, rules_of
from autotune.tuning.record import check_recorded, record
from autotune.tuning.result import TuneResult
from autotune.tuning.roofline import needed_flops
from autotune.tuning.running import run_on_slots
from autotune.tuning.search import DEFAULT, check_sampler
from autotune.tuning.sessions import measure_sessions
from autotune.tuning.slow_baseline import BUDGET_SECONDS, time_baseline
from autotune.tuning.summary import fronts_of, summarize
from autotune.tuning.warm_start import KnownConfig
from autotune.tuning.workplace import check_means, open_workplace
from autotune.worker.noise import PAIRS, measure_noise
from autotune.worker.reading import ScriptFile
from autotune.worker.team import Team

MOST_ERROR = 1.0  # of a budget: beyond it nothing is left of a result


@dataclass(frozen=True)
class TuneOptions:
    """How to tune.

    Attributes:
        trials: Candidates to run, over all tasks, counting those a store already holds.
        seconds: Stop the search this long after its first trial; `None` for no bound.
        sampler: One of `autotune.tuning.search.SAMPLERS`, or the name of one of Optuna's, or of OptunaHub's.
        seed: Seed of the sampler and of the input data.
        baseline: Name of the pipeline that speed-ups are quoted against.
        timeout: Seconds one candidate may take to compile, verify and measure.
        known: Recorded configs; each task starts from the nearest.
        recordings: Recorded spaces that samplers which model learn from.
        least_floor: Differences below it are ties, however quiet the machine seems: what `doctor --noise` kept.
        script: A user's own script, whose knobs are searched; by default that of the payload's file, else families.
        tasks: Which tasks that script is for, where it takes one op: a tag, or a pattern with ``*``.
        family: Family to search, an installed one's name or ``mine.py:FAMILY``; empty for the first that covers a task.
        beside: More families, named so, each of which competes for the tasks that it covers.
        backends: Back ends that compete with it, each ``NAME`` or ``NAME:ARGUMENT``.
        threads: Threads that programs may use; with one they have no parallel loops.
        jobs: Candidates that are worked on at once, of a core each; one at a time measures.
        error: What outputs may be off, relative to the largest of each, for operands that tasks round; 0 rounds none.
        agreement: Least share of rows of the outputs whose largest element must stay in its place, where tasks round.
        objective: What is minimised.
    """

    trials: int = 100
    seconds: float | None = None
    sampler: str = DEFAULT
    seed: int = 0
    baseline: str = "passes"
    timeout: float = 60.0
    known: tuple[KnownConfig, ...] = ()
    recordings: tuple[Recording, ...] = ()
    least_floor: float = 0.0
    script: ScriptFile | None = None
    tasks: str = "*"
    family: str = ""
    beside: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    threads: int = 1
    jobs: int = 1
    error: float = 0.0
    agreement: float = 0.0
    objective: Objective = PLAIN

    def __post_init__(self) -> None:
        check_whole("trials", self.trials, 1, MOST_COUNT)
        if self.seconds is not None:
            check_real("seconds", self.seconds, 0.0, MOST_SECONDS, example=60)
        check_seed(self.seed)
        check_real("timeout", self.timeout, LEAST_TIMEOUT, MOST_SECONDS, example=60)
        check_whole("threads", self.threads, 1, MOST_THREADS)
        check_jobs(self.jobs, self.threads)
        check_sampler(self.sampler)
        check_real("error", self.error, 0.0, MOST_ERROR, example=0.01)
        check_real("agreement", self.agreement, 0.0, 1.0, example=0.99)

    @property
    def allowed(self) -> Allowed:
        """What rounding may do to the outputs."""
        return Allowed(self.error, self.agreement)

    @property
    def recorded(self) -> SearchRecord:
        """What a bundle keeps of the options, so that it can be tuned again with the same."""
        return SearchRecord(
            family=self.family,
            beside=self.beside,
            backends=self.backends,
            threads=self.threads,
            timeout=self.timeout,
            error=self.error,
            agreement=self.agreement,
            objective=self.objective.names,
            weight=self.objective.weight,
        )

    def command(self, payload: str) -> list[str]:
        """The command line that tunes a payload so, without the places of store and bundle."""
        bound = ["--seconds", f"{self.seconds:g}"] if self.seconds is not None else []
        choices = ["--sampler", self.sampler, "--seed", str(self.seed), "--baseline", self.baseline]
        cold = [] if self.known or self.recordings else ["--cold"]
        own = ["--schedule", self.script.source] if self.script is not None else []
        own += ["--task", self.tasks] if self.tasks != "*" else []
        own += ["--family", self.family] if self.family else []
        own += [word for name in self.beside for word in ("--beside", name)]
        own += [word for spec in self.backends for word in ("--backend", spec)]
        own += ["--threads", str(self.threads)] if self.threads > 1 else []
        own += ["--error", f"{self.error:g}"] if self.error else []
        own += ["--agreement", f"{self.agreement:g}"] if self.agreement else []
        own += ["--jobs", str(self.jobs)] if self.jobs > 1 else []
        if self.objective.has_joules:
            own += ["--objective", self.objective.names, "--weight", f"{self.objective.weight:g}"]
        return ["autotune", "tune", payload, "--trials", str(self.trials), *own, *bound, *choices, *cold]


def tune(
    payload: Payload,
    store: Store,
    bundle: Path,
    options: TuneOptions,
    listener: Listener = SILENT,
    *,
    team: Team | None = None,
) -> TuneResult:
    """Tune one payload.

    Args:
        payload: Payload to tune.
        store: Receives every trial, and holds those of earlier runs.
        bundle: Folder to write the winner to.
        options: Options of the run.
        listener: Notified of stages and trials.
        team: Slots of a cluster that measure; `None` for this machine.

    Raises:
        PayloadError: The payload does not fit the machine, cannot be partitioned, or its oracle is not finite.
        RuleError: The payload's rules cannot be applied, or change what it computes.
        MachineError: No machine of the team is left; the same command resumes. Or energy cannot be read.
        ProofError: What was recorded does not hold when it is read and verified again; the trials are kept.
        KeyboardInterrupt: Passed on; what was recorded stays.
    """
    start = time.perf_counter()
    check_means(payload, options.jobs if team is None else 0, options.objective)
    options.allowed.check(payload)
    with_room(partial(check_target, bundle), bundle, store.pause)
    baseline = load_baseline(options.baseline)
    own = read_own(payload, options.script, options.tasks, family=options.family)
    with (
        open_workplace(options.threads, options.timeout, team, options.jobs) as place,
        open_makers(options.backends, options.timeout) as makers,
    ):
        machine, worker = place.machine, place.benches()[0]
        listener.stage("partitioning the payload")
        parts = parts_of(payload, own)
        proved = prove_rules(payload, parts, machine, options.seed, worker)
        listener.stage("measuring roofs and noise of this machine")
        roofs = worker.roofs(machine)
        floor = max(options.least_floor, measure_noise(machine, worker, PAIRS))
        payload, parts, chosen = (
            choose_rules(payload, parts, machine, floor=floor, seed=options.seed, worker=worker)
            if own is None
            else (payload, parts, ())
        )
        wanted = own or (load_family(options.family) if options.family else None)
        rules = rules_of(payload, parts)
        rivals = makers.families(options.backends, parts.tasks, machine)
        coarse, lacking = rounding_here(options.allowed.room)
        searches = open_searches(
            payload,
            parts.tasks,
            machine,
            store,
            options,
            wanted=wanted,
            rules=rules,
            backends=rivals,
            rounding=coarse,
            error=options.allowed.room,
        )
        ours = rehearse_all(parts, own, machine) if own is not None else ties(parts.tasks, wanted)
        said = place.notes + proved + chosen + ours + refusals(rivals) + lacking
        for note in (*said, *filter(None, [say_sampler(options.sampler, searches)])):
            listener.note(note)
        unlike = store.count_incomparable(search.sweep for search in searches)
        listener.stage("searching")
        with place.searchers() as slots:
            ran = run_on_slots(searches, options, slots, listener)
        choices = choose_all(searches, baseline, floor, place.benches(), listener)
        errors = Errors(payload, parts, machine.threads, worker)
        choices, spent, notes = spend(choices, options.allowed, errors, options.seed, listener)
        payload = replace(payload, error=spent.error if spent is not None else 0.0)
        said += fronts_of(searches) if options.objective.has_joules else ()
        listener.stage(f"timing baseline {baseline.name}, for {BUDGET_SECONDS:.0f} s at most")
        flops = payload.flops or sum(needed_flops(task) * task.count for task in parts.tasks)
        timed = time_baseline(payload, baseline, flops, machine=machine, seed=options.seed, worker=worker)
        listener.stage("assembling and proving the whole")
        assembly = assemble_model(payload, parts, choices, timed, machine=machine, seed=options.seed, worker=worker)
        listener.stage("timing the whole in more processes")
        both = (timed.candidate, assembly.candidate(parts.payload.text))
        sessions = measure_sessions(payload, assembly, both, machine, options.seed, another=place.another)
        result = summarize(
            payload,
            machine,
            roofs,
            baseline,
            searches=searches,
            choices=choices,
            assembly=assembly,
            figures=figures_of(sessions, timed.error),
            ran=ran,
            start=start,
            floor=floor,
            unlike=unlike,
            said=said + notes,
            spent=spent,
        )
        listener.stage("recording the bundle")
        texts, manifest = record(
            payload,
            parts,
            assembly=assembly,
            choices=choices,
            baseline=timed,
            result=result,
            sessions=sessions,
            seed=options.seed,
            command=[*options.command(payload.name), *payload.rules.options],
            search=options.recorded,
            worker=worker,
            spent=spent,
        )
        listener.stage("checking the bundle as a replay does")
        check_recorded(payload, bundle, texts, manifest, worker=worker, pause=store.pause)
    folder = with_room(partial(write_bundle, bundle, texts, manifest), bundle, store.pause)
    result = replace(result, bundle=str(folder))
    store.write_summary(payload.name, result.to_json())
    return result
