"""A contest: our programs and other libraries enter one by one, then run together. In the isolated process only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from autotune.compiler.module import first_lines
from autotune.core.candidate import Candidate
from autotune.core.comparator import Comparator, Prepared
from autotune.core.errors import ComparatorError
from autotune.core.evaluator import Effort
from autotune.core.machine import Machine, this_machine
from autotune.core.payload import Case, Payload
from autotune.core.stopwatch import Stopwatch
from autotune.core.trial import Outcome, Samples
from autotune.worker.evaluate import build_and_verify, multiplied
from autotune.worker.measure import Run, measure_interleaved
from autotune.worker.roofs import reference_run
from autotune.worker.testbench import Testbench, open_testbench
from autotune.worker.verify import Verdict, verify

# Besides what may become of a candidate: a library that is not installed, one that says it cannot, and one that raises.
EntryStatus = Outcome | Literal["missing", "unsupported", "failed"]


@dataclass(frozen=True)
class Entry:
    """Entrant of a race: a payload, and the program or library that computes it.

    Attributes:
        name: Name of the row.
        payload: Payload that is computed.
        contender: One of our programs, or a library.
        seed: Seed of the input data.
    """

    name: str
    payload: Payload
    contender: Candidate | Comparator
    seed: int = 0


@dataclass(frozen=True)
class Standing:
    """Result of verifying an entry.

    Attributes:
        status: ``ok`` if it computes what the oracle says, and may race.
        max_error: Largest absolute difference to the oracle.
        diagnostic: What went wrong, if anything did.
        version: Version that a library reports.
        seconds: Seconds of the call that was verified, roughly.
    """

    status: EntryStatus
    max_error: float | None = None
    diagnostic: str = ""
    version: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Race:
    """Entries to be timed together, interleaved with each other and with the reference kernel."""

    entries: tuple[Entry, ...]
    machine: Machine
    effort: Effort


_entered: dict[tuple[str, str, tuple[Case, ...]], tuple[Standing, Run | None]] = {}


def enter(entry: Entry) -> Standing:
    """Compile or prepare an entry, call it once and verify what it gives; the process remembers it for the race."""
    return admit(entry)[0]


def race(job: Race) -> list[Samples]:
    """Samples of every entry; an entry that an earlier process prepared is prepared again.

    Raises:
        ComparatorError: An entry was right before, and is not now.
    """
    runs = []
    for entry in job.entries:
        standing, run = admit(entry)
        if run is None:
            raise ComparatorError(f"{entry.name} must be right every time, now it is {standing.status}")
        runs.append(run)
    *mine, beside = measure_interleaved([*runs, reference_run(job.machine)], job.effort)
    mine = [multiplied(samples, part_of(entry)) for samples, entry in zip(mine, job.entries, strict=True)]
    return [replace(samples, reference_seconds=beside.seconds) for samples in mine]


def part_of(entry: Entry) -> int:
    """One in so many iterations of an entry is run."""
    return entry.contender.part if isinstance(entry.contender, Candidate) else 1


def admit(entry: Entry) -> tuple[Standing, Run | None]:
    """An entry's standing, and how to run it if it is right; from memory if it is there."""
    key = (entry.name, entry.payload.sha256, entry.payload.cases)
    if key not in _entered:
        bench = open_testbench(entry.payload, entry.seed, this_machine().pages)
        one = entry.contender
        if isinstance(one, Candidate):
            _entered[key] = admit_candidate(entry, one, bench)
        else:
            _entered[key] = admit_comparator(one, bench)
    return _entered[key]


def admit_candidate(entry: Entry, candidate: Candidate, bench: Testbench) -> tuple[Standing, Run | None]:
    """One of our programs."""
    bound, found = build_and_verify(entry.payload, candidate, bench)
    seconds = found.phases.get("verify", 0.0)
    standing = Standing(found.outcome, found.max_error, found.diagnostic, seconds=seconds)
    return standing, bench.runs(bound) if bound is not None else None


def admit_comparator(library: Comparator, bench: Testbench) -> tuple[Standing, Run | None]:
    """A library. Whatever it raises is its standing."""
    version, watch = "", Stopwatch()
    try:
        version = library.version()
        ready = [prepare_at(case, library, bench) for case in bench.cases]
        version = ", ".join(dict.fromkeys(part for part in (version, *(one.how for one in ready)) if part))
        with watch.phase("verify"):
            verdict = check(ready, bench)
    except ComparatorError as error:
        return Standing("unsupported", diagnostic=str(error), version=version), None
    except MemoryError:
        raise  # the worker knows what to make of it
    except Exception as error:  # somebody else's code
        return Standing("failed", diagnostic=first_lines(f"{type(error).__name__}: {error}"), version=version), None
    standing = Standing(verdict.outcome, verdict.max_error, verdict.diagnostic, version, watch.phases["verify"])
    return standing, run_all(ready, bench.cases) if verdict.outcome == "ok" else None


def prepare_at(case: Case, library: Comparator, bench: Testbench) -> Prepared:
    """A library at one case, which may be a constant to it; inputs that tell cases apart are copies."""
    bench.restart(case)
    inputs = bench.inputs
    inputs |= {name: inputs[name].copy() for name, _ in case.values}
    return library.prepare(replace(bench.payload, cases=(case,)), inputs)


def check(ready: Sequence[Prepared], bench: Testbench) -> Verdict:
    """Call a library once a case and compare the outputs it gives to the oracle's; its states are its own affair."""
    payload, worst = bench.payload, 0.0
    for one, expected in zip(ready, bench.expected, strict=True):
        wanted = [array for a, array in zip(payload.written, expected, strict=True) if a.role == "output"]
        verdict = verify(payload, one.outputs(one.call()), wanted, payload.outputs)
        if verdict.outcome != "ok":
            return verdict
        worst = max(worst, verdict.max_error)
    return Verdict("ok", worst)


def run_all(ready: Sequence[Prepared], cases: Sequence[Case]) -> Run:
    """How a library is timed: as `Testbench.runs` times a program."""
    if len(ready) == 1:
        return ready[0].run

    def run(calls: int) -> None:
        for one, case in zip(ready, cases, strict=True):
            one.run(calls * case.weight)

    return run
