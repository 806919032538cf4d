"""Assembly of the kernels of a payload of several tasks to one program, which is run on lavapipe and verified."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from autotune.contrib.gpu import nvptx, spirv
from autotune.contrib.gpu.examine import KernelCall, arrays_of, compare, draw
from autotune.contrib.gpu.host import HostPlan, HostSource, plan_host
from autotune.contrib.gpu.interpret import blank_arrays, interpret
from autotune.contrib.gpu.kernel import Kernel
from autotune.contrib.gpu.vulkan import Lavapipe, VulkanModule, VulkanProgram, run_program
from autotune.core.errors import CompileError, KernelError, MachineError
from autotune.core.evaluator import Evaluation
from autotune.core.trial import Outcome
from autotune.worker.worker import Worker


@dataclass(frozen=True)
class WrittenKernel:
    """A kernel with its binaries.

    Attributes:
        kernel: Device-independent kernel.
        binary: The kernel as SPIR-V.
        ptx: The kernel as PTX, for a chip.
    """

    kernel: Kernel
    binary: bytes
    ptx: str = ""


@dataclass(frozen=True)
class MadeHost:
    """A worker's result for the program.

    Attributes:
        plan: Host program; `None` if planning failed.
        codes: Copy kernels of the plan, as modules of the spirv dialect.
        ptx: Copy kernels of the plan as PTX; empty strings unless the target is a chip.
        diagnostic: Description of the failure; empty if there is none.
    """

    plan: HostPlan | None = None
    codes: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    diagnostic: str = ""


@dataclass(frozen=True)
class Whole:
    """The verified program of a payload of several tasks.

    Attributes:
        outcome: Outcome of the run; ``ok`` if its results are correct.
        diagnostic: Description of the failure; empty if there is none.
        max_error: Largest difference to the oracle.
        oracle: Name of the oracle.
        plan: Host program; `None` if it could not be assembled.
        kernels: Kernels that are launched, by name.
    """

    outcome: Outcome
    diagnostic: str
    max_error: float
    oracle: str
    plan: HostPlan | None = None
    kernels: Mapping[str, WrittenKernel] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the host program and its verification as a JSON object."""
        record: dict[str, Any] = {"outcome": self.outcome, "diagnostic": self.diagnostic, "oracle": self.oracle}
        if self.plan is not None:
            record |= {
                "max_error": self.max_error,
                "arena_bytes": self.plan.arena_bytes,
                "separate_bytes": self.plan.separate_bytes,
                "copies": self.plan.copied,
                "launches": [asdict(launch) for launch in self.plan.launches],
            }
        return record


def make_host(source: HostSource) -> MadeHost:
    """Plan the launches of a payload, and compile its copy kernels; runs in a worker."""
    try:
        plan, chip = plan_host(source), source.device.chip
        for copy in plan.copies:
            run = interpret(copy.kernel, blank_arrays(copy.kernel))
            if run.race:
                return MadeHost(diagnostic=f"{copy.name}: {run.race}")
        codes = tuple(spirv.spirv_text(copy.kernel) for copy in plan.copies)
        return MadeHost(plan, codes, tuple(nvptx.ptx_text(copy.kernel, chip) if chip else "" for copy in plan.copies))
    except CompileError as error:
        return MadeHost(diagnostic=str(error))


def assemble(source: HostSource, kernels: Mapping[str, WrittenKernel], worker: Worker, driver: Lavapipe) -> Whole:
    """Assemble a payload, run it on lavapipe and verify the results.

    Args:
        source: Payload and kernels of its tasks.
        kernels: Kernels with their binaries, by tag.
        worker: Worker that plans the program.
        driver: Driver that runs it.
    """
    payload = source.payload
    made = worker.call(make_host, source)
    if isinstance(made, Evaluation):
        return Whole(made.outcome, made.diagnostic, np.inf, payload.oracle)
    if made.plan is None:
        return Whole("lowering-failed", made.diagnostic, np.inf, payload.oracle)
    try:
        all_kernels = dict(kernels) | copies_of(made, driver)
        drawn = worker.call(draw, KernelCall(payload))
        if isinstance(drawn, Evaluation):
            return Whole(drawn.outcome, f"in its oracle: {drawn.diagnostic}", np.inf, payload.oracle)
        before, expected = arrays_of(payload, drawn)
        after = run_program(driver, program_of(made.plan, all_kernels), before)
    except KernelError as error:
        outcome: Outcome = "timed-out" if error.outcome == "timed-out" else "crashed"
        return Whole(outcome, str(error), np.inf, payload.oracle, made.plan, kernels)
    except (CompileError, MachineError) as error:
        return Whole("jit-failed", str(error), np.inf, payload.oracle, made.plan, kernels)
    verdict = compare(payload, before, after, expected)
    return Whole(verdict.outcome, verdict.diagnostic, verdict.max_error, payload.oracle, made.plan, all_kernels)


def copies_of(made: MadeHost, driver: Lavapipe) -> dict[str, WrittenKernel]:
    """Serialize and validate the copy kernels.

    Raises:
        CompileError: A kernel is no valid SPIR-V.
    """
    written = {}
    for copy, code, ptx in zip(made.plan.copies if made.plan is not None else (), made.codes, made.ptx, strict=True):
        binary = spirv.serialise(code)
        spirv.validate(binary, driver.validator)
        written[copy.name] = WrittenKernel(copy.kernel, binary, ptx)
    return written


def program_of(plan: HostPlan, kernels: Mapping[str, WrittenKernel]) -> VulkanProgram:
    """Convert a host program to the program that the driver runs."""
    names = sorted({launch.kernel for launch in plan.launches})
    modules = tuple(VulkanModule(kernels[n].kernel.name, kernels[n].kernel.grid, kernels[n].binary) for n in names)
    launches = tuple(
        (names.index(launch.kernel), tuple((each.buffer, each.offset, each.size) for each in launch.bindings))
        for launch in plan.launches
    )
    return VulkanProgram(modules, launches, plan.arena_bytes)
