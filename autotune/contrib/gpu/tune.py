"""Search of kernels for a device: candidates are verified and compared by estimated cycles; none is measured."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from autotune.compiler.ir.module import compiler_version
from autotune.contrib.gpu import nvptx
from autotune.contrib.gpu.device import Device
from autotune.contrib.gpu.examine import (
    TYPES,
    Drawn,
    Examined,
    KernelCall,
    KernelJob,
    check_payload,
    check_types,
    draw,
    examine,
)
from autotune.contrib.gpu.families import GpuFamily, covering, names, why_none
from autotune.contrib.gpu.host import HostSource
from autotune.contrib.gpu.kernel import KernelSource
from autotune.contrib.gpu.model import VERSION
from autotune.contrib.gpu.records import GpuRecord, SweepFacts, finite, kernel_key, open_sweep
from autotune.contrib.gpu.vulkan import Lavapipe
from autotune.contrib.gpu.whole import Whole, WrittenKernel, assemble
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Evaluation
from autotune.core.listener import SILENT, Listener
from autotune.core.payload import Payload
from autotune.core.printable import first_lines
from autotune.core.space import Config
from autotune.core.task import Task
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.samplers.search import Search
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker


@dataclass(frozen=True)
class KernelTrial:
    """One trial of a search.

    Attributes:
        script: Transform script of the config.
        record: Recorded result.
        examined: Full evaluation; `None` if the record came from a store.
    """

    script: str
    record: GpuRecord
    examined: Examined | None = None


@dataclass(frozen=True)
class TaskKernel:
    """The result of a task's search.

    Attributes:
        facts: Identification of the study.
        payload: Payload that was verified.
        tried: All trials, the default config first.
        recorded: Number of trials whose records came from a store.
    """

    facts: SweepFacts
    payload: Payload
    tried: tuple[KernelTrial, ...]
    recorded: int = 0

    @property
    def best(self) -> KernelTrial | None:
        """Correct trial with the fewest estimated cycles; `None` if there is none."""
        correct = [each for each in self.tried if each.record.cycles is not None]
        return min(correct, key=lambda each: each.record.cycles or 0.0, default=None)

    @property
    def chosen(self) -> Examined | None:
        """Full evaluation of the best trial; `None` if there is none."""
        return self.best.examined if self.best is not None else None

    @property
    def written(self) -> WrittenKernel | None:
        """Kernel of the best trial; `None` if there is none."""
        chosen = self.chosen
        if chosen is None or chosen.made.kernel is None:
            return None
        return WrittenKernel(chosen.made.kernel, chosen.binary, chosen.made.ptx)

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of trials by outcome."""
        return dict(Counter(each.record.outcome for each in self.tried))

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object, which states that nothing was measured."""
        best, default, chosen = self.best, self.tried[0], self.chosen
        return {
            "task": self.facts.task,
            "family": self.facts.family,
            "config": best.record.config if best else None,
            "predicted_cycles": best.record.cycles if best else None,
            "default_cycles": default.record.cycles,
            "predicted_share_of_fma": best.record.share if best else None,
            "max_error": best.record.max_error if best else None,
            "oracle": self.payload.oracle,
            "outcomes": self.outcomes,
            "recorded": self.recorded,
            "diagnostics": sorted({each.record.diagnostic for each in self.tried} - {""}),
            "ptxas": asdict(chosen.assembled) if chosen and chosen.assembled else None,
            "verified": self.facts.verified,
            "measured": False,
        }


@dataclass(frozen=True)
class KernelWorkshop:
    """The tools that compile, verify and record kernels.

    Attributes:
        device: Target device.
        worker: Worker that compiles kernels.
        driver: Driver that runs them; `None` to skip verification and use the cost model only.
        store: Store that records them; `None` to record nothing.
    """

    device: Device
    worker: Worker
    driver: Lavapipe | None
    store: Store | None = None

    def facts(self, payload: Payload, task: Task, family: GpuFamily) -> SweepFacts:
        """Return the identification of the study of a task's kernels."""
        return SweepFacts(
            payload.name,
            task.name,
            self.device.name,
            family.name,
            self.driver is not None,
            versions_of(self.device, self.driver),
            dict(family.default(task, self.device)),
        )


def versions_of(device: Device, driver: Lavapipe | None) -> dict[str, str]:
    """Return the versions of the cost model, the compiler, the driver and ptxas."""
    ptxas = nvptx.find_ptxas() if device.chip else None
    return {
        "model": VERSION,
        "compiler": compiler_version(),
        **({"driver": Path(driver.driver).name} if driver is not None else {}),
        **({"ptxas": nvptx.version_of(ptxas)} if ptxas is not None else {}),
    }


def tune_kernel(
    payload: Payload, options: TuneOptions, workshop: KernelWorkshop, listener: Listener = SILENT
) -> TaskKernel:
    """Search a kernel for a payload of one task.

    Args:
        payload: Payload of one task.
        options: Number of trials, sampler and seed.
        workshop: Tools that compile, verify and record kernels.
        listener: Listener that is notified of stages.

    Raises:
        PayloadError: No family of kernels covers the payload.
        StoreError: The store cannot be read or written.
    """
    (check_types if workshop.driver is None else check_payload)(payload)
    text, task, family = only_task(payload)
    call, device = KernelCall(payload, options.seed), workshop.device
    examiner = Examiner(workshop, call, text)
    facts, space = workshop.facts(payload, task, family), family.space(task, device)
    sweep = open_sweep(workshop.store, facts, text) if workshop.store is not None else None
    search = Search(space, facts.default, sampler=options.sampler, seed=options.seed)
    tried: list[KernelTrial] = []
    while len(tried) < options.trials and (config := search.ask()) is not None:
        listener.stage(f"{examiner.verb} {len(tried) + 1} of {options.trials}")
        script = family.build(task, config, device)
        key = kernel_key(text, script, facts, options.seed)
        record = sweep.records.get(key) if sweep is not None else None
        tried.append(KernelTrial(script, record) if record else examiner.trial(script, config, key))
        if sweep is not None and record is None:
            sweep.add(tried[-1].record, space)
        search.tell(config, tried[-1].record.cycles)
    recorded = sum(each.examined is None for each in tried)
    return examiner.with_best(TaskKernel(facts, payload, tuple(tried), recorded))


@dataclass
class Examiner:
    """Evaluates candidates of a task.

    Attributes:
        workshop: Tools that compile and verify kernels.
        call: Payload and seed of its inputs.
        text: The task as MLIR.
    """

    workshop: KernelWorkshop
    call: KernelCall
    text: str

    @property
    def verb(self) -> str:
        """Verb for progress messages."""
        return "verifying" if self.workshop.driver is not None else "modelling"

    @cached_property
    def drawn(self) -> Drawn | None:
        """Inputs and expected outputs; `None` if results are not compared.

        Raises:
            PayloadError: The oracle fails.
        """
        if self.workshop.driver is None:
            return None
        drawn = self.workshop.worker.call(draw, self.call)
        if isinstance(drawn, Evaluation):
            name = self.call.payload.name
            raise PayloadError(f"the oracle of {name} must answer, it {drawn.outcome}: {drawn.diagnostic}")
        return drawn

    def examine(self, script: str) -> Examined:
        """Evaluate a script."""
        job = KernelJob(self.call, KernelSource(self.text, script, self.workshop.device))
        return examine(job, self.drawn, self.workshop.worker, self.workshop.driver)

    def trial(self, script: str, config: Config, key: str) -> KernelTrial:
        """Evaluate the script of a config and return the trial."""
        examined = self.examine(script)
        modelled, assembled = examined.estimate, examined.assembled
        return KernelTrial(
            script,
            GpuRecord(
                key,
                dict(config),
                examined.outcome,
                first_lines(examined.diagnostic),
                finite(examined.max_error),
                modelled.cycles if modelled else None,
                modelled.fused if modelled else 0.0,
                modelled.bound if modelled else "",
                assembled.registers if assembled else None,
                examined.verified,
            ),
            examined,
        )

    def with_best(self, kernel: TaskKernel) -> TaskKernel:
        """Return the result of a search with the best trial evaluated: a trial from a store is compiled again."""
        while (best := kernel.best) is not None and best.examined is None:
            again = self.trial(best.script, best.record.config, best.record.key)
            kernel = replace(kernel, tried=tuple(again if each is best else each for each in kernel.tried))
        return kernel


@dataclass(frozen=True)
class Units:
    """The tasks of a payload that families cover.

    Attributes:
        payloads: Payloads of one task each: the payload itself, or the covered tasks of a payload of several.
        without: Names of tasks and operations that no family covers.
        tagged: The payload of several tasks, each tagged; `None` for one task.
        tags: Tag of each of `payloads` in the tagged payload.
    """

    payloads: tuple[Payload, ...]
    without: tuple[str, ...] = ()
    tagged: Payload | None = None
    tags: tuple[str, ...] = ()

    @property
    def several(self) -> bool:
        """Whether the payload has several tasks."""
        return self.tagged is not None

    @property
    def sentence(self) -> str:
        """Sentence on why the whole program was not assembled."""
        rest = f"; no kernel is written for {', '.join(self.without)}" if self.without else ", of which one is wrong"
        return f"{len(self.payloads)} tasks were verified alone, the whole was not assembled{rest}"

    def assembled(self, tuned: Sequence[TaskKernel], workshop: KernelWorkshop) -> Whole | None:
        """Assemble the program of all tasks' kernels; `None` if a kernel is missing, or if results are not compared.

        Args:
            tuned: Search result of each of `payloads`.
            workshop: Tools that plan and run the program.
        """
        written = [each.written for each in tuned]
        if self.without or self.tagged is None or workshop.driver is None:
            return None
        kernels = {tag: kernel for tag, kernel in zip(self.tags, written, strict=True) if kernel is not None}
        if len(kernels) < len(self.tags):
            return None
        types = {
            tag: tuple(argument.type for argument in payload.arguments)
            for tag, payload in zip(self.tags, self.payloads, strict=True)
        }
        source = HostSource(self.tagged, {tag: each.kernel for tag, each in kernels.items()}, types, workshop.device)
        return assemble(source, kernels, workshop.worker, workshop.driver)


def units_of(payload: Payload, *, verified: bool = True) -> Units:
    """Split a payload into payloads of one task.

    Args:
        payload: Payload to split.
        verified: Whether kernels must be verifiable.

    Raises:
        PayloadError: No family covers any of the tasks.
    """
    check = check_payload if verified else check_types
    parts = partition(payload)
    if len(parts.tasks) + len(parts.uncovered) == 1:
        return Units((payload,))
    covered = [task for task in parts.tasks if covering(task) is not None and passes(check, task.payload)]
    uncovered = [task.name for task in parts.tasks if task not in covered]
    if not covered:
        raise PayloadError(
            f"kernels for --target are written for {', '.join(names())} in {', '.join(TYPES)}; no task of "
            f"{payload.name} is one; leave --target out"
        )
    without, tags = (*uncovered, *(each.name for each in parts.uncovered)), tuple(task.tag for task in covered)
    return Units(tuple(task.payload for task in covered), without, parts.payload, tags)


def passes(check: Callable[[Payload], None], payload: Payload) -> bool:
    """Return whether a payload passes a check."""
    try:
        check(payload)
    except PayloadError:
        return False
    return True


def only_task(payload: Payload) -> tuple[str, Task, GpuFamily]:
    """Return the tagged text of a payload of one task, the task, and the family that covers it.

    Raises:
        PayloadError: There are several tasks, or no family covers the task.
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
        raise PayloadError(f"{payload.name} has no kernel: {why_none(task)}")
    return parts.payload.text, task, family
