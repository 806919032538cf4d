"""Folders that `tune --target` writes: read again, made again, verified again, and handed to other people's hosts.

A payload of one task has its kernel in its folder, one of several a folder a task, and `PROGRAM`, its launches.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from autotune.compiler.tasks.payload_folder import first_fault
from autotune.contrib.gpu.device import Device, find_device
from autotune.contrib.gpu.examine import KernelCall, check_payload
from autotune.contrib.gpu.files import BINARY, CHOSEN, PAYLOAD, PROGRAM, PTX, SCHEDULE, task_folder
from autotune.contrib.gpu.records import kernel_key
from autotune.contrib.gpu.tune import Examiner, KernelWorkshop, TaskKernel, only_task, units_of
from autotune.core.errors import BundleError
from autotune.core.payload import Payload
from autotune.registry import is_registered
from autotune.store.bundle import digest
from autotune.store.records import ArgumentRecord
from autotune.worker.loading.resolve import known_payload

MOST_BYTES = 64 << 20  # of a file
MORE_CYCLES = 1.001  # times the recorded ones: the model is arithmetic, and has no noise


@dataclass(frozen=True)
class PayloadRecord:
    """What a folder says of its payload, whose text is a file.

    Attributes:
        name: Name of the payload.
        entry: Name of its function.
        arguments: Arguments of that.
        flops: Operations of a call.
        reduction: Length of its longest sum.
        sha256: Hash of its text.
    """

    name: str
    entry: str
    arguments: tuple[ArgumentRecord, ...]
    flops: float
    reduction: int
    sha256: str


@dataclass(frozen=True)
class KernelFolder:
    """A folder as it was read.

    Attributes:
        folder: The folder.
        payload: Payload, with its reference where it is known here.
        device: What its kernels are for.
        several: Whether it holds a folder a task.
    """

    folder: Path
    payload: Payload
    device: Device
    several: bool


@dataclass(frozen=True)
class KernelReplay:
    """What became of a kernel that was made again.

    Attributes:
        name: Name of its task, or of the whole.
        outcome: What became of it.
        diagnostic: What went wrong.
        max_error: Largest difference to the oracle; `None` where it is not right.
        same: Whether its file is as it was recorded; `None` of a whole.
        cycles: Cycles by the model, now and recorded; `None` where there are none.
    """

    name: str
    outcome: str
    diagnostic: str = ""
    max_error: float | None = None
    same: bool | None = None
    cycles: tuple[float, float] | None = None

    @property
    def verdict(self) -> str:
        """What `regress` says: ``ok``, ``wrong``, or ``slower`` by the model."""
        if self.outcome != "ok":
            return "wrong"
        return "slower" if self.cycles is not None and self.cycles[0] > MORE_CYCLES * self.cycles[1] else "ok"

    @property
    def sentence(self) -> str:
        """The same for people."""
        if self.outcome != "ok":
            return f"{self.name}: {self.outcome}: {self.diagnostic}"
        file = {None: "", True: ", the kernel as recorded", False: ", another kernel than recorded"}[self.same]
        return f"{self.name}: right, max error {self.max_error:.2g}, on lavapipe{file}"


def record_of(payload: Payload) -> dict[str, Any]:
    """What a folder says of its payload."""
    arguments = tuple(ArgumentRecord(**asdict(argument)) for argument in payload.arguments)
    text = digest(payload.text)
    return asdict(PayloadRecord(payload.name, payload.entry, arguments, payload.flops, payload.reduction, text))


def read_folder(folder: Path) -> KernelFolder:
    """Read a folder.

    Raises:
        BundleError: A file is missing, edited, or not as `tune --target` writes it.
    """
    several = (folder / PROGRAM).is_file()
    recorded = read_json(folder / (PROGRAM if several else CHOSEN))
    try:
        record = TypeAdapter(PayloadRecord).validate_python(recorded.get("payload"))
        arguments = tuple(argument.restore() for argument in record.arguments)
    except ValidationError as error:
        raise BundleError(f"{folder}: what is recorded of its payload must be whole, {first_fault(error)}") from error
    text = read_limited(folder / PAYLOAD).decode(errors="replace")
    if digest(text) != record.sha256:
        raise BundleError(f"{folder / PAYLOAD} must be as it was recorded, its sha256 differs; restore it")
    found = Payload(
        name=record.name,
        text=text,
        entry=record.entry,
        arguments=arguments,
        flops=record.flops,
        reduction=record.reduction,
        foreign=not is_registered(record.name),
    )
    return KernelFolder(folder, known_payload(found), find_device(str(recorded.get("target"))), several)


def read_json(path: Path) -> Mapping[str, Any]:
    """An object of JSON.

    Raises:
        BundleError: The file holds none.
    """
    try:
        value = json.loads(read_limited(path))
    except ValueError as error:
        raise BundleError(f"{path} must be JSON, it is not: {error}") from error
    if not isinstance(value, dict):
        raise BundleError(f"{path} must be an object of JSON, it is none; tune again")
    return value


def read_limited(path: Path) -> bytes:
    """Bytes of a file.

    Raises:
        BundleError: The file cannot be read, or is far longer than any that is written.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BundleError(f"{path} must be readable, it is not: {error.strerror}; tune again") from error
    if len(data) > MOST_BYTES:
        raise BundleError(f"{path} must be of at most {MOST_BYTES} bytes, it is longer; tune again")
    return data


def read_script(folder: Path) -> str:
    """The transform script of a task's folder.

    Raises:
        BundleError: There is none that can be read.
    """
    return read_limited(folder / SCHEDULE).decode(errors="replace")


def replay_folder(found: KernelFolder, workshop: KernelWorkshop) -> list[KernelReplay]:
    """Make the kernels of a folder again from its scripts, verify each, and the whole where there are several.

    Raises:
        BundleError: A file is missing.
        PayloadError: A payload is none that kernels are written for.
    """
    units = units_of(found.payload)
    replays, made = [], []
    for unit in units.payloads:
        folder = task_folder(found.folder, unit.name, several=found.several)
        kernel = make_again(unit, folder, workshop)
        replays.append(compared(kernel, folder, found.device))
        made.append(kernel)
    if found.several:
        whole = units.assembled(made, workshop)
        name = f"{found.payload.name} as a whole"
        if whole is None:
            replays.append(KernelReplay(name, "wrong-result", "a kernel of it is not right"))
        else:
            replays.append(KernelReplay(name, whole.outcome, whole.diagnostic, whole.max_error))
    return replays


def make_again(payload: Payload, folder: Path, workshop: KernelWorkshop) -> TaskKernel:
    """The kernel of a task's folder, made of its script.

    Raises:
        BundleError: There is no script.
        PayloadError: The oracle does not answer.
    """
    check_payload(payload)
    text, task, family = only_task(payload)
    script = read_script(folder)
    facts = workshop.facts(payload, task, family)
    trial = Examiner(workshop, KernelCall(payload), text).trial(script, {}, kernel_key(text, script, facts, 0))
    return TaskKernel(facts, payload, (trial,))


def compared(kernel: TaskKernel, folder: Path, device: Device) -> KernelReplay:
    """A kernel beside what is recorded of it."""
    (trial,) = kernel.tried
    examined, record = trial.examined, trial.record
    if examined is None or record.outcome != "ok":
        return KernelReplay(kernel.payload.name, record.outcome, record.diagnostic)
    now = examined.made.ptx.encode() if device.chip else examined.binary
    same = now == read_limited(folder / (PTX if device.chip else BINARY))
    then, cycles = read_json(folder / CHOSEN).get("predicted_cycles"), record.cycles
    both = (cycles, float(then)) if cycles is not None and isinstance(then, int | float) else None
    return KernelReplay(kernel.payload.name, "ok", "", examined.max_error, same, both)
