"""Comparison of our schedules with other libraries: interleaved timing on the same inputs, with verified outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median

from autotune.compiler.codegen.openmp import threads_or_why
from autotune.core.errors import OptionError
from autotune.core.evaluator import Effort
from autotune.core.host.machine import Machine, Roofs, this_machine
from autotune.core.listener import SILENT, Listener, NoteKeeper
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.core.plugs.comparator import Comparator, RoundingComparator
from autotune.core.plugs.family import Baseline
from autotune.core.stats import ratio_interval
from autotune.core.winner_time import interference_of, winner_time
from autotune.registry import COMPARATORS, load_baseline, load_comparator, registered
from autotune.reports.compare_options import CompareOptions
from autotune.reports.comparison import Comparison, Row
from autotune.reports.comparison_run import ComparisonRun, EntryTimes
from autotune.reports.entries import (
    ON_ONE,
    Contender,
    baseline_contender,
    beside_contender,
    best_contender,
    copy_contender,
    default_contender,
    library_contender,
    on_one_thread,
    read_contender,
    weight_bytes,
)
from autotune.store.bundle import read_bundle
from autotune.tuning.stages.roofline import share_of_roof, why_unsteady
from autotune.tuning.stages.slow_baseline import BUDGET_SECONDS, time_baseline
from autotune.worker.bench.entry import Verification
from autotune.worker.isolation.environment import only_threads
from autotune.worker.isolation.limits import check_memory, whole_seconds
from autotune.worker.limits_cache import limits_of
from autotune.worker.loading.reading import partition
from autotune.worker.race import check_oracle
from autotune.worker.worker import Worker

EFFORT = Effort(samples=31, seconds=40.0, sample_seconds=0.01)
ANCHORS = ("best", "default")  # ratios are relative to the first of these that is correct


def compare(
    payload: Payload,
    bundles: Path,
    options: CompareOptions,
    listener: Listener = SILENT,
    *,
    bundle: Path | None = None,
    beside: Sequence[Payload] = (),
) -> Comparison:
    """Compare all entries for one payload.

    Args:
        payload: Payload to compute.
        bundles: Folder of bundles that is searched for the payload's newest one.
        options: Options of the comparison.
        listener: Listener of stages and notes.
        bundle: Bundle with the best schedules; `None` for the newest one of the payload.
        beside: Further payloads, each a row, with the schedules of its newest bundle or default ones.

    Raises:
        ComparatorError: A comparator is unknown.
        BundleError: The given bundle is incomplete, edited, or of another payload.
        PayloadError: The payload does not fit the machine, or its oracle is not finite or takes too long.
        OptionError: A library rounds operands, but no error is allowed.
    """
    names = comparators_for(options.error) if options.against is None else options.against
    libraries = [load_comparator(name) for name in dict.fromkeys(names)]
    check_rounding(libraries, options.error)
    payload = replace(payload, error=max(payload.error, options.error))
    baseline = load_baseline(options.pipeline) if options.pipeline is not None else None
    if bundle is not None:
        read_bundle(bundle)  # refuse it before anything slow starts
    for each in (payload, *beside):
        check_memory(each)
    keeper = NoteKeeper(listener)
    threads, why = threads_or_why(options.threads)
    machine = this_machine(threads)
    for sentence in (*payload.notes, *why):
        keeper.note(sentence)
    keeper.stage("partitioning the payload")
    parts = partition(payload)
    flops = payload.flops or sum(task.needed_flops * task.count for task in parts.tasks)
    find = partial(our_contenders, payload, parts, bundles, seed=options.seed, beside=beside)
    ours = find(bundle, machine=machine, listener=keeper)
    theirs = [library_contender(library, payload, options.seed, keeper, threads) for library in libraries]
    if threads > 1:
        alone = find(None, machine=this_machine(), listener=SILENT)  # the given bundle is for several threads
        alone += [library_contender(library, payload, options.seed, SILENT) for library in libraries]
        theirs += map(on_one_thread, alone)
    with (
        only_threads(1) as unset,
        Worker(max(whole_seconds(each.tasks) for each in (parts, *map(partition, beside))), threads=threads) as worker,
        ComparisonRun(machine, worker, keeper, thorough=options.is_thorough) as entries,
    ):
        for name, value in unset.items():
            keeper.note(f"unset while libraries run: {name}={value}")
        keeper.stage("asking the oracle")
        for each in (payload, *beside):
            check_oracle(each, options.seed, worker)
        keeper.stage("measuring roofs and noise of this machine")
        limits = limits_of(machine, worker)
        roofs, floor = limits.roofs, limits.floor
        roof = roof_contenders(payload, parts, flops, roofs, machine=machine, seed=options.seed)
        plain = baseline_contenders(
            payload, baseline, flops, machine=machine, seed=options.seed, worker=worker, listener=keeper
        )
        entries.enter([*plain, *ours, *roof, *theirs])
        keeper.stage("running all of them in turn")
        times = entries.race_all(ANCHORS, EFFORT)
    quiet = min(chain(*(each.samples.reference_seconds for each in times.values())), default=None)
    rows = tuple(
        make_row(c, entries.verifications[c.name], times.get(c.name), flops_of(c, payload, flops), machine, quiet=quiet)
        for c in entries.contenders
    )
    rows = with_efficiency(rows, threads)
    anchor = next((name for name in ANCHORS if name in times), None)
    return Comparison(
        payload=payload.name,
        machine=machine,
        roofs=roofs,
        noise_floor=floor,
        rows=rows,
        ratio_to=anchor,
        seed=options.seed,
        notes=tuple(keeper.notes),
        oracle=payload.oracle,
        unproved=payload.unproved,
        unsteady=unsteady_race(times, anchor, quiet, machine, roofs) if anchor is not None else "",
    )


def unsteady_race(
    times: Mapping[str, EntryTimes], anchor: str, quiet: float | None, machine: Machine, roofs: Roofs
) -> str:
    """Return a sentence on why the times of a comparison are unreliable; empty if they are reliable."""
    references = list(chain(*(each.samples.reference_seconds for each in times.values())))
    interference = interference_of(times[anchor].samples.seconds, references, quiet)
    return why_unsteady(None, interference, median(references) if references else None, machine, roofs.flops)


def check_rounding(libraries: Sequence[Comparator], error: float) -> None:
    """Refuse libraries that round operands if no error is allowed.

    Raises:
        OptionError: A library rounds operands, but `error` is 0.
    """
    rounding = next((each for each in libraries if isinstance(each, RoundingComparator)), None)
    if rounding is not None and not error:
        raise OptionError(
            f"error must be above 0 beside {rounding.name}, which rounds to {rounding.rounded_to}; give --error 0.01"
        )


def comparators_for(error: float) -> tuple[str, ...]:
    """Return the names of all comparators; those that round operands only if an error is allowed."""
    known = {name: load_comparator(name) for name in registered(COMPARATORS)}
    return tuple(name for name, each in known.items() if error or not isinstance(each, RoundingComparator))


def with_efficiency(rows: tuple[Row, ...], threads: int) -> tuple[Row, ...]:
    """Add the parallel efficiency to rows: the time on one thread over the number of threads times the time on all.

    Our own rows are compared with our fastest single-threaded row, since a bundle is for a fixed number of threads.
    """
    alone = {
        row.name.removesuffix(ON_ONE): row.seconds.estimate for row in rows if row.name.endswith(ON_ONE) and row.seconds
    }
    ours = min((alone[name] for name in ANCHORS if name in alone), default=None)
    known = {**alone, **({} if ours is None else dict.fromkeys(ANCHORS, ours))}
    return tuple(
        replace(row, efficiency=known[row.name] / (threads * row.seconds.estimate))
        if row.seconds is not None and row.name in known
        else row
        for row in rows
    )


def baseline_contenders(
    payload: Payload,
    baseline: Baseline | None,
    flops: float,
    *,
    machine: Machine,
    seed: int,
    worker: Worker,
    listener: Listener,
) -> list[Contender]:
    """Return the baseline's entry if there is one; a slow baseline is timed in part."""
    if baseline is None:
        return []
    listener.stage(f"timing baseline {baseline.name}, for {BUDGET_SECONDS:.0f} s at most")
    timed = time_baseline(payload, baseline, flops, machine=machine, seed=seed, worker=worker)
    for sentence in timed.notes:
        listener.note(sentence)
    return [baseline_contender(timed, payload, seed)]


def our_contenders(
    payload: Payload,
    parts: Partition,
    bundles: Path,
    bundle: Path | None,
    *,
    beside: Sequence[Payload],
    machine: Machine,
    seed: int,
    listener: Listener,
) -> list[Contender]:
    """Return the entries of our own programs except the baseline, in the order of the rows."""
    best = best_contender(payload, bundle, bundles, machine, seed=seed, listener=listener)
    others = {other.name: other for other in beside}.values()
    rows = [beside_contender(other, bundles, machine, seed=seed, listener=listener) for other in others]
    return [default_contender(payload, parts, machine, seed), *([best] if best is not None else []), *rows]


def roof_contenders(
    payload: Payload, parts: Partition, flops: float, roofs: Roofs, *, machine: Machine, seed: int
) -> list[Contender]:
    """Return the entry of a memory bandwidth bound, if memory is the bottleneck: a copy, or a read of all weights."""
    if not any(task.needed_flops for task in parts.tasks):
        return [copy_contender(payload, machine, seed)]
    calls = sum(case.weight for case in payload.cases) if len(payload.cases) > 1 else 1
    reading = calls * weight_bytes(payload) / roofs.dram_bytes
    return [read_contender(payload, machine, seed)] if reading > flops / roofs.flops else []


def flops_of(contender: Contender, payload: Payload, flops: float) -> float:
    """Return the operations of an entry's payload, which may be another one; 0 for a memory bandwidth bound."""
    if contender.entry is None or contender.entry.payload is payload:
        return flops
    return contender.entry.payload.flops


def make_row(
    contender: Contender,
    verification: Verification,
    times: EntryTimes | None,
    flops: float,
    machine: Machine,
    *,
    quiet: float | None = None,
) -> Row:
    """Create the row of an entry; `quiet` is the FMA kernel's best time beside all entries, in seconds per call."""
    samples = times.samples if times is not None else None
    anchor = times.anchor if times is not None else None
    timed = winner_time(samples.seconds, samples.reference_seconds, quiet) if samples else None
    return Row(
        name=contender.name,
        outcome=verification.status,
        version=verification.version or contender.version,
        seconds=timed.seconds.widened(contender.error) if timed else None,
        clock_seconds=timed.clock.estimate if timed else None,
        roof_fraction=share_of_roof(flops, samples, machine) if samples and flops else None,
        max_error=verification.max_error,
        ratio=ratio_interval(samples.seconds, anchor.seconds).widened(contender.error) if samples and anchor else None,
        diagnostic=verification.diagnostic,
        samples=samples,
    )
