"""Measured causes why a program is slower than a library: each suspected cause is removed and the gain is measured.

First the whole program, the library and every task alone are timed, interleaved. Then each of the slowest tasks is
timed beside variants of itself that lack one suspected cause (`suspects.py`). The share of a cause is the relative
decrease of the whole program's time without it, estimated from paired samples. Causes overlap, so shares need not add
up to one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from autotune.bundles.call import PayloadFunction, compile_candidate
from autotune.contrib.explain.scheduled import ScheduledProgram
from autotune.contrib.explain.suspects import CALL, MOVES, SENTENCES, Suspect, costly, only_moves, suspects_of
from autotune.core.candidate import Candidate
from autotune.core.care import chosen_care
from autotune.core.errors import ComparatorError
from autotune.core.evaluator import Effort
from autotune.core.host.machine import Machine
from autotune.core.host.pages import aligned_empty
from autotune.core.listener import SILENT, Listener
from autotune.core.payload import Payload
from autotune.core.stats import Interval, ratio_interval
from autotune.core.trial import Samples
from autotune.core.winner_time import interference_of
from autotune.registry import load_comparator
from autotune.reports.comparison_run import ComparisonRun, EntryTimes
from autotune.reports.entries import Contender, library_contender
from autotune.reports.scheduled import Scheduled, candidate_of
from autotune.tuning.stages.roofline import why_unsteady
from autotune.worker.bench.entry import Entry
from autotune.worker.isolation.environment import only_threads
from autotune.worker.isolation.limits import whole_seconds
from autotune.worker.race import check_oracle
from autotune.worker.worker import Worker

OURS = "ours"
EFFORT = Effort(samples=21, seconds=30.0, sample_seconds=0.003)
MOST_TASKS, MOST_SUSPECTS = 4, 32  # most tasks that are examined, and most suspects per task
SHORTEST_CALL = 1e-3  # seconds of a program from which on the call overhead is negligible
LEAST = 0.02  # smallest share of the time that is reported


@dataclass(frozen=True)
class Cause:
    """Measured cause of a slowdown.

    Attributes:
        name: Name of the cause, such as ``tail``.
        sentence: Description of the cause.
        task: Tag of the task that it affects; empty for the whole program.
        change: Knob values that remove the cause; empty if no knob does.
        share: Fraction of the whole program's time saved without it, with its 95 % interval.
    """

    name: str
    sentence: str
    task: str
    change: str
    share: Interval


@dataclass(frozen=True)
class Against:
    """Comparison of a program with a library, and the causes of the difference.

    Attributes:
        payload: Name of the payload.
        library: Name of the library.
        version: Version of the library.
        seconds: Seconds per call of our program.
        library_seconds: Seconds per call of the library.
        ratio: Ratio of our time to the library's, from paired samples.
        tasks: Share of each task in the sum of all tasks' times, by tag, each measured alone.
        causes: Measured causes, by descending share.
        unsteady: Sentence on why these times are not reliable; empty if they are.
    """

    payload: str
    library: str
    version: str
    seconds: float
    library_seconds: float
    ratio: Interval
    tasks: dict[str, float]
    causes: tuple[Cause, ...]
    unsteady: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON-compatible dict."""
        return asdict(self)


def explain_against(program: ScheduledProgram, library: str, *, seed: int = 0, listener: Listener = SILENT) -> Against:
    """Time a program beside a library, and its gain without each suspected cause.

    Args:
        program: Payload that both compute, with the schedules of our program.
        library: Name of a comparator.
        seed: Seed of the input data.
        listener: Notified of stages.

    Raises:
        ComparatorError: The library is unknown or missing, or a result differs from the oracle's.
        PayloadError: The oracle takes too long.
    """
    payload, tasks, machine = program.payload, program.tasks, program.machine
    whole = candidate_of(tasks, machine, program.text)
    seconds = whole_seconds(each.task for each in tasks)
    with only_threads(1), Worker(seconds, threads=machine.threads) as worker:
        check_oracle(payload, seed, worker)
        alone = {task.task.tag: candidate_of([task], machine) for task in tasks}
        entrants = [Contender(OURS, Entry(OURS, payload, whole, seed))]
        entrants += [library_contender(load_comparator(library), payload, seed, listener, machine.threads)]
        entrants += [task_contender(task, alone[task.task.tag], seed) for task in tasks]
        listener.stage(f"running {len(tasks)} tasks, the whole and {library} in turn")
        times, version = race(entrants, OURS, machine, worker)
        ours, theirs = times[OURS].samples, times[library].samples
        timed = [task for task in tasks if task.task.tag in times]
        each = {task.task.tag: times[task.task.tag].samples.median * task.task.count for task in timed}
        shares = {tag: seconds / sum(each.values()) for tag, seconds in each.items()}
        causes_measured = [moving(task, shares) for task in timed if len(tasks) > 1 and only_moves(task.task)]
        for task in costly(shares, timed, MOST_TASKS):
            listener.stage(f"running {task.task.tag} without one suspect at a time")
            causes_measured += causes_in(task, shares[task.task.tag], machine, worker, seed)
    if ours.median < SHORTEST_CALL:
        causes_measured.append(Cause(CALL, SENTENCES[CALL], "", "", share_of_call(payload, whole, machine)))
    causes = sorted(
        (cause for cause in causes_measured if cause.share.low > LEAST), key=lambda cause: -cause.share.estimate
    )
    ratio = ratio_interval(ours.seconds, theirs.seconds)
    unsteady = unsteady_between(ours, times.values(), machine)
    return Against(payload.name, library, version, ours.median, theirs.median, ratio, shares, tuple(causes), unsteady)


def unsteady_between(ours: Samples, times: Iterable[EntryTimes], machine: Machine) -> str:
    """Return a sentence on why the times of a race are not reliable; empty if they are."""
    beside = [seconds for each in times for seconds in each.samples.reference_seconds]
    return why_unsteady(None, interference_of(ours.seconds, beside), None, machine, 0.0)


def task_contender(task: Scheduled, candidate: Candidate, seed: int) -> Contender:
    """Return the contender for a task compiled alone."""
    return Contender(task.task.tag, Entry(task.task.tag, task.task.payload, candidate, seed))


def race(
    entrants: Sequence[Contender], anchor: str, machine: Machine, worker: Worker
) -> tuple[dict[str, EntryTimes], str]:
    """Time all correct contenders, interleaved.

    Returns:
        Times by name, and the version of the last library.

    Raises:
        ComparatorError: The anchor or a library computes a wrong result.
    """
    with ComparisonRun(machine, worker, SILENT) as run:
        run.enter(entrants)
        times = run.race_all((anchor,), chosen_care().limit(EFFORT))
        version = ""
        for entrant in entrants:
            verification = run.verifications.get(entrant.name)
            is_library = entrant.entry is None or not isinstance(entrant.entry.contender, Candidate)
            if entrant.name not in times and (is_library or entrant.name == anchor):
                why = f"{verification.status}, {verification.diagnostic}" if verification is not None else "not run"
                raise ComparatorError(f"{entrant.name} must compute what the oracle says; {why}")
            version = verification.version if is_library and verification is not None else version
    return times, version


def causes_in(task: Scheduled, share: float, machine: Machine, worker: Worker, seed: int) -> list[Cause]:
    """Measure the causes in one task; for each cause, keep the suspect whose removal gains most.

    Args:
        task: The task with its schedule.
        share: Share of the task in the time of the whole program.
        machine: The host.
        worker: Process that runs our programs.
        seed: Seed of the input data.
    """
    suspects = {f"without {n}": suspect for n, suspect in enumerate(suspects_of(task, machine)) if n < MOST_SUSPECTS}
    programs = {name: candidate_of([suspect.without], machine) for name, suspect in suspects.items()}
    tag, first = task.task.tag, candidate_of([task], machine)
    different = {name: program for name, program in programs.items() if program != first}
    entrants = [task_contender(task, first, seed)]
    entrants += [Contender(name, Entry(name, task.task.payload, program, seed)) for name, program in different.items()]
    times, _ = race(entrants, tag, machine, worker)
    best: dict[str, Cause] = {}
    for name in different:
        if name in times:
            cause = cause_of_suspect(suspects[name], times[name].samples, times[tag].samples, share)
            if cause.name not in best or cause.share.estimate > best[cause.name].share.estimate:
                best[cause.name] = cause
    return list(best.values())


def cause_of_suspect(suspect: Suspect, without: Samples, as_it_is: Samples, share: float) -> Cause:
    """Return the cause of a suspect, with the share of the whole program's time that its removal saves."""
    left = ratio_interval(without.seconds, as_it_is.seconds)
    gone = less_than_one(left).scaled(share)
    return Cause(suspect.cause, SENTENCES[suspect.cause], suspect.without.task.tag, suspect.change, gone)


def moving(task: Scheduled, shares: dict[str, float]) -> Cause:
    """Return a task that only moves elements as a cause, with the whole share of the task."""
    share = shares[task.task.tag]
    return Cause(MOVES, SENTENCES[MOVES], task.task.tag, "", Interval(share, share, share))


def share_of_call(payload: Payload, candidate: Candidate, machine: Machine) -> Interval:
    """Measure the overhead of a call from Python as a share of its time, with paired samples in this process."""
    function = PayloadFunction(payload, candidate, machine)
    program = compile_candidate(payload, candidate)
    values = payload.make_inputs(0)
    arrays = {a.name: aligned_empty(a, machine.pages) for a in payload.arguments}
    for name, value in values.items():
        arrays[name][...] = value
    panels = [weight.pack(arrays[payload.arguments[weight.source].name]) for weight in program.weights]
    bound = program.bind([*arrays.values(), *panels])
    inputs = [values[a.name] for a in payload.arguments if a.role != "output"]

    def call(calls: int) -> None:
        for _ in range(calls):
            function(*inputs)

    function(*inputs)
    effort = chosen_care().limit(EFFORT)
    calls = max(1, round(effort.sample_seconds / seconds_of(call, 1)))
    pairs = [(seconds_of(call, calls), seconds_of(bound.run, calls)) for _ in range(effort.samples)]
    return less_than_one(ratio_interval([alone for _, alone in pairs], [called for called, _ in pairs]))


def seconds_of(run: Callable[[int], None], calls: int) -> float:
    """Return the mean seconds per call over a sequence of calls."""
    begun = perf_counter()
    run(calls)
    return (perf_counter() - begun) / calls


def less_than_one(ratio: Interval) -> Interval:
    """Return one minus a ratio, as an interval."""
    return Interval(1 - ratio.high, 1 - ratio.estimate, 1 - ratio.low)
