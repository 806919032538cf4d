"""Object code: what LLVM made of a program, as the bytes of an object file, and as assembly that people read."""

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlir import ir
from mlir.execution_engine import ExecutionEngine

from autotune.compiler.codegen.kernel_code import LinkedKernel
from autotune.compiler.codegen.llvm_tools import find_tool
from autotune.compiler.codegen.runner_libraries import runner_libraries
from autotune.core.errors import CompileError
from autotune.core.host.scratch import scratch_file
from autotune.core.plugs.external_kernel import ExternalKernel

HEADING = re.compile(r"[0-9a-f]+ <(.+)>:$")
PARALLEL_LOOP = "..omp_par"  # behind the name of the function that LLVM takes a parallel loop's body out of


def object_code(engine: ExecutionEngine) -> bytes:
    """The object file of what an engine compiled; LLVM gives it through a file only."""
    with scratch_file() as path:
        engine.dump_to_object_file(str(path))
        return path.read_bytes()


def add_kernels(engine: ExecutionEngine, kernels: Sequence[ExternalKernel]) -> None:
    """Let an engine's module call code of others, which lives as long as the engine.

    Raises:
        CompileError: An object is none of this host, or calls what is nowhere.
    """
    for kernel in kernels:
        engine.raw_register_runtime(kernel.symbol, LinkedKernel(kernel))


def compile_object(
    module: ir.Module, entry: str, *, parallel: bool = False, kernels: Sequence[ExternalKernel] = ()
) -> bytes:
    """The object file of a module in the LLVM dialect, for this host.

    Args:
        module: The module.
        entry: A function of it.
        parallel: Whether it calls an OpenMP runtime.
        kernels: Code of others that it calls; it is not in the file.

    Raises:
        CompileError: LLVM refuses the module.
    """
    try:
        engine = ExecutionEngine(module, opt_level=3, shared_libs=runner_libraries(parallel=parallel))
        add_kernels(engine, kernels)
        engine.raw_lookup(entry)
    except RuntimeError as error:
        raise CompileError("jit", str(error)) from error
    return object_code(engine)


def disassemble(code: bytes, function: str) -> str:
    """Machine code of a function in an object file and of its parallel loops, as llvm-objdump prints it.

    Raises:
        CompileError: The bytes are no object file.
        MachineError: There is no llvm-objdump.
    """
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        Path(folder, "program.o").write_bytes(code)
        options = ["--disassemble", "--no-show-raw-insn"]
        command = [find_tool("llvm-objdump"), *options, "program.o"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError("jit", f"the object file must be readable; {done.stderr.strip()}")
    return "".join(of_function(done.stdout, function))


def of_function(disassembly: str, function: str) -> Iterator[str]:
    """Lines of a disassembly before any function, of one, and of what its parallel loops became."""
    wanted = True
    for line in disassembly.splitlines(keepends=True):
        if heading := HEADING.match(line):
            wanted = heading[1] == function or heading[1].startswith(f"{function}{PARALLEL_LOOP}")
        if wanted:
            yield line
