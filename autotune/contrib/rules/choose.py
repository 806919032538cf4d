"""Optional rules, marked ``autotune.choice``: they are kept or dropped by measuring the whole payload."""

from collections.abc import Sequence
from itertools import combinations

from autotune.contrib.rules.files import without_rules
from autotune.core.bench import Bench
from autotune.core.care import chosen_care
from autotune.core.errors import RuleError
from autotune.core.evaluator import Effort, Job
from autotune.core.host.machine import Machine
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.core.stats import is_different, quiet_time, ratio_interval
from autotune.core.trial import Samples
from autotune.tuning.candidates import default_candidate
from autotune.tuning.stages.choose import joined
from autotune.tuning.stages.user_script import partition_named
from autotune.worker.isolation.limits import MODEL_SECONDS

MOST = 3  # optional rules that may fire; each one doubles the number of programs
EFFORT = Effort(samples=40, seconds=4.0, sample_seconds=0.002)


def choose_rules(
    payload: Payload, parts: Partition, machine: Machine, *, floor: float, seed: int, worker: Bench
) -> tuple[Payload, Partition, tuple[str, ...]]:
    """Measure the payload under all subsets of the optional rules, with default schedules; ties keep more rules.

    Args:
        payload: Payload with its rules.
        parts: Partition of the payload rewritten by all rules.
        machine: The host.
        floor: Relative difference below which times count as equal.
        seed: Seed of the input data.
        worker: Bench to measure in.

    Returns:
        The payload with the selected rules, its partition, and a sentence on the result.

    Raises:
        RuleError: More than `MOST` optional rules fire.
    """
    names = parts.rewriting.choices
    if not names:
        return payload, parts, ()
    if len(names) > MOST:
        fired = f"{len(names)} of {payload.rules.source} do: {', '.join(names)}"
        raise RuleError(f"rules of choice must be at most {MOST} that fire, {fired}; take autotune.choice from some")
    variants = {"": (payload, parts)}
    for count in range(1, len(names) + 1):
        for left_out in combinations(names, count):
            variant = without_rules(payload, left_out)
            variants.setdefault(" and ".join(left_out), (variant, partition_named(variant)))
    times = race(payload, [partition for _, partition in variants.values()], machine, seed, worker)
    if times[0] is None:
        return payload, parts, (f"rules of choice: all apply, what they leave could not be timed: {', '.join(names)}",)
    chosen = settle(times, floor)
    dropped, (payload, parts) = list(variants.items())[chosen]
    return payload, parts, (describe(names, dropped, times, chosen),)


def race(
    payload: Payload, variants: Sequence[Partition], machine: Machine, seed: int, worker: Bench
) -> list[Samples | None]:
    """Measure partitions of a payload, interleaved, in several processes; `None` for one that failed."""
    programs = tuple(default_candidate(parts, machine) for parts in variants)
    job = Job(payload, programs, machine, seed + 1, EFFORT)
    races = []
    for number in range(chosen_care().processes):
        if number:
            worker.renew()
        races.append([evaluation.samples for evaluation in worker.evaluate(job, MODEL_SECONDS)])
    return [joined(each) for each in zip(*races, strict=True)]


def settle(times: Sequence[Samples | None], floor: float) -> int:
    """Return the first variant that does not differ significantly from the fastest."""
    seconds_of = {i: samples.seconds for i, samples in enumerate(times) if samples is not None}
    fastest = seconds_of[min(seconds_of, key=lambda i: quiet_time(seconds_of[i]))]
    return next(i for i, seconds in seconds_of.items() if not is_different(seconds, fastest, floor=floor))


def describe(names: Sequence[str], left_out: str, times: Sequence[Samples | None], chosen: int) -> str:
    """Describe the selection in a sentence."""
    all_rules, selected = times[0], times[chosen]
    if not left_out or all_rules is None or selected is None:
        return f"rules of choice: {', '.join(names)} applied, nothing was faster by default schedules without"
    ratio = ratio_interval(all_rules.seconds, selected.seconds)
    return (
        f"rules of choice: {left_out} not applied, {ratio.estimate:.3g} x [{ratio.low:.3g}, {ratio.high:.3g}] as fast "
        "without, by default schedules"
    )
