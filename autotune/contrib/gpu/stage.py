"""What a script makes of a kernel, in the isolated process: a module of its own, which loads no search and no store."""

from dataclasses import dataclass

from autotune.contrib.gpu import nvptx, spirv
from autotune.contrib.gpu.kernel import KernelSource, make_kernel


@dataclass(frozen=True)
class StageJob:
    """What a worker is asked of a script.

    Attributes:
        source: Task and script.
        stage: ``scheduled``, ``spirv`` or ``ptx``.
    """

    source: KernelSource
    stage: str


def write_stage(job: StageJob) -> str:
    """A stage of a kernel, in a worker.

    Raises:
        CompileError: A stage before is refused.
    """
    kernel = make_kernel(job.source)
    if job.stage == "scheduled":
        return kernel.text
    return spirv.spirv_text(kernel) if job.stage == "spirv" else nvptx.ptx_text(kernel, job.source.device.chip)
