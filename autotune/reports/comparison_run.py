"""Comparison run: entries are verified in their processes, then timed; only the fastest variant of a library is."""

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

SLOW = 3.0  # seconds per call; slower entries run in rounds of their own, so that the others get enough samples
ENTRY_SECONDS = 900.0  # the baseline of a large model takes minutes, and so do other compilers
TRIAL = Effort(samples=7, seconds=2.0, sample_seconds=3e-3)  # for choosing between two variants of a library


@dataclass(frozen=True)
class EntryTimes:
    """Samples of an entry, and of the row that its ratio is relative to, taken in the same rounds."""

    samples: Samples
    anchor: Samples | None


@dataclass(frozen=True)
class VerifiedEntry:
    """A variant of a library in its process, and its verification."""

    way: str
    process: EntryProcess
    verification: Verification


class ComparisonRun(Closing):
    """Processes of all entries; use as a context manager.

    Attributes:
        contenders: Rows in order: the given ones, and library variants that failed.
        verifications: Verification of each row, by name.
    """

    def __init__(self, machine: Machine, ours: Worker, listener: Listener, *, thorough: bool = False) -> None:
        """Start without entries; if `thorough`, library variants that take minutes to prepare are included."""
        self._thorough, self._progress = thorough, ""
        self.contenders: list[Contender] = []
        self.verifications: dict[str, Verification] = {}
        self._machine, self._ours, self._listener = machine, ours, listener
        self._racing: dict[str, EntryProcess] = {}
        self._libraries: list[Worker] = []

    def close(self) -> None:
        """End the processes of the libraries; the worker of our programs belongs to the caller."""
        for worker in self._libraries:
            worker.close()

    def enter(self, contenders: Sequence[Contender]) -> None:
        """Prepare and verify entries; missing libraries become rows without a time."""
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
        """Report which entry is being prepared."""
        self._listener.stage(f"preparing and verifying {name}, {self._progress}")

    def _note(self, contender: Contender, verification: Verification, process: EntryProcess | None = None) -> None:
        """Add a row and report it; it will be timed if it was verified."""
        is_right = verification.status == "ok"
        self._listener.interim(f"{contender.name}: {'verified' if is_right else verification.status}")
        self.contenders.append(contender)
        self.verifications[contender.name] = verification
        if process is not None and is_right:
            self._racing[contender.name] = process

    def _enter_library(self, contender: Contender, entry: Entry, comparator: Comparator) -> None:
        """Try all variants of a library: the fastest correct one becomes its row; failed ones get their own rows."""
        failed: dict[str, Verification] = {}
        best, variants = None, ways_of(comparator, thorough=self._thorough)
        for variant in variants:
            name = row_name(contender.name, variant.name)
            self._tell(name)
            candidate = self._prepare(replace(entry, name=name, contender=variant.comparator), variant.name)
            if candidate.verification.status == "ok":
                best = candidate if best is None else self._faster(best, candidate, failed)
            else:
                failed[variant.name] = candidate.verification
        right = [variant.name for variant in variants if variant.name not in failed]
        if best is not None:
            fastest = f" (fastest of {', '.join(right)})" if len(right) > 1 else ""
            self._note(contender, replace(best.verification, version=best.verification.version + fastest), best.process)
        elif len({each.diagnostic for each in failed.values()}) == 1:  # the failure does not depend on the variant
            self._note(contender, failed.popitem()[1])
            return
        for variant_name, verification in failed.items():
            self._note(replace(contender, name=row_name(contender.name, variant_name)), verification)

    def _prepare(self, entry: Entry, way: str) -> VerifiedEntry:
        """Verify a variant of a library in a new process, which ends if the variant fails."""
        with only_threads(entry.threads):
            worker = Worker(ENTRY_SECONDS, library=True, threads=entry.threads)
        self._libraries.append(worker)
        process = library(entry, worker, self._ours)
        variant = VerifiedEntry(way, process, process.enter())
        if variant.verification.status != "ok":
            self._end(variant)
        return variant

    def _faster(
        self, one: VerifiedEntry, other: VerifiedEntry, failed: dict[str, Verification]
    ) -> VerifiedEntry | None:
        """Return the faster of two variants and end the other's process; record failures in `failed`.

        Returns:
            Faster variant; `None` if both fail.
        """
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
        """End the process of a variant."""
        self._libraries.remove(entry.process.worker)
        entry.process.worker.close()

    def race_all(self, anchors: Sequence[str], effort: Effort) -> dict[str, EntryTimes]:
        """Time all verified entries; return their samples by row. An entry that fails gets another status.

        Args:
            anchors: Rows that ratios may be relative to; the first correct one takes part in all rounds.
            effort: Effort of each race.
        """
        anchor = next((name for name in anchors if name in self._racing), None)
        times: dict[str, EntryTimes] = {}
        for names in split_rounds(list(self._racing), anchor, self.verifications):
            runners = {name: self._racing[name] for name in names}
            finish = race(list(runners.values()), self._ours, self._machine, effort)
            anchor_samples = finish.samples.get(runners[anchor].name) if anchor is not None else None
            for name in names:
                if name in times:
                    continue
                if (fallen := finish.fallen.get(runners[name].name)) is not None:
                    self.verifications[name] = replace(fallen, version=self.verifications[name].version)
                else:
                    times[name] = EntryTimes(finish.samples[runners[name].name], anchor_samples)
        return times


def split_rounds(right: Sequence[str], anchor: str | None, verifications: dict[str, Verification]) -> list[list[str]]:
    """Return the names of entries to be timed together: fast ones, then slow ones; the anchor takes part in both."""
    slow = {name for name in right if verifications[name].seconds > SLOW}
    if anchor in slow or not slow:
        return [list(right)] if right else []
    quick = [name for name in right if name not in slow]
    anchors = [anchor] if anchor is not None else []
    return [names for names in (quick, [*anchors, *(name for name in right if name in slow)]) if names]


def row_name(library_name: str, way: str) -> str:
    """Return the name of the row of a library's variant."""
    return f"{library_name} ({way})" if way else library_name


def ways_of(comparator: Comparator, *, thorough: bool = True) -> tuple[LibraryVariant, ...]:
    """Return the variants of a library; a single unnamed one if it has no choice.

    Args:
        comparator: The library.
        thorough: Whether variants that take minutes to prepare are included.
    """
    variants = comparator.variants() if isinstance(comparator, Variants) else (LibraryVariant("", comparator),)
    return tuple(variant for variant in variants if thorough or not variant.is_slow)
