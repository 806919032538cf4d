"""Compilation of a script to a stage of a kernel, in the isolated process, without importing search and store."""

from dataclasses import dataclass

from autotune.contrib.gpu import nvptx, spirv
from autotune.contrib.gpu.kernel import KernelSource, make_kernel


@dataclass(frozen=True)
class StageJob:
    """Request to a worker to compile a script to a stage.

    Attributes:
        source: Task and script.
        stage: ``scheduled``, ``spirv`` or ``ptx``.
    """

    source: KernelSource
    stage: str


def write_stage(job: StageJob) -> str:
    """Compile a script and return the text of a stage; runs in a worker.

    Raises:
        CompileError: An earlier stage fails.
    """
    kernel = make_kernel(job.source)
    if job.stage == "scheduled":
        return kernel.text
    return spirv.spirv_text(kernel) if job.stage == "spirv" else nvptx.ptx_text(kernel, job.source.device.chip)
