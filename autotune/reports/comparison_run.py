"""A comparison run: each entry has a process, verified ones are timed; of several ways of a library the fastest is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from autotune.core.candidate import Candidate
from autotune.core.evaluator import Effort
from autotune.core.host.closing import Closing
from autotune.core.host.machine import Machine
from autotune.core.listener import Listener
from autotune.core.plugs.comparator import Comparator, LibraryVariant, Variants
from autotune.core.trial import Samples
from autotune.reports.entries import Contender
from autotune.worker.bench.entry import Entry, Verification
from autotune.worker.isolation.environment import only_threads
from autotune.worker.race import EntryProcess, library, program, race
from autotune.worker.worker import Worker

SLOW = 3.0  # seconds a call; what takes longer runs afterwards, so that the others get their samples
ENTRY_SECONDS = 900.0  # the baseline of a large model takes minutes, and so do compilers of others
TRIAL = Effort(samples=7, seconds=2.0, sample_seconds=3e-3)  # of two ways of a library


@dataclass(frozen=True)
class EntryTimes:
    """Samples of an entry, and those of the row it is measured against, taken in the same rounds."""

    samples: Samples
    anchor: Samples | None


@dataclass(frozen=True)
class VerifiedEntry:
    """A way of a library that is right, in its process."""

    way: str
    process: EntryProcess
    verification: Verification


class ComparisonRun(Closing):
    """Processes of all entries; use as a context manager.

    Attributes:
        contenders: The rows, in order: those that were given, and ways of libraries that failed.
        verifications: The outcome of each, by name.
    """

    def __init__(self, machine: Machine, ours: Worker, listener: Listener, *, thorough: bool = False) -> None:
        """Begin without entries; where it is thorough, libraries run in the ways that take minutes to prepare, too."""
        self._thorough, self._progress = thorough, ""
        self.contenders: list[Contender] = []
        self.verifications: dict[str, Verification] = {}
        self._machine, self._ours, self._listener = machine, ours, listener
        self._racing: dict[str, EntryProcess] = {}
        self._libraries: list[Worker] = []

    def close(self) -> None:
        """End the processes of the libraries; ours was lent."""
        for worker in self._libraries:
            worker.close()

    def enter(self, contenders: Sequence[Contender]) -> None:
        """Let all that are there enter."""
        for number, contender in enumerate(contenders, 1):
            entry = contender.entry
            self._progress = f"{number} of {len(contenders)}"
            if entry is None:
                self._note(contender, Verification("missing", diagnostic=contender.diagnostic))
            elif isinstance(entry.contender, Candidate):
                self._tell(contender.name)
                process = program(entry, self._ours)
                self._note(contender, process.enter(), process)
            else:
                self._enter_library(contender, entry, entry.contender)

    def _tell(self, name: str) -> None:
        """Report which entry is prepared now."""
        self._listener.stage(f"preparing and verifying {name}, {self._progress}")

    def _note(self, contender: Contender, verification: Verification, process: EntryProcess | None = None) -> None:
        """Make a row, and report it; it is timed if it is verified."""
        is_right = verification.status == "ok"
        self._listener.interim(f"{contender.name}: {'verified' if is_right else verification.status}")
        self.contenders.append(contender)
        self.verifications[contender.name] = verification
        if process is not None and is_right:
            self._racing[contender.name] = process

    def _enter_library(self, contender: Contender, entry: Entry, comparator: Comparator) -> None:
        """Try every way of a library: the fastest that is right is its row, those that fail have rows of their own."""
        failed: dict[str, Verification] = {}
        best, ways = None, ways_of(comparator, thorough=self._thorough)
        for variant in ways:
            name = row_name(contender.name, variant.name)
            self._tell(name)
            found = self._prepare(replace(entry, name=name, contender=variant.comparator), variant.name)
            if found.verification.status == "ok":
                best = found if best is None else self._faster(best, found, failed)
            else:
                failed[variant.name] = found.verification
        right = [variant.name for variant in ways if variant.name not in failed]
        if best is not None:
            fastest = f" (fastest of {', '.join(right)})" if len(right) > 1 else ""
            self._note(contender, replace(best.verification, version=best.verification.version + fastest), best.process)
        elif len({each.diagnostic for each in failed.values()}) == 1:  # it is not for the way it was run
            self._note(contender, failed.popitem()[1])
            return
        for way, verification in failed.items():
            self._note(replace(contender, name=row_name(contender.name, way)), verification)

    def _prepare(self, entry: Entry, way: str) -> VerifiedEntry:
        """A way of a library in a process of its own, which ends where it is not right."""
        with only_threads(entry.threads):
            worker = Worker(ENTRY_SECONDS, library=True, threads=entry.threads)
        self._libraries.append(worker)
        process = library(entry, worker, self._ours)
        found = VerifiedEntry(way, process, process.enter())
        if found.verification.status != "ok":
            self._end(found)
        return found

    def _faster(
        self, one: VerifiedEntry, other: VerifiedEntry, failed: dict[str, Verification]
    ) -> VerifiedEntry | None:
        """The faster of two, `None` if both fall; the process of the other ends. Who falls is noted in `failed`."""
        both = (one, other)
        finish = race([each.process for each in both], self._ours, self._machine, TRIAL)
        failed |= {
            each.way: finish.fallen[each.process.name]
            for each in both
            if each.way not in failed and each.process.name in finish.fallen
        }
        seconds = {name: min(samples.seconds) for name, samples in finish.samples.items()}
        best = min(both, key=lambda each: seconds.get(each.process.name, inf))
        for each in both:
            if each is not best or not seconds:
                self._end(each)
        return best if seconds else None

    def _end(self, entry: VerifiedEntry) -> None:
        """End a process that is of no more use."""
        self._libraries.remove(entry.process.worker)
        entry.process.worker.close()

    def race_all(self, anchors: Sequence[str], effort: Effort) -> dict[str, EntryTimes]:
        """Times of all verified entries, by row. One that fails gets another status.

        Args:
            anchors: Rows that ratios may be to; the first of them that is right takes part in every round.
            effort: How long each round is measured.
        """
        anchor = next((name for name in anchors if name in self._racing), None)
        times: dict[str, EntryTimes] = {}
        for names in split_rounds(list(self._racing), anchor, self.verifications):
            runners = {name: self._racing[name] for name in names}
            finish = race(list(runners.values()), self._ours, self._machine, effort)
            beside = finish.samples.get(runners[anchor].name) if anchor is not None else None
            for name in names:
                if name in times:
                    continue
                if (fallen := finish.fallen.get(runners[name].name)) is not None:
                    self.verifications[name] = replace(fallen, version=self.verifications[name].version)
                else:
                    times[name] = EntryTimes(finish.samples[runners[name].name], beside)
        return times


def split_rounds(right: Sequence[str], anchor: str | None, verifications: dict[str, Verification]) -> list[list[str]]:
    """Who runs together: the quick, then the slow; the row that ratios are to runs with both."""
    slow = {name for name in right if verifications[name].seconds > SLOW}
    if anchor in slow or not slow:
        return [list(right)] if right else []
    quick = [name for name in right if name not in slow]
    beside = [anchor] if anchor is not None else []
    return [names for names in (quick, [*beside, *(name for name in right if name in slow)]) if names]


def row_name(library_name: str, way: str) -> str:
    """How the row of a library, run in one of its ways, is called."""
    return f"{library_name} ({way})" if way else library_name


def ways_of(comparator: Comparator, *, thorough: bool = True) -> tuple[LibraryVariant, ...]:
    """The ways of a library; one without a name, where it has no choice.

    Args:
        comparator: The library.
        thorough: Whether ways that take minutes to prepare are among them.
    """
    ways = comparator.variants() if isinstance(comparator, Variants) else (LibraryVariant("", comparator),)
    return tuple(way for way in ways if thorough or not way.is_slow)
