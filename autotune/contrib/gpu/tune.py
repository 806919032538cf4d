"""The search of kernels for a device: every candidate verified, none measured, the model's cycles compared."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autotune.contrib.gpu.device import Device
from autotune.contrib.gpu.examine import TYPES, Examined, KernelCall, KernelJob, check_payload, draw, examine
from autotune.contrib.gpu.families import GpuFamily, covering, names
from autotune.contrib.gpu.host import HostSource
from autotune.contrib.gpu.kernel import KernelSource
from autotune.contrib.gpu.vulkan import Lavapipe
from autotune.contrib.gpu.whole import Whole, WrittenKernel, assemble
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Evaluation
from autotune.core.listener import SILENT, Listener
from autotune.core.payload import Payload
from autotune.core.space import Value
from autotune.core.task import Task
from autotune.tuning.options import TuneOptions
from autotune.tuning.samplers.search import Search
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker


@dataclass(frozen=True)
class KernelTrial:
    """A config, and what became of it."""

    config: dict[str, Value]
    script: str
    examined: Examined


@dataclass(frozen=True)
class TaskKernel:
    """The search of a task.

    Attributes:
        task: Name of the task, for people.
        family: Name of the family.
        payload: What was verified.
        tried: Every candidate, the default first.
    """

    task: str
    family: str
    payload: Payload
    tried: tuple[KernelTrial, ...]

    @property
    def best(self) -> KernelTrial | None:
        """The right one that the model likes best; `None` where none is right."""
        right = [each for each in self.tried if each.examined.estimate is not None]
        return min(right, key=lambda each: cycles_of(each) or 0.0, default=None)

    @property
    def written(self) -> WrittenKernel | None:
        """The chosen kernel; `None` where none is right."""
        best = self.best
        if best is None or best.examined.made.kernel is None:
            return None
        return WrittenKernel(best.examined.made.kernel, best.examined.binary, best.examined.made.ptx)

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of candidates by outcome."""
        return dict(Counter(each.examined.outcome for each in self.tried))

    def to_json(self) -> dict[str, Any]:
        """One plain object, which says that nothing was measured."""
        best, default = self.best, self.tried[0]
        return {
            "task": self.task,
            "family": self.family,
            "config": best.config if best else None,
            "predicted_cycles": cycles_of(best) if best else None,
            "default_cycles": cycles_of(default),
            "predicted_share_of_fma": best.examined.estimate.fused if best and best.examined.estimate else None,
            "max_error": best.examined.max_error if best else None,
            "oracle": self.payload.oracle,
            "outcomes": self.outcomes,
            "diagnostics": sorted({each.examined.diagnostic for each in self.tried} - {""}),
            "ptxas": asdict(best.examined.assembled) if best and best.examined.assembled else None,
            "measured": False,
        }


def cycles_of(candidate: KernelTrial) -> float | None:
    """What the model says of a candidate; `None` where it is not right."""
    modelled = candidate.examined.estimate
    return modelled.cycles if modelled is not None else None


def tune_kernel(
    payload: Payload,
    device: Device,
    options: TuneOptions,
    listener: Listener = SILENT,
    *,
    worker: Worker,
    driver: Lavapipe,
) -> TaskKernel:
    """Search a kernel for a payload of one task.

    Args:
        payload: What is computed.
        device: What it is for.
        options: Trials, sampler, seed.
        listener: Notified of stages.
        worker: Makes kernels.
        driver: Runs them.

    Raises:
        PayloadError: No family of kernels covers the payload.
    """
    check_payload(payload)
    text, task, family = only_task(payload)
    call = KernelCall(payload, options.seed)
    drawn = worker.call(draw, call)
    if isinstance(drawn, Evaluation):
        raise PayloadError(f"the oracle of {payload.name} must answer, it {drawn.outcome}: {drawn.diagnostic}")
    default = family.default(task, device)
    search = Search(family.space(task, device), default, sampler=options.sampler, seed=options.seed)
    tried: list[KernelTrial] = []
    while len(tried) < options.trials and (config := search.ask()) is not None:
        listener.stage(f"verifying {len(tried) + 1} of {options.trials}")
        script = family.build(task, config, device)
        job = KernelJob(call, KernelSource(text, script, device))
        tried.append(KernelTrial(dict(config), script, examine(job, drawn, worker, driver)))
        search.tell(config, cycles_of(tried[-1]))
    return TaskKernel(task.name, family.name, payload, tuple(tried))


@dataclass(frozen=True)
class Units:
    """What a payload has kernels for.

    Attributes:
        payloads: Payloads of one task each: the payload itself, or where it has several, each that a family covers.
        without: Names of tasks and ops that no family covers.
        tagged: The payload of several tasks, each tagged; `None` of one.
        tags: Tag of each of `payloads` in it.
    """

    payloads: tuple[Payload, ...]
    without: tuple[str, ...] = ()
    tagged: Payload | None = None
    tags: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Why the whole is not assembled."""
        rest = f"; no kernel is written for {', '.join(self.without)}" if self.without else ", of which one is wrong"
        return f"{len(self.payloads)} tasks were verified alone, the whole was not assembled{rest}"

    def assembled(self, tuned: Sequence[TaskKernel], device: Device, worker: Worker, driver: Lavapipe) -> Whole | None:
        """The whole of its tasks' kernels; `None` where one has none.

        Args:
            tuned: What became of each of `payloads`.
            device: What kernels are for.
            worker: Plans.
            driver: Runs.
        """
        written = [each.written for each in tuned]
        if self.without or self.tagged is None:
            return None
        kernels = {tag: kernel for tag, kernel in zip(self.tags, written, strict=True) if kernel is not None}
        if len(kernels) < len(self.tags):
            return None
        types = {
            tag: tuple(argument.type for argument in payload.arguments)
            for tag, payload in zip(self.tags, self.payloads, strict=True)
        }
        source = HostSource(self.tagged, {tag: each.kernel for tag, each in kernels.items()}, types, device)
        return assemble(source, kernels, worker, driver)


def units_of(payload: Payload) -> Units:
    """A payload as payloads of one task.

    Raises:
        PayloadError: No family of kernels covers any of them.
    """
    parts = partition(payload)
    if len(parts.tasks) + len(parts.uncovered) == 1:
        return Units((payload,))
    covered = [task for task in parts.tasks if covering(task) is not None and can_verify(task.payload)]
    rest = [task.name for task in parts.tasks if task not in covered]
    if not covered:
        raise PayloadError(
            f"kernels for --target are written for {', '.join(names())} in {', '.join(TYPES)}; no task of "
            f"{payload.name} is one; leave --target out"
        )
    without, tags = (*rest, *(each.name for each in parts.uncovered)), tuple(task.tag for task in covered)
    return Units(tuple(task.payload for task in covered), without, parts.payload, tags)


def can_verify(payload: Payload) -> bool:
    """Tell whether `check_payload` lets a payload pass."""
    try:
        check_payload(payload)
    except PayloadError:
        return False
    return True


def only_task(payload: Payload) -> tuple[str, Task, GpuFamily]:
    """The text of a payload with its op tagged, its only task, and the family that covers it.

    Raises:
        PayloadError: There are several tasks, or no family covers the one.
    """
    parts = partition(payload)
    if len(parts.tasks) != 1 or parts.uncovered:
        count = len(parts.tasks) + len(parts.uncovered)
        raise PayloadError(
            f"a payload for --target must be one task, {payload.name} has {count}; give one of its tasks alone"
        )
    (task,) = parts.tasks
    family = covering(task)
    if family is None:
        raise PayloadError(
            f"kernels for --target are written for {', '.join(names())}; {payload.name} is none of them; "
            "leave --target out"
        )
    return parts.payload.text, task, family
