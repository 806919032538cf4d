"""IR or code of a program after each stage of its compilation."""

from dataclasses import dataclass, replace

from mlir.dialects.llvm import translate_module_to_llvmir

from autotune.compiler.codegen.object_code import compile_object
from autotune.compiler.ir.module import context
from autotune.compiler.lowering.pipeline import begin_pipeline, run_pipeline
from autotune.compiler.lowering.rewrites import SCRIPT, Unit
from autotune.compiler.lowering.steps import ARENA, SCHEDULING, rewrite
from autotune.core.arena_plan import BufferPlan
from autotune.core.candidate import Candidate, Script
from autotune.core.payload import Payload
from autotune.core.scripts.assembly import before_lowering
from autotune.core.scripts.parametric import ChosenScript

COMPILED = ("scheduled", *SCHEDULING, "bufferized", ARENA, "lowered", "llvm", "code")


@dataclass(frozen=True)
class Stage:
    """Output of a compilation stage.

    Attributes:
        text: MLIR or LLVM IR; empty for stage ``code``.
        buffers: Arena plan of the intermediate buffers; `None` if there is none.
        code: Object file, of stage ``code``.
    """

    text: str
    buffers: BufferPlan | None
    code: bytes = b""


def compile_to(stage: str, payload: Payload, candidate: Candidate) -> Stage:
    """Compile a candidate up to a stage.

    Args:
        stage: ``scheduled``: tensors and vectors after the schedules, before the lowering that all scripts share; one
            of `SCHEDULING`: after the script or one of the rewrites; ``bufferized``: after all of those, before
            buffers get offsets; ``arena``: after that; ``lowered``: LLVM dialect; ``llvm``: LLVM IR before LLVM's
            passes; ``code``: object code for this host.
        payload: Payload that the candidate computes.
        candidate: Script and pipeline to compile the payload with.

    Raises:
        CompileError: The compiler refused the program; the error names the stage.
        ScheduleError: The lowering in the script differs from this release's, so its schedules cannot be separated.
    """
    with context():
        if stage == "scheduled":
            candidate, stage = replace(candidate, script=alone(candidate.script)), SCRIPT
        unit = Unit.open(payload, candidate)
        for step in rewrite(unit) if candidate.script is not None else ():
            if step == stage:
                break
        if stage in SCHEDULING:
            return Stage(str(unit.module), None)
        if stage in ("bufferized", ARENA):
            text = str(unit.module)
            begin_pipeline(unit, candidate.pipeline)
            return Stage(text if stage == "bufferized" else str(unit.module), unit.buffers)
        run_pipeline(unit, candidate.pipeline)
        if stage == "lowered":
            return Stage(str(unit.module), unit.buffers)
        if stage == "llvm":
            return Stage(translate_module_to_llvmir(unit.module.operation), unit.buffers)
        code = compile_object(unit.module, payload.entry, parallel=unit.parallel, kernels=unit.kernels)
        return Stage("", unit.buffers, code)


def alone(script: Script | None) -> Script:
    """Return a script without the lowering that all scripts share.

    Raises:
        ScheduleError: The lowering in the script differs from this release's.
    """
    return replace(script, lowers=False) if isinstance(script, ChosenScript) else before_lowering(script or "")
