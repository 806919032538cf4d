"""Kernels in a store: what became of each candidate, so that a search goes on where it was, and `inspect` can tell.

They are studies of the same files and databases as measured trials, a study for each payload, task and device; none has
a time, so that the verbs that read times pass them by.
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
    """What became of a candidate.

    Attributes:
        key: Identity, from `kernel_key`.
        config: Value of every knob.
        outcome: What became of it.
        diagnostic: What went wrong.
        max_error: Largest difference to the oracle; `None` where nothing was compared, or it is not finite.
        cycles: What the model says; `None` where it is not right.
        share: Share of the device's multiply-adds in those cycles.
        bound: What bounds them.
        registers: Registers of a thread by ptxas; `None` where it says nothing.
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
    """What the kernels of a study are of.

    Attributes:
        payload: Name of the payload.
        task: Name of the task, for people.
        device: Name of the device.
        family: Name of the family that wrote the scripts.
        verified: Whether results were compared with the oracle.
        versions: Versions of what made and judged them.
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
    """Identity of a candidate: a sha256 of all that decides what is made and compared.

    Args:
        text: The task as MLIR.
        script: The transform script.
        facts: Device, versions and what is compared.
        seed: Seed of its inputs.
    """
    digest = hashlib.sha256()
    versions = json.dumps(facts.versions, sort_keys=True)
    for part in (text, script, facts.device, versions, str(facts.verified), str(seed)):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


class KernelSweep:
    """The kernels of a task for a device.

    Attributes:
        facts: What they are of.
        records: The latest record of every key.
    """

    def __init__(self, log: Log, facts: SweepFacts, where: str) -> None:
        self.facts, self.records, self.where = facts, dict[str, GpuRecord](), where
        self._log = log
        self.refresh()

    def refresh(self) -> None:
        """Read what was recorded meanwhile, by whomever.

        Raises:
            StoreError: A record is none.
        """
        with plain_errors(self.where):
            fresh = self._log.news()
        for entry in fresh:
            record = checked(RECORD, entry.value, f"{self.where}: {self._log.name} {entry.number}")
            self.records[record.key] = record

    def add(self, record: GpuRecord, space: Space) -> None:
        """Record a candidate, in one write.

        Args:
            record: What became of it.
            space: Space that its config comes from.

        Raises:
            StoreError: The write is refused.
        """
        made = frozen(record.cycles, record.config, space, asdict(record))
        with plain_errors(self.where):
            self._log.add(made, lambda fresh: any(each.value and each.value.get("key") == record.key for each in fresh))
        self.refresh()

    @property
    def best(self) -> GpuRecord | None:
        """The right one that the model likes best; `None` where none is right."""
        right = [record for record in self.records.values() if record.cycles is not None]
        return min(right, key=lambda record: record.cycles or 0.0, default=None)

    @property
    def default(self) -> GpuRecord | None:
        """The record of the default config; `None` where it is not there."""
        return next((record for record in self.records.values() if record.config == self.facts.default), None)


def open_sweep(store: Store, facts: SweepFacts, text: str) -> KernelSweep:
    """Open the study of a task's kernels, or create it.

    Args:
        store: The store.
        facts: What they are of.
        text: The task as MLIR.

    Raises:
        StoreError: A record of it is none, or the write is refused.
    """
    identity = hashlib.sha256(f"{text}\0{json.dumps(asdict(facts), sort_keys=True)}".encode()).hexdigest()[:12]
    with plain_errors(store.where):
        log = store.log(f"{KERNELS} of {facts.payload}/{facts.task}/{identity}", TRIAL)
        if KERNELS not in log.about():
            log.tell(KERNELS, asdict(facts))
        return KernelSweep(log, facts, store.where)


def kernel_sweeps(store: Store) -> Iterator[KernelSweep]:
    """All studies of kernels in a store, oldest first.

    Raises:
        StoreError: One of them is none.
    """
    with plain_errors(store.where):
        studies = {each.study_name: each.user_attrs for each in store.storage.get_all_studies()}
    for name, about in studies.items():
        if KERNELS in about:
            facts = checked(FACTS, about[KERNELS], f"{store.where}: {name}")
            yield KernelSweep(store.log(name, TRIAL), facts, store.where)


def checked(adapter: TypeAdapter[Any], recorded: object, where: str) -> Any:  # noqa: ANN401 - what the adapter is of
    """What a store holds, once it is checked.

    Raises:
        StoreError: The record is not as it was written.
    """
    try:
        return adapter.validate_python(recorded)
    except ValidationError as error:
        message = f"kernels of a store must be whole; {where} is not, {first_fault(error)}; {WAY_OUT}"
        raise StoreError(message) from error


def finite(number: float) -> float | None:
    """A number that JSON has; `None` for others."""
    return number if math.isfinite(number) else None


def outcomes_of(records: Sequence[GpuRecord]) -> Mapping[str, int]:
    """Number of candidates by outcome."""
    return {outcome: sum(each.outcome == outcome for each in records) for outcome in {r.outcome: 0 for r in records}}
