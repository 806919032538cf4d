"""Kernel candidates in a store: their results are recorded, for resuming a search and for `inspect`.

They are studies in the same files and databases as measured trials, one for each payload, task and device; none records
a time, so that commands that read times skip them.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from autotune.compiler.tasks.payload_folder import first_fault
from autotune.contrib.gpu.files import KERNELS
from autotune.core.errors import StoreError
from autotune.core.space import Space
from autotune.core.trial import Outcome
from autotune.store.header import WAY_OUT
from autotune.store.log import Log
from autotune.store.plain_errors import plain_errors
from autotune.store.records import Amount, Count, KnobName, KnobValue, Sha256, Share, Text
from autotune.store.store import Store
from autotune.store.sweep import TRIAL, frozen


@dataclass(frozen=True)
class GpuRecord:
    """The recorded result of a candidate.

    Attributes:
        key: Identity, from `kernel_key`.
        config: Value of every knob.
        outcome: Outcome of the candidate.
        diagnostic: Description of the failure; empty if there is none.
        max_error: Largest difference to the oracle; `None` if results were not compared, or if it is not finite.
        cycles: Estimated cycles; `None` if the candidate failed.
        share: Estimated utilization of the device's multiply-add throughput.
        bound: Limiting resource by the model.
        registers: Registers of a thread by ptxas; `None` if unknown.
        verified: Whether its results were compared with the oracle.
    """

    key: Sha256
    config: dict[KnobName, KnobValue]
    outcome: Outcome
    diagnostic: Text = ""
    max_error: Amount | None = None
    cycles: Amount | None = None
    share: Share = 0.0
    bound: Text = ""
    registers: Count | None = None
    verified: bool = True


@dataclass(frozen=True)
class SweepFacts:
    """Identification of a study of kernels.

    Attributes:
        payload: Name of the payload.
        task: Human-readable name of the task.
        device: Name of the device.
        family: Name of the schedule family.
        verified: Whether results were compared with the oracle.
        versions: Versions of the model, compiler, driver and assembler.
        default: The default config.
    """

    payload: Text
    task: Text
    device: Text
    family: Text
    verified: bool
    versions: dict[Text, Text]
    default: dict[KnobName, KnobValue] = field(default_factory=dict)


RECORD, FACTS = TypeAdapter(GpuRecord), TypeAdapter(SweepFacts)


def kernel_key(text: str, script: str, facts: SweepFacts, seed: int) -> str:
    """Return the identity of a candidate: a SHA-256 of everything that determines the kernel and its verification.

    Args:
        text: The task as MLIR.
        script: The transform script.
        facts: Device, versions and whether results are compared.
        seed: Seed of the inputs.
    """
    digest = hashlib.sha256()
    versions = json.dumps(facts.versions, sort_keys=True)
    for part in (text, script, facts.device, versions, str(facts.verified), str(seed)):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


class KernelSweep:
    """The recorded kernels of a task for a device.

    Attributes:
        facts: Identification of the study.
        records: Latest record of every key.
    """

    def __init__(self, log: Log, facts: SweepFacts, where: str) -> None:
        self.facts, self.records, self.where = facts, dict[str, GpuRecord](), where
        self._log = log
        self.refresh()

    def refresh(self) -> None:
        """Read the records that this or another process has added.

        Raises:
            StoreError: A record is malformed.
        """
        with plain_errors(self.where):
            fresh = self._log.news()
        for entry in fresh:
            record = checked(RECORD, entry.value, f"{self.where}: {self._log.name} {entry.number}")
            self.records[record.key] = record

    def add(self, record: GpuRecord, space: Space) -> None:
        """Record a candidate, atomically.

        Args:
            record: Result of the candidate.
            space: Search space of its config.

        Raises:
            StoreError: The write fails.
        """
        made = frozen(record.cycles, record.config, space, asdict(record))
        with plain_errors(self.where):
            self._log.add(made, lambda fresh: any(each.value and each.value.get("key") == record.key for each in fresh))
        self.refresh()

    @property
    def best(self) -> GpuRecord | None:
        """Correct candidate with the fewest estimated cycles; `None` if there is none."""
        correct = [record for record in self.records.values() if record.cycles is not None]
        return min(correct, key=lambda record: record.cycles or 0.0, default=None)

    @property
    def default(self) -> GpuRecord | None:
        """Record of the default config; `None` if it is missing."""
        return next((record for record in self.records.values() if record.config == self.facts.default), None)


def open_sweep(store: Store, facts: SweepFacts, text: str) -> KernelSweep:
    """Open the study of a task's kernels, or create it.

    Args:
        store: Store of the study.
        facts: Identification of the study.
        text: The task as MLIR.

    Raises:
        StoreError: A record is malformed, or the write fails.
    """
    identity = hashlib.sha256(f"{text}\0{json.dumps(asdict(facts), sort_keys=True)}".encode()).hexdigest()[:12]
    with plain_errors(store.where):
        log = store.log(f"{KERNELS} of {facts.payload}/{facts.task}/{identity}", TRIAL)
        if KERNELS not in log.about():
            log.tell(KERNELS, asdict(facts))
        return KernelSweep(log, facts, store.where)


def kernel_sweeps(store: Store) -> Iterator[KernelSweep]:
    """Yield the studies of kernels in a store, oldest first.

    Raises:
        StoreError: A study is malformed.
    """
    with plain_errors(store.where):
        studies = {each.study_name: each.user_attrs for each in store.storage.get_all_studies()}
    for name, about in studies.items():
        if KERNELS in about:
            facts = checked(FACTS, about[KERNELS], f"{store.where}: {name}")
            yield KernelSweep(store.log(name, TRIAL), facts, store.where)


def checked(adapter: TypeAdapter[Any], recorded: object, where: str) -> Any:  # noqa: ANN401 - what the adapter is of
    """Validate a stored value.

    Raises:
        StoreError: The value is malformed.
    """
    try:
        return adapter.validate_python(recorded)
    except ValidationError as error:
        message = f"kernels of a store must be whole; {where} is not, {first_fault(error)}; {WAY_OUT}"
        raise StoreError(message) from error


def finite(number: float) -> float | None:
    """Return a finite number unchanged; `None` for infinity and NaN, which JSON lacks."""
    return number if math.isfinite(number) else None


def outcomes_of(records: Sequence[GpuRecord]) -> Mapping[str, int]:
    """Count candidates by outcome."""
    return {outcome: sum(each.outcome == outcome for each in records) for outcome in {r.outcome: 0 for r in records}}
