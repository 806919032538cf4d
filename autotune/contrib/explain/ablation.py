"""Ablation study: the winner without one technique at a time, or a program built up technique by technique."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from autotune.core.candidate import Candidate
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.host.machine import Machine
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.core.scripts.technique import Technique, repair
from autotune.core.space import Config, Space, Value
from autotune.core.stats import Interval, ratio_interval
from autotune.core.winner_time import winner_time
from autotune.registry import load_baseline, load_family, load_point, registered
from autotune.reports.scheduled import Scheduled, as_recorded, candidate_of, recorded_tasks
from autotune.store.bundle import BundleFiles
from autotune.tuning.stages.slow_baseline import part_for
from autotune.tuning.stages.user_script import own_of, parts_of
from autotune.worker.isolation.limits import whole_seconds
from autotune.worker.loading.reading import partition
from autotune.worker.race import check_oracle
from autotune.worker.worker import Worker

TECHNIQUES = "autotune.techniques"
WINNER, SEARCH, VECTORIZE = "the winner", "search", "vectorize"
EFFORT = Effort(samples=31, seconds=30.0, sample_seconds=0.005)
SECONDS = 3600.0  # timeout for all variants of a whole model together


@dataclass(frozen=True)
class Variant:
    """Variant of a program to be measured.

    Attributes:
        name: Name of the technique that is removed or added.
        candidate: Script and pipeline with which the variant is compiled.
        tasks: Tags of the tasks whose schedule differs from that of the program it is compared with.
    """

    name: str
    candidate: Candidate
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """Measurement of a variant.

    Attributes:
        name: Name of the variant.
        tasks: Tags of the tasks that the variant changes.
        seconds: Seconds per call, see `autotune.core.winner_time`; `None` if it was not timed.
        factor: Ratio of its time to that of the winner, or the speed-up over the previous step; `None` if one of the
            two was not timed.
        max_error: Largest absolute difference from the oracle.
        outcome: ``ok``, or what went wrong.
    """

    name: str
    tasks: tuple[str, ...]
    seconds: Interval | None
    factor: Interval | None
    max_error: float | None
    outcome: str


def winner_of(bundle: BundleFiles, machine: Machine, family: str = "") -> tuple[list[Scheduled], str]:
    """Return the tasks of a bundle with their recorded configs, and the module that contains them.

    Args:
        bundle: The bundle.
        machine: The host.
        family: Family from a file with which the bundle was tuned, ``mine.py:FAMILY``; files are never run implicitly.

    Raises:
        ScheduleError: A family is neither installed nor the named one.
        BundleError: The bundle is of a release that partitioned payloads differently.
    """
    own = own_of(bundle)
    recorded, parts = recorded_tasks(bundle), parts_of(bundle.payload, own)
    named = own or (load_family(family) if family else None)
    return [as_recorded(task, recorded, machine, named) for task in parts.tasks], parts.payload.text


def load_techniques() -> tuple[Technique, ...]:
    """Return all techniques in the order in which they build on each other; those of plug-ins come last."""
    own, *others = sorted(registered(TECHNIQUES).values(), key=lambda point: point.name != "schedules")
    return tuple(t for point in (own, *others) for t in cast(tuple[Technique, ...], load_point(point)))


def leave_one_out(bundle: BundleFiles, machine: Machine, family: str = "") -> list[Variant]:
    """Return the winner, and variants without each technique, user-script choice, rewrite rule, and the search.

    A technique that the winner does not use, or without which no config is valid, changes no task.

    Raises:
        BundleError: The bundle is of a release that partitioned payloads differently.
    """
    tasks, text = winner_of(bundle, machine, family)
    winner = candidate_of(tasks, machine, text)
    variants = [Variant(WINNER, winner, ())]
    families = [task for task in tasks if not task.has_own_script]
    for technique in load_techniques() if families else ():
        reduced = [drop(task, [technique], machine) for task in tasks]
        changed = changed_tags(tasks, reduced)
        candidate = candidate_of(reduced, machine, text) if changed else winner
        variants.append(Variant(technique.name, candidate, changed))
    variants += without_choices(tasks, machine, text)
    variants += without_each_rule(bundle, machine, family)
    defaults = [by_default(task, machine) for task in tasks]
    changed = changed_tags(tasks, defaults)
    variants.append(Variant(SEARCH, candidate_of(defaults, machine, text) if changed else winner, changed))
    return variants


def without_choices(tasks: Sequence[Scheduled], machine: Machine, text: str) -> Iterator[Variant]:
    """Yield the winner with one knob of a user script reset to its default, for every knob that the search changed.

    If that violates a constraint of the script, as few other knobs as possible change as well.
    """
    for index, task in enumerate(tasks):
        if task.family is None or task.family.script is None or task.config is None:
            continue
        space, default = task.family.space(task.task, machine), task.family.default(task.task, machine)
        for name in (knob.name for knob in space.knobs if default[knob.name] != task.config[knob.name]):
            free = [knob.name for knob in space.knobs if knob.name != name]
            back = repair(space.settled({**task.config, name: default[name]}), space, free)
            if back is None or back == task.config:
                continue
            fewer = [*tasks[:index], replace(task, config=back), *tasks[index + 1 :]]
            changed = changed_tags(tasks, fewer)
            yield Variant(f"{name}={task.config[name]}", candidate_of(fewer, machine, text), changed)


def without_each_rule(bundle: BundleFiles, machine: Machine, family: str = "") -> Iterator[Variant]:
    """Yield the winner of the payload rewritten without one rule, for every rule that fired.

    A task that exists only without the rule gets its default config.
    """
    own, recorded = own_of(bundle), recorded_tasks(bundle)
    named = own or (load_family(family) if family else None)
    for rule in bundle.manifest.rules.fired if bundle.manifest.rules is not None else ():
        parts = parts_of(replace(bundle.payload, rules=bundle.payload.rules.leaving_out(rule)), own)
        tasks = [as_recorded(t, recorded if t.tag in recorded else None, machine, named) for t in parts.tasks]
        changed = tuple(task.tag for task in parts.tasks if task.tag not in recorded)
        yield Variant(f"rule {rule}", candidate_of(tasks, machine, parts.payload.text), changed)


def by_default(task: Scheduled, machine: Machine) -> Scheduled:
    """Return a task with its default config."""
    if task.family is not None and task.has_own_script:
        return replace(task, config=task.family.default(task.task, machine))
    return as_recorded(task.task, None, machine)


def build_up(
    payload: Payload, machine: Machine, bundle: BundleFiles | None, baseline: str | None, family: str = ""
) -> list[Variant]:
    """Return a baseline, the schedules without any technique, then with one more each, then the search's winner.

    Args:
        payload: Payload to compile.
        machine: Host for which the programs are compiled.
        bundle: Bundle of the search; if `None`, the default configs are the last step.
        baseline: Name of the pass pipeline to begin with; if `None`, begin with the schedules without techniques.
        family: Family from a file with which the bundle was tuned, ``mine.py:FAMILY``.
    """
    parts = partition(payload)
    full = [as_recorded(task, None, machine) for task in parts.tasks]
    techniques = load_techniques()
    variants = [baseline_variant(baseline, payload, parts)] if baseline else []
    before: list[Scheduled] = [Scheduled(task) for task in parts.tasks]
    for count, name in enumerate((VECTORIZE, *(technique.name for technique in techniques))):
        missing = techniques[count:]
        tasks = [drop(task, missing, machine) for task in full]
        candidate = candidate_of(tasks, machine, parts.payload.text)
        changed = changed_tags(before, tasks)
        if not changed and variants:
            candidate = variants[-1].candidate
        variants.append(Variant(f"+ {name}", candidate, changed))
        before = tasks
    if bundle is not None:
        winner, text = winner_of(bundle, machine, family)
        changed = changed_tags(before, winner)
        candidate = candidate_of(winner, machine, text) if changed else variants[-1].candidate
        variants.append(Variant(f"+ {SEARCH}", candidate, changed))
    return variants


def baseline_variant(name: str, payload: Payload, parts: Partition) -> Variant:
    """Return the variant of a pass pipeline; of a large payload only a part of the iterations is run."""
    part = part_for(payload.flops or sum(task.needed_flops * task.count for task in parts.tasks))
    text = f"{name}, one in {part} iterations" if part > 1 else name
    return Variant(text, Candidate(None, load_baseline(name).pipeline, part=part), ())


def drop(scheduled: Scheduled, techniques: Sequence[Technique], machine: Machine) -> Scheduled:
    """Return a task without some techniques; unchanged if no config is valid without them."""
    if scheduled.family is None or scheduled.config is None or scheduled.has_own_script:
        return scheduled
    space = scheduled.family.space(scheduled.task, machine)
    plainer = without(scheduled.config, space, techniques)
    return replace(scheduled, config=plainer) if plainer is not None else scheduled


def without(config: Config, space: Space, techniques: Sequence[Technique]) -> dict[str, Value] | None:
    """Return the config nearest to the given one without some techniques.

    The knobs of the techniques get their plain values; if that violates a constraint, as few other knobs as possible
    change, at most three. Return `None` if no such config is valid.
    """
    values = {knob.name: knob.values for knob in space.knobs}
    plain = {
        name: wanted
        for technique in techniques
        for knob, wanted in technique.plain.items()
        for name in values
        if is_knob(name, knob) and wanted in values[name]
    }
    return repair({**config, **plain}, space, [name for name in values if name not in plain])


def is_knob(name: str, knob: str) -> bool:
    """Return whether a name is that of a knob, with or without a numeric suffix."""
    return name == knob or (name.startswith(f"{knob}_") and name.removeprefix(f"{knob}_").isdigit())


def changed_tags(before: Sequence[Scheduled], after: Sequence[Scheduled]) -> tuple[str, ...]:
    """Return the tags of the tasks whose family or config differs."""
    pairs = zip(before, after, strict=True)
    return tuple(b.task.tag for a, b in pairs if (a.family, a.config) != (b.family, b.config))


def run_variants(payload: Payload, variants: Sequence[Variant], machine: Machine, seed: int = 0) -> list[Evaluation]:
    """Verify all variants and time them interleaved; a variant that crashes its process is left out of the timing.

    Raises:
        PayloadError: The oracle takes too long.
    """
    distinct = list(dict.fromkeys(variant.candidate for variant in variants))
    seconds_each = whole_seconds(partition(payload).tasks)
    with Worker(seconds_each, threads=machine.threads) as worker:
        check_oracle(payload, seed, worker)
        timeout = min(SECONDS, seconds_each * len(distinct))
        results = worker.evaluate(Job(payload, tuple(distinct), machine, seed, EFFORT), timeout)
        if all(each.samples is None for each in results):
            quick = Effort(samples=1, seconds=0.0)
            alone = [worker.evaluate(Job(payload, (each,), machine, seed, quick))[0] for each in distinct]
            survivors = [i for i, each in enumerate(alone) if each.samples is not None]
            raced = worker.evaluate(Job(payload, tuple(distinct[i] for i in survivors), machine, seed, EFFORT), timeout)
            results = [alone[i] if i not in survivors else raced[survivors.index(i)] for i in range(len(distinct))]
    by_candidate = dict(zip(distinct, results, strict=True))
    return [by_candidate[variant.candidate] for variant in variants]


def against_first(
    variants: Sequence[Variant], evaluations: Sequence[Evaluation], quiet: float | None = None
) -> list[Measured]:
    """Compare every variant with the first: the ratio of its time to that of the first.

    Args:
        variants: Variants that were measured.
        evaluations: Evaluation of each variant.
        quiet: Best known seconds per call of the FMA kernel on this machine; `None` if only these samples count.
    """
    return [
        measured(variant, evaluation, evaluations[0], evaluation, quiet)
        for variant, evaluation in zip(variants, evaluations, strict=True)
    ]


def against_previous(
    variants: Sequence[Variant], evaluations: Sequence[Evaluation], quiet: float | None = None
) -> list[Measured]:
    """Compare every variant with its predecessor: the speed-up; arguments are those of `against_first`."""
    before = [evaluations[0], *evaluations[:-1]]
    pairs = zip(variants, evaluations, before, strict=True)
    return [measured(variant, evaluation, evaluation, last, quiet) for variant, evaluation, last in pairs]


def measured(
    variant: Variant, evaluation: Evaluation, quick: Evaluation, slow: Evaluation, quiet: float | None = None
) -> Measured:
    """Return the measurement of a variant, with the ratio of the times of `slow` and `quick` as its factor."""
    factor = ratio_interval(slow.samples.seconds, quick.samples.seconds) if slow.samples and quick.samples else None
    seconds = (
        winner_time(evaluation.samples.seconds, evaluation.samples.reference_seconds, quiet).seconds
        if evaluation.samples
        else None
    )
    outcome = evaluation.outcome if not evaluation.diagnostic else f"{evaluation.outcome}: {evaluation.diagnostic}"
    return Measured(variant.name, variant.tasks, seconds, factor, evaluation.max_error, outcome)
