"""A slot: one isolated process on cores of its own, what its machine is, and how a tuner elsewhere asks it to work.

A Dask worker holds one slot. What the slot is stands in the worker's resources, so that Dask itself gives a candidate
to machines of its kind only, one at a time. Nothing here loads MLIR or Dask: schedulers read these names, too.
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

Untyped: TypeAlias = Any  # what Dask gives, and what goes through it
PRELOAD = "autotune.contrib.cluster.preload"  # what makes a slot of a Dask worker
KIND = "autotune"  # the resource that a candidate takes: this word, fingerprint and software
THREADS, NOISE, COMPUTE, MEMORY, ISA = "threads", "noise floor", "compute seconds", "memory seconds", "isa "
THREADS_SETTING = "autotune.threads"  # of Dask: threads of a slot that is opened
METHODS = {"evaluate": list[Evaluation], "call": object, "renew": None, "roofs": Roofs}  # of a bench; what they give

QUIET_CONFIG = {  # of Dask: what a worker does beside a measurement
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


@dataclass(frozen=True)
class Slot:
    """What a slot announces.

    Attributes:
        fingerprint: Fingerprint of its machine, with its threads.
        software: Versions of this package and of MLIR, and a hash of what every candidate goes through.
        isa: The widest vector extension of its machine.
        threads: Threads that a program may use, of a core each.
        noise_floor: Relative difference that two measurements of one program show in 95 of 100 cases.
        compute_seconds: Seconds a call of a kernel that computes in registers.
        memory_seconds: Seconds a call of a kernel that reads half the L2 cache.
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
        """Name of the resource that a candidate for such machines takes."""
        return f"{KIND} {self.fingerprint} {self.software}"

    @property
    def resources(self) -> dict[str, float]:
        """The slot as resources of a Dask worker, which are numbers by name."""
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
        """The slot that a worker's resources tell of; `None` if they tell of none."""
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
    """A slot in the process that holds it.

    Attributes:
        slot: What it announces.
        machine: Machine that it is on.
        cores: CPUs that programs run on.
        bench: Worker that runs them.
        missing: Sentences on what its machine lacks.
        advice: Sentences on what would make its times steadier.
        close: Function that gives process and cores back.
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
        """What a tuner may want to know, as plain data."""
        return {"machine": vars(self.machine), "cores": self.cores, "missing": self.missing, "advice": self.advice}


@dataclass(frozen=True)
class SlotRequest:
    """Something that a slot is asked to do.

    Attributes:
        method: Name of a method of its bench, one of `METHODS`.
        arguments: Arguments of the method.
        named: Files that its process may read, as of the tuner's.
    """

    method: str
    arguments: tuple[Any, ...] = ()
    named: tuple[str, ...] = field(default_factory=named_paths)

    @property
    def kind(self) -> object:
        """Type of the answer; of a call, the type that its function declares, and what there is where that failed."""
        if self.method != "call":
            return METHODS.get(self.method)
        value: Untyped = kind_of(self.arguments[0])
        return tuple[Optional[value], Evaluation | None]  # noqa: UP045 - what is declared may be `None`


@dataclass(frozen=True)
class Delivery:
    """Answer of a slot.

    Attributes:
        address: Address of its Dask worker.
        answer: Value, or what was raised.
    """

    address: str
    answer: Returned | Raised


def environment(threads: int) -> dict[str, str]:
    """Dask's settings of a worker that measures, as variables of its environment.

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
        self.lock = Lock()  # one program at a time, whatever is asked


HERE = Here()


def perform(data: bytes) -> bytes:
    """Do what a tuner asks of this process's slot. Runs in a thread of a Dask worker.

    Args:
        data: A `SlotRequest`, as a pickle.

    Returns:
        A `Delivery`, as `read_delivery` reads it.
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
        except Exception as error:  # the tuner will raise it again
            answer = Raised(error)
    message = joined(write_answer(answer, request.kind))
    return joined(typed_json.dump((HERE.address, message), tuple[str, bytes]))


def read_delivery(data: object, request: SlotRequest) -> Delivery:
    """What a slot delivered.

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
    """What the slot of this process is, or why there is none, as plain data. Runs in a Dask worker."""
    return HERE.open.facts if HERE.open is not None else {"why_not": HERE.why_not}
