"""Tune a payload end to end: partition, search every task, choose, assemble, and prove the whole faster and right."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from autotune.core.listener import SILENT, Listener
from autotune.core.payload import Payload
from autotune.core.scripts.rules import NONE
from autotune.registry import load_baseline, load_family, ties
from autotune.store.bundle import check_target, write_bundle
from autotune.store.room import with_room
from autotune.store.sessions import figures_of
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.result import TuneResult
from autotune.tuning.stages.agreement import Allowed, Errors
from autotune.tuning.stages.assemble import assemble_model
from autotune.tuning.stages.backends import open_makers, refusals
from autotune.tuning.stages.budget import rounding_here, spend
from autotune.tuning.stages.choose import choose_all
from autotune.tuning.stages.choose_rules import choose_rules
from autotune.tuning.stages.opening import NOTHING_KNOWN, Start, check_names, open_searches, say_sampler
from autotune.tuning.stages.prove_rules import prove_rules, rules_of
from autotune.tuning.stages.record import check_recorded, record
from autotune.tuning.stages.roofline import needed_flops
from autotune.tuning.stages.running import run_on_slots
from autotune.tuning.stages.sessions import measure_sessions
from autotune.tuning.stages.slow_baseline import BUDGET_SECONDS, time_baseline
from autotune.tuning.stages.summary import fronts_of, summarize
from autotune.tuning.stages.user_script import parts_of, read_own, rehearse_all
from autotune.tuning.stages.workplace import check_means, open_workplace
from autotune.worker.bench.noise import PAIRS, measure_noise
from autotune.worker.remote.team import Team


def tune(
    payload: Payload,
    store: Store,
    bundle: Path,
    options: TuneOptions,
    listener: Listener = SILENT,
    *,
    team: Team | None = None,
    start: Start = NOTHING_KNOWN,
) -> TuneResult:
    """Tune one payload.

    Args:
        payload: Payload to tune.
        store: Receives every trial, and holds those of earlier runs.
        bundle: Folder to write the winner to.
        options: Options of the run.
        listener: Notified of stages and trials.
        team: Slots of a cluster that measure; `None` for this machine.
        start: What is known before the first trial.

    Raises:
        ScheduleError: A family, back end or baseline is not installed, or the script cannot be tuned.
        PayloadError: The payload does not fit the machine, cannot be partitioned, or its oracle is not finite.
        RuleError: The payload's rules cannot be applied, or change what it computes.
        MachineError: No machine of the team is left; the same command resumes. Or energy cannot be read.
        ProofError: What was recorded does not hold when it is read and verified again; the trials are kept.
        KeyboardInterrupt: Passed on; what was recorded stays.
    """
    began = time.perf_counter()
    allowed = check_request(payload, options, has_team=team is not None)
    with_room(partial(check_target, bundle), bundle, store.pause)
    baseline = load_baseline(options.baseline)
    own = read_own(payload, start.script, options.task, family=options.family)
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
        floor = max(start.least_floor, measure_noise(machine, worker, PAIRS))
        payload, parts, chosen = (
            choose_rules(payload, parts, machine, floor=floor, seed=options.seed, worker=worker)
            if own is None
            else (payload, parts, ())
        )
        wanted = own or (load_family(options.family) if options.family else None)
        rules = rules_of(payload, parts)
        rivals = makers.families(options.backends, parts.tasks, machine)
        coarse, lacking = rounding_here(allowed.room)
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
            error=allowed.room,
            start=start,
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
        choices, spent, notes = spend(choices, allowed, errors, options.seed, listener)
        payload = replace(payload, error=spent.error if spent is not None else 0.0)
        said += fronts_of(searches) if options.goal.has_joules else ()
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
            parts=parts,
            searches=searches,
            choices=choices,
            assembly=assembly,
            figures=figures_of(sessions, timed.error),
            ran=ran,
            start=began,
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
            command=recorded(options, start, payload).command(payload.name),
            worker=worker,
            spent=spent,
        )
        listener.stage("checking the bundle as a replay does")
        check_recorded(payload, bundle, texts, manifest, worker=worker, pause=store.pause)
    folder = with_room(partial(write_bundle, bundle, texts, manifest), bundle, store.pause)
    result = replace(result, bundle=str(folder))
    store.write_summary(payload.name, result.to_json())
    return result


def check_request(payload: Payload, options: TuneOptions, *, has_team: bool) -> Allowed:
    """Refuse what cannot be done, before anything is measured; gives what rounding may do to the outputs."""
    check_names(options)
    check_means(payload, 0 if has_team else options.jobs, options.goal)
    allowed = Allowed(options.error, options.agreement)
    allowed.check(payload)
    return allowed


def recorded(options: TuneOptions, start: Start, payload: Payload) -> TuneOptions:
    """The options that tune a payload so again anywhere: with its script and rules, and cold if nothing was known."""
    rules = payload.rules
    return replace(
        options,
        schedule=start.script.source if start.script is not None else "",
        rules=rules.source if rules.source else "" if rules.ours else NONE,
        exact=rules.exact,
        cold=options.cold or not (start.known or start.recordings),
    )
