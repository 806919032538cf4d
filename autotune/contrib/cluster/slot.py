"""Slot: an isolated process on reserved cores, the description of its machine, and the protocol to send it requests.

A Dask worker has one slot. The worker's Dask resources describe it, so that Dask itself assigns a candidate only to
machines of its kind, one at a time. This module imports neither MLIR nor Dask, because schedulers import it, too.
"""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Optional, TypeAlias

from autotune.core.bench import Bench
from autotune.core.errors import AnswerError, MachineError
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import Machine, Roofs
from autotune.core.host.readable import allow_reading, named_paths
from autotune.worker.isolation import typed_json
from autotune.worker.isolation.answers import Raised, Returned, joined, kind_of, read_answer, write_answer

Untyped: TypeAlias = Any  # objects of Dask, and values that it transports
PRELOAD = "autotune.contrib.cluster.preload"  # module that turns a Dask worker into a slot
KIND = "autotune"  # prefix of the resource that a candidate needs, before fingerprint and software
THREADS, NOISE, COMPUTE, MEMORY, ISA = "threads", "noise floor", "compute seconds", "memory seconds", "isa "
THREADS_SETTING = "autotune.threads"  # Dask setting: threads of a slot
METHODS = {"evaluate": list[Evaluation], "call": object, "renew": None, "roofs": Roofs}  # by type of result

QUIET_CONFIG = {  # Dask settings that turn off or slow down what disturbs a measurement
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


@dataclass(frozen=True)
class Slot:
    """Description of a slot, which its worker announces.

    Attributes:
        fingerprint: Fingerprint of its machine, with its threads.
        software: Versions of this package and of MLIR, and a hash of the pass pipeline.
        isa: The widest vector extension of its machine.
        threads: Threads that a program may use, one per core.
        noise_floor: Relative difference of two measurements of one program, 95th percentile.
        compute_seconds: Seconds per call of a kernel that computes in registers.
        memory_seconds: Seconds per call of a kernel that reads half the L2 cache.
    """

    fingerprint: str
    software: str
    isa: str
    threads: int
    noise_floor: float
    compute_seconds: float
    memory_seconds: float

    @property
    def kind(self) -> str:
        """Name of the Dask resource that a candidate for such machines requires."""
        return f"{KIND} {self.fingerprint} {self.software}"

    @property
    def resources(self) -> dict[str, float]:
        """The slot as Dask resources, a mapping from names to numbers."""
        return {
            self.kind: 1.0,
            ISA + self.isa: 1.0,
            THREADS: float(self.threads),
            NOISE: self.noise_floor,
            COMPUTE: self.compute_seconds,
            MEMORY: self.memory_seconds,
        }

    @staticmethod
    def of(resources: Mapping[str, float]) -> "Slot | None":
        """Return the slot that a worker's resources describe; `None` if they describe none."""
        kind = next((name for name in resources if name.startswith(f"{KIND} ")), None)
        isa = next((name for name in resources if name.startswith(ISA)), None)
        if kind is None or isa is None or not {THREADS, NOISE, COMPUTE, MEMORY} <= resources.keys():
            return None
        _, fingerprint, software = kind.split(" ", 2)
        return Slot(
            fingerprint,
            software,
            isa.removeprefix(ISA),
            int(resources[THREADS]),
            resources[NOISE],
            resources[COMPUTE],
            resources[MEMORY],
        )


@dataclass(frozen=True)
class OpenSlot:
    """Slot in the process that owns it.

    Attributes:
        slot: Description that it announces.
        machine: Machine of the slot.
        cores: CPUs that programs run on.
        bench: Worker that runs them.
        missing: Sentences on what its machine lacks.
        advice: Sentences on how to reduce the noise of its times.
        close: Function that ends the process and releases the cores.
    """

    slot: Slot
    machine: Machine
    cores: tuple[int, ...]
    bench: Bench
    missing: tuple[str, ...]
    advice: tuple[str, ...]
    close: Callable[[], None]

    @property
    def facts(self) -> dict[str, Any]:
        """Machine, cores, missing features and advice as plain data, for a tuner."""
        return {"machine": vars(self.machine), "cores": self.cores, "missing": self.missing, "advice": self.advice}


@dataclass(frozen=True)
class SlotRequest:
    """Request to a slot: a call of a method of its bench.

    Attributes:
        method: Name of the method, one of `METHODS`.
        arguments: Arguments of the method.
        named: Files that its process may read, as the tuner's may.
    """

    method: str
    arguments: tuple[Any, ...] = ()
    named: tuple[str, ...] = field(default_factory=named_paths)

    @property
    def kind(self) -> object:
        """Type of the answer; for ``call``, a pair of the function's result and an `Evaluation`, one of them `None`."""
        if self.method != "call":
            return METHODS.get(self.method)
        value: Untyped = kind_of(self.arguments[0])
        return tuple[Optional[value], Evaluation | None]  # noqa: UP045 - the declared type may be `None`


@dataclass(frozen=True)
class Delivery:
    """Answer of a slot.

    Attributes:
        address: Address of its Dask worker.
        answer: Returned value or raised exception.
    """

    address: str
    answer: Returned | Raised


def environment(threads: int) -> dict[str, str]:
    """Return the Dask settings of a worker that measures, as environment variables.

    Args:
        threads: Threads of its slot.
    """
    settings = {**QUIET_CONFIG, THREADS_SETTING: threads}
    return {"DASK_" + name.upper().replace(".", "__").replace("-", "_"): str(value) for name, value in settings.items()}


class Here:
    """The slot of this process.

    Attributes:
        open: The slot; `None` where there is none.
        why_not: Reason why there is none.
    """

    def __init__(self) -> None:
        self.open: OpenSlot | None = None
        self.address = ""
        self.why_not = f"it was not started with --preload {PRELOAD}"
        self.lock = Lock()  # serializes all requests: one program runs at a time


HERE = Here()


def perform(data: bytes) -> bytes:
    """Perform a request of a tuner on this process's slot. Runs in a thread of a Dask worker.

    Args:
        data: Pickled `SlotRequest`.

    Returns:
        Encoded `Delivery`, for `read_delivery`.
    """
    request: SlotRequest = pickle.loads(data)
    with HERE.lock:
        try:
            if HERE.open is None:
                raise MachineError(f"a machine that measures must have a slot, {HERE.address} has none: {HERE.why_not}")
            if request.method not in METHODS:
                raise ValueError(f"a slot must be asked for one of {', '.join(METHODS)}, got {request.method!r}")
            allow_reading(*request.named)
            value = getattr(HERE.open.bench, request.method)(*request.arguments)
            if request.method == "call":
                value = (None, value) if isinstance(value, Evaluation) else (value, None)
            answer: Returned | Raised = Returned(value)
        except Exception as error:  # the tuner raises it again
            answer = Raised(error)
    message = joined(write_answer(answer, request.kind))
    return joined(typed_json.dump((HERE.address, message), tuple[str, bytes]))


def read_delivery(data: object, request: SlotRequest) -> Delivery:
    """Decode the answer of a slot.

    Raises:
        AnswerError: The message does not answer the request.
    """
    if not isinstance(data, bytes):
        raise AnswerError(f"a slot must deliver bytes, one delivered {type(data).__name__}")
    address, message = typed_json.load(data, tuple[str, bytes])
    answer = read_answer(message, request.kind)
    if isinstance(answer, Returned) and request.method == "call":
        value, failure = answer.value
        return Delivery(address, Returned(value if failure is None else failure))
    if not isinstance(answer, Returned | Raised):
        raise AnswerError("a slot must deliver a value or an error")
    return Delivery(address, answer)


def facts() -> dict[str, Any]:
    """Return the description of this process's slot, or why there is none, as plain data. Runs in a Dask worker."""
    return HERE.open.facts if HERE.open is not None else {"why_not": HERE.why_not}
