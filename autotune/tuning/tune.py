"""Tune a payload end to end, in stages with one input and one output value each.

open_run --Run--> search --Searched--> choose --Winners--> prove --Proof--> summarize, record, check_recorded
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from autotune.core.care import chosen_care
from autotune.core.host.machine import Roofs
from autotune.core.listener import SILENT, Listener
from autotune.core.payload import Payload
from autotune.core.plugs.rivals import OpenRivals
from autotune.core.scripts.rules import NONE
from autotune.core.scripts.user_family import OwnFamily
from autotune.registry import ambiguities, load_baseline, load_family, rewriter, rivals, rounding_families
from autotune.store.bundle import check_describable, check_target, digest, write_bundle
from autotune.store.manifest import MANIFEST_FILE
from autotune.store.room import with_room
from autotune.store.store import Store
from autotune.tuning.half_results import step_of_results
from autotune.tuning.options import TuneOptions
from autotune.tuning.result import TuneResult
from autotune.tuning.stages.agreement import Allowed, Errors
from autotune.tuning.stages.assemble import assemble_model
from autotune.tuning.stages.budget import choose_precisions, rounding_here, what_is_left
from autotune.tuning.stages.choose import choose_all
from autotune.tuning.stages.earlier_run import MANIFEST_SHA256, choose_target, earlier_result
from autotune.tuning.stages.forecast import Forecast
from autotune.tuning.stages.opening import (
    NOTHING_KNOWN,
    Entrants,
    Start,
    check_names,
    open_searches,
    say_sampler,
    setting_of,
)
from autotune.tuning.stages.record import check_recorded, record
from autotune.tuning.stages.run import Run
from autotune.tuning.stages.running import run_on_slots
from autotune.tuning.stages.sessions import measure_sessions
from autotune.tuning.stages.slow_baseline import BUDGET_SECONDS, time_baseline
from autotune.tuning.stages.summary import Proof, Searched, Winners, fronts_of, summarize
from autotune.tuning.stages.task_search import TaskSearch
from autotune.tuning.stages.user_script import dry_run_all, parts_of, read_own
from autotune.tuning.stages.workplace import Workplace, check_means, open_workplace
from autotune.worker.limits_cache import limits_of


def tune(
    payload: Payload,
    store: Store,
    bundle: Path,
    options: TuneOptions,
    listener: Listener = SILENT,
    *,
    elsewhere: Workplace | None = None,
    start: Start = NOTHING_KNOWN,
) -> TuneResult:
    """Tune one payload.

    Args:
        payload: Payload to tune.
        store: Store of the trials of this and earlier runs.
        bundle: Folder to write the winner to.
        options: Options of the run.
        listener: Listener of stages and trials.
        elsewhere: Machines that measure instead of this one; `None` for this one.
        start: Prior knowledge of the sweep.

    Returns:
        Result of the run; where nothing is left to run, and bundle and store are unchanged, that of the earlier run.

    Raises:
        ScheduleError: A family, back end or baseline is not installed, or the script cannot be tuned.
        PayloadError: The payload does not fit the machine, cannot be partitioned, or its oracle is not finite.
        RuleError: The payload's rules cannot be applied, or change what it computes.
        MachineError: No machine is left to measure; the same command resumes. Or energy cannot be read.
        ProofError: The recorded bundle fails verification when it is read again; the trials are kept.
        KeyboardInterrupt: Propagated; recorded trials are kept.
    """
    began = time.perf_counter()
    check_request(payload, options, is_here=elsewhere is None)
    check_describable(payload)
    with_room(partial(check_target, bundle), bundle, store.pause)
    load_baseline(options.baseline)
    own = read_own(payload, start.script, options.task, family=options.family)
    allowed = allowed_by(payload, options, plain=own is not None or elsewhere is not None)
    with (
        (
            open_workplace(options.threads, options.timeout, options.jobs)
            if elsewhere is None
            else nullcontext(elsewhere)
        ) as workplace,
        rivals().open(options.backends, options.timeout) as others,
    ):
        run, roofs, notes = open_run(payload, options, workplace, listener, own=own, least_floor=start.least_floor)
        searched = search(run, store, workplace, others=others, own=own, allowed=allowed, start=start, roofs=roofs)
        as_asked = recorded(options, start, run.payload)
        earlier = earlier_result(run, searched, store, bundle, as_asked, least_floor=start.least_floor)
        if earlier is not None:
            listener.note(f"nothing left to run: {earlier.bundle} stands; --anew measures it again")
            return replace(earlier, evaluated=0, seconds=time.perf_counter() - began)
        winners = choose(run, searched.searches, workplace, allowed)
        run = replace(
            run, payload=replace(run.payload, error=winners.spent.error if winners.spent is not None else 0.0)
        )
        proof = prove(run, winners, workplace)
        seconds = time.perf_counter() - began
        searched = replace(searched, notes=workplace.notes + notes + searched.notes)
        result = summarize(run, searched, winners, proof, roofs=roofs, seconds=seconds)
        Forecast(0, listener).prove(3)
        listener.stage("recording the bundle")
        command = replace(as_asked, anew=False).command(run.payload.name)
        draft = record(run, winners, proof, result, command)
        over = options.anew or options.goal.has_joules  # what saves energy may be slower
        target = choose_target(bundle, draft.manifest, unsteady=result.unsteady, floor=run.floor, anew=over)
        if target.note:
            listener.note(target.note)
        listener.stage("checking the bundle as a replay does")
        check_recorded(run, target.folder, draft, store.pause)
    folder = with_room(partial(write_bundle, target.folder, draft.texts, draft.manifest), target.folder, store.pause)
    result = replace(result, bundle=str(folder))
    manifest = digest((folder / MANIFEST_FILE).read_bytes())
    store.write_summary(run.payload.name, result.to_json() | {MANIFEST_SHA256: manifest})
    return result


def open_run(
    payload: Payload,
    options: TuneOptions,
    workplace: Workplace,
    listener: Listener,
    *,
    own: OwnFamily | None,
    least_floor: float,
) -> tuple[Run, Roofs, tuple[str, ...]]:
    """Partition the payload, measure the machine, and select among the optional rewrite rules by measurement.

    Returns:
        The run, the machine's roofs, and notes.
    """
    machine, worker, care = workplace.machine, workplace.benches()[0], chosen_care()
    listener.stage("partitioning the payload")
    parts = parts_of(payload, own)
    notes = rewriter().prove(payload, parts, machine, options.seed, worker)
    listener.stage("measuring roofs and noise of this machine")
    limits = limits_of(machine, worker, care.pairs)
    roofs, floor = limits.roofs, max(least_floor, limits.floor)
    if own is None:
        payload, parts, chosen = rewriter().choose(
            payload, parts, machine, floor=floor, seed=options.seed, worker=worker
        )
        notes += chosen
    for note in workplace.notes + notes:
        listener.note(note)
    return Run(payload, parts, machine, worker, options, floor, listener, care), roofs, notes


def search(
    run: Run,
    store: Store,
    workplace: Workplace,
    *,
    others: OpenRivals,
    own: OwnFamily | None,
    allowed: Allowed,
    start: Start,
    roofs: Roofs,
) -> Searched:
    """Search the schedules of all tasks, over all competing families and external code generators.

    Args:
        run: The run.
        store: Store of the trials of this and earlier runs.
        workplace: Workplace whose slots evaluate candidates.
        others: External code generators that compete.
        own: User script; `None` for families.
        allowed: Error that rounding may make.
        start: Prior knowledge of the sweep.
        roofs: Roofs of the machine.
    """
    options, tasks = run.options, run.parts.tasks
    wanted = own or (load_family(options.family) if options.family else None)
    competing, left_out = others.families(tasks, run.machine)
    able = [family for family in rounding_families() if any(map(family.covers, tasks))]
    coarse, lacking = rounding_here(able, allowed.room, roofs.known)
    setting = setting_of(run.payload, run.machine, store, options, rules=run.fired_rules, start=start)
    searches = open_searches(tasks, setting, options.beside, Entrants(wanted, competing, coarse, allowed.room))
    ours = dry_run_all(run.parts, own, run.machine) if own is not None else ambiguities(tasks, wanted)
    notes = (*ours, *left_out, *lacking)
    if not allowed.room and options.error is None and wanted is None:
        notes = (*notes, *filter(None, [what_is_left(tasks, able, roofs.known)]))
    elif allowed.room and options.error is None and not options.agreement:
        notes = (
            *notes,
            f"outputs have 16 bits, and may be off by a step of them, {allowed.error:g}; --error 0 rounds none",
        )
    for note in (*notes, *filter(None, [say_sampler(options.sampler, searches)])):
        run.listener.note(note)
    unlike = store.count_incomparable(each.sweep for each in searches)
    run.listener.stage("searching")
    with workplace.searchers() as slots:
        ran = run_on_slots(searches, options, slots, run.listener)
    return Searched(searches, ran, unlike, notes)


def choose(run: Run, searches: Sequence[TaskSearch], workplace: Workplace, allowed: Allowed) -> Winners:
    """Measure the finalists of each task again, and choose winners within the error budget of the whole."""
    baseline = load_baseline(run.options.baseline)
    forecast = Forecast(len({each.task.tag for each in searches}), run.listener)
    benches = workplace.benches()
    choices = choose_all(searches, baseline, run.floor, benches, run.listener, begins=forecast.race, care=run.care)
    errors = Errors(run.payload, run.parts, run.machine.threads, run.worker, run.whole_seconds)
    choices, spent, notes = choose_precisions(choices, allowed, errors, run.seed, run.listener)
    return Winners(choices, spent, (*(fronts_of(searches) if run.options.goal.has_joules else ()), *notes))


def prove(run: Run, winners: Winners, workplace: Workplace) -> Proof:
    """Assemble the whole, verify it, and time it beside the baseline in several processes."""
    baseline, forecast = load_baseline(run.options.baseline), Forecast(0, run.listener)
    forecast.prove(0)
    seconds = min(BUDGET_SECONDS, run.whole_seconds)
    run.listener.stage(f"timing baseline {baseline.name}, for {seconds:.0f} s at most")
    flops = run.payload.flops or sum(task.needed_flops * task.count for task in run.parts.tasks)
    timed = time_baseline(
        run.payload, baseline, flops, machine=run.machine, seed=run.seed, worker=run.worker, seconds=seconds
    )
    forecast.prove(1)
    run.listener.stage("assembling and proving the whole")
    assembly = assemble_model(run, winners.choices, timed)
    forecast.prove(2)
    run.listener.stage("timing the whole in more processes")
    return Proof(timed, assembly, measure_sessions(run, assembly, timed.candidate, workplace.another))


def check_request(payload: Payload, options: TuneOptions, *, is_here: bool) -> None:
    """Raise unless the requested run is possible; called before anything is measured."""
    check_names(options)
    check_means(payload, options.jobs if is_here else 0, options.goal)
    Allowed(agreement=options.agreement).check(payload)


def allowed_by(payload: Payload, options: TuneOptions, *, plain: bool) -> Allowed:
    """Return the error that rounding may make of the outputs: the user's limit, else one step of their 16-bit type.

    Args:
        payload: The payload.
        options: Options of the run.
        plain: Whether computation stays in f32 unless the user allows an error.
    """
    if options.error is not None or options.agreement or plain:
        return Allowed(options.error or 0.0, options.agreement)
    step = step_of_results(payload)
    if step and options.family and not load_family(options.family).error:  # a file of Python is run where it is loaded
        return Allowed()
    return Allowed(step)


def recorded(options: TuneOptions, start: Start, payload: Payload) -> TuneOptions:
    """Return the options that repeat the run anywhere: with its script and rules, and cold if nothing was known."""
    rules = payload.rules
    return replace(
        options,
        schedule=start.script.source if start.script is not None else "",
        rules=rules.source if rules.source else "" if rules.ours else NONE,
        exact=rules.exact,
        cold=options.cold or not (start.known or start.transfer),
    )
