"""The text of a program after each stage of its compilation."""

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
    """A program after a stage.

    Attributes:
        text: MLIR or LLVM IR; nothing where it is code.
        buffers: Plan of the arena that intermediates lie in; `None` where the pipeline plans no arena.
        code: Object file, of stage ``code``.
    """

    text: str
    buffers: BufferPlan | None
    code: bytes = b""


def compile_to(stage: str, payload: Payload, candidate: Candidate) -> Stage:
    """Compile a candidate as far as a stage.

    Args:
        stage: ``scheduled``, tensors and vectors as the schedules leave them, without the lowering that all scripts
            share; one of `SCHEDULING`, what the script or one of our own rewrites leaves; ``bufferized``, what all of
            those leave, before buffers get offsets; ``arena``, after; ``lowered``, the LLVM dialect; ``llvm``, LLVM IR
            before LLVM's own passes; ``code``, what this host executes.
        payload: Payload that the candidate computes.
        candidate: Script and pipeline to compile the payload with.

    Raises:
        CompileError: The compiler refused the program; the error names the stage.
        ScheduleError: The script lowers otherwise than this release, so that its schedules do not stand alone.
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
    """A script without the lowering that all scripts share.

    Raises:
        ScheduleError: The script lowers otherwise than this release.
    """
    return replace(script, lowers=False) if isinstance(script, ChosenScript) else before_lowering(script or "")
