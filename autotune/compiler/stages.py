"""The text of a program after each stage of its compilation."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mlir import ir
from mlir.dialects.llvm import translate_module_to_llvmir
from mlir.execution_engine import ExecutionEngine

from autotune.compiler.llvm_tools import find_tool
from autotune.compiler.lower import apply_script, plans_arena, run_pipeline
from autotune.compiler.module import context, parse
from autotune.compiler.passes.arena import plan_arena
from autotune.compiler.program import apply_schedule, runner_libraries
from autotune.compiler.rewrite_payload import prepare_module
from autotune.core.arena_plan import BufferPlan
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError
from autotune.core.payload import Payload
from autotune.core.script import before_lowering

COMPILED = ("scheduled", "bufferized", "lowered", "llvm", "code")


@dataclass(frozen=True)
class Stage:
    """A program after a stage.

    Attributes:
        text: MLIR, LLVM IR or assembly.
        buffers: Where intermediates lie; `None` where the pipeline plans no arena.
    """

    text: str
    buffers: BufferPlan | None


def compile_to(stage: str, payload: Payload, candidate: Candidate) -> Stage:
    """Compile a candidate as far as a stage.

    Args:
        stage: ``scheduled``, tensors and vectors as the schedules leave them; ``bufferized``, what the script leaves,
            before buffers get places; ``lowered``, the LLVM dialect; ``llvm``, LLVM IR before LLVM's own passes;
            ``code``, what this host executes.
        payload: What it computes.
        candidate: How.

    Raises:
        CompileError: With the stage that refused it.
        ScheduleError: The script lowers otherwise than this release, so that its schedules do not stand alone.
        MachineError: There is no llvm-objdump.
    """
    with context():
        module = parse(candidate.text or payload.text, payload.name)
        if stage == "scheduled" and candidate.script is not None:
            transform_only(module, payload, candidate)
            return Stage(str(module), None)
        if candidate.script is not None:
            apply_schedule(module, payload, candidate.script, dict(candidate.panels))
        if stage == "bufferized":
            text = str(module)
            return Stage(text, plan_arena(module) if plans_arena(candidate.pipeline) else None)
        buffers = run_pipeline(module, candidate.pipeline)
        if stage == "lowered":
            return Stage(str(module), buffers)
        if stage == "llvm":
            return Stage(translate_module_to_llvmir(module.operation), buffers)
        return Stage(disassemble(module, payload.entry), buffers)


def transform_only(module: ir.Module, payload: Payload, candidate: Candidate) -> None:
    """Apply a candidate's schedules, without the lowering that all scripts share.

    Raises:
        ScheduleError: The script was written by a release that lowers otherwise.
    """
    prepare_module(module, payload, candidate.script, dict(candidate.panels))
    apply_script(module, before_lowering(candidate.script or ""))


def disassemble(module: ir.Module, function: str) -> str:
    """Machine code of a function for this host, as llvm-objdump prints it.

    Raises:
        CompileError: LLVM refuses the module.
        MachineError: There is no llvm-objdump.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.o"
        try:
            engine = ExecutionEngine(module, opt_level=3, shared_libs=runner_libraries())
            engine.raw_lookup(function)
            engine.dump_to_object_file(str(path))
        except RuntimeError as error:
            raise CompileError("jit", str(error)) from error
        options = ["--disassemble", "--no-show-raw-insn", f"--disassemble-symbols={function}"]
        command = [find_tool("llvm-objdump"), *options, path.name]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
