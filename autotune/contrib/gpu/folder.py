"""Folders that `tune --target` writes: reading, and replaying their kernels.

The folder of a payload of one task contains its kernel; that of a payload of several tasks contains a subfolder for
each task, and the launches in `PROGRAM`.
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
MORE_CYCLES = 1.001  # ratio to the recorded cycles beyond which a kernel is slower; the model is deterministic


@dataclass(frozen=True)
class PayloadRecord:
    """Facts about a payload that its folder records beside the text.

    Attributes:
        name: Name of the payload.
        entry: Name of its function.
        arguments: Arguments of the function.
        flops: Arithmetic operations of a call.
        reduction: Length of its longest reduction.
        sha256: SHA-256 of its text.
    """

    name: str
    entry: str
    arguments: tuple[ArgumentRecord, ...]
    flops: float
    reduction: int
    sha256: str


@dataclass(frozen=True)
class KernelFolder:
    """The contents of a folder.

    Attributes:
        folder: Path of the folder.
        payload: Payload, with its reference implementation if it is registered.
        device: Target device of its kernels.
        several: Whether it has a subfolder for each task.
    """

    folder: Path
    payload: Payload
    device: Device
    several: bool


@dataclass(frozen=True)
class KernelReplay:
    """The result of replaying a kernel.

    Attributes:
        name: Name of its task, or of the whole program.
        outcome: Outcome of the kernel.
        diagnostic: Description of the failure; empty if there is none.
        max_error: Largest difference to the oracle; `None` if the kernel failed.
        same: Whether its binary equals the recorded one; `None` for a whole program.
        cycles: Estimated cycles, now and recorded; `None` if either is missing.
    """

    name: str
    outcome: str
    diagnostic: str = ""
    max_error: float | None = None
    same: bool | None = None
    cycles: tuple[float, float] | None = None

    @property
    def verdict(self) -> str:
        """Verdict of `regress`: ``ok``, ``wrong``, or ``slower`` by the cost model."""
        if self.outcome != "ok":
            return "wrong"
        return "slower" if self.cycles is not None and self.cycles[0] > MORE_CYCLES * self.cycles[1] else "ok"

    @property
    def sentence(self) -> str:
        """Human-readable sentence on the result."""
        if self.outcome != "ok":
            return f"{self.name}: {self.outcome}: {self.diagnostic}"
        file = {None: "", True: ", the kernel as recorded", False: ", another kernel than recorded"}[self.same]
        return f"{self.name}: right, max error {self.max_error:.2g}, on lavapipe{file}"


def record_of(payload: Payload) -> dict[str, Any]:
    """Return the facts that a folder records of its payload."""
    arguments = tuple(ArgumentRecord(**asdict(argument)) for argument in payload.arguments)
    text = digest(payload.text)
    return asdict(PayloadRecord(payload.name, payload.entry, arguments, payload.flops, payload.reduction, text))


def read_folder(folder: Path) -> KernelFolder:
    """Read a folder.

    Raises:
        BundleError: A file is missing, modified or malformed.
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
    payload = Payload(
        name=record.name,
        text=text,
        entry=record.entry,
        arguments=arguments,
        flops=record.flops,
        reduction=record.reduction,
        foreign=not is_registered(record.name),
    )
    return KernelFolder(folder, known_payload(payload), find_device(str(recorded.get("target"))), several)


def read_json(path: Path) -> Mapping[str, Any]:
    """Read a JSON object.

    Raises:
        BundleError: The file cannot be read, or contains no JSON object.
    """
    try:
        value = json.loads(read_limited(path))
    except ValueError as error:
        raise BundleError(f"{path} must be JSON, it is not: {error}") from error
    if not isinstance(value, dict):
        raise BundleError(f"{path} must be an object of JSON, it is none; tune again")
    return value


def read_limited(path: Path) -> bytes:
    """Read the bytes of a file.

    Raises:
        BundleError: The file cannot be read, or is larger than `MOST_BYTES`.
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
    """Read the transform script of a task's folder.

    Raises:
        BundleError: The script cannot be read.
    """
    return read_limited(folder / SCHEDULE).decode(errors="replace")


def replay_folder(source: KernelFolder, workshop: KernelWorkshop) -> list[KernelReplay]:
    """Compile and verify the kernels of a folder again from its scripts, and the whole program if there are several.

    Raises:
        BundleError: A file is missing.
        PayloadError: No family covers a task.
    """
    units = units_of(source.payload)
    replays, kernels = [], []
    for unit in units.payloads:
        folder = task_folder(source.folder, unit.name, several=source.several)
        kernel = make_again(unit, folder, workshop)
        replays.append(compared(kernel, folder, source.device))
        kernels.append(kernel)
    if source.several:
        whole = units.assembled(kernels, workshop)
        name = f"{source.payload.name} as a whole"
        if whole is None:
            replays.append(KernelReplay(name, "wrong-result", "a kernel of it is not right"))
        else:
            replays.append(KernelReplay(name, whole.outcome, whole.diagnostic, whole.max_error))
    return replays


def make_again(payload: Payload, folder: Path, workshop: KernelWorkshop) -> TaskKernel:
    """Compile and verify the kernel of a task's folder from its script.

    Raises:
        BundleError: There is no script.
        PayloadError: The oracle fails.
    """
    check_payload(payload)
    text, task, family = only_task(payload)
    script = read_script(folder)
    facts = workshop.facts(payload, task, family)
    trial = Examiner(workshop, KernelCall(payload), text).trial(script, {}, kernel_key(text, script, facts, 0))
    return TaskKernel(facts, payload, (trial,))


def compared(kernel: TaskKernel, folder: Path, device: Device) -> KernelReplay:
    """Compare a kernel with its recorded binary and cycles."""
    (trial,) = kernel.tried
    examined, record = trial.examined, trial.record
    if examined is None or record.outcome != "ok":
        return KernelReplay(kernel.payload.name, record.outcome, record.diagnostic)
    binary = examined.made.ptx.encode() if device.chip else examined.binary
    same = binary == read_limited(folder / (PTX if device.chip else BINARY))
    then, cycles = read_json(folder / CHOSEN).get("predicted_cycles"), record.cycles
    cycle_pair = (cycles, float(then)) if cycles is not None and isinstance(then, int | float) else None
    return KernelReplay(kernel.payload.name, "ok", "", examined.max_error, same, cycle_pair)
