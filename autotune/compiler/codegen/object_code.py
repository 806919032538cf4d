"""Object code of a compiled program, as the bytes of an object file and as disassembly."""

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
PARALLEL_LOOP = "..omp_par"  # suffix of functions that LLVM outlines from parallel loops


def object_code(engine: ExecutionEngine) -> bytes:
    """Return the object file of the code that an engine compiled; LLVM can only write it to a file."""
    with scratch_file() as path:
        engine.dump_to_object_file(str(path))
        return path.read_bytes()


def add_kernels(engine: ExecutionEngine, kernels: Sequence[ExternalKernel]) -> None:
    """Register external kernels with an engine, so that its module can call them.

    Raises:
        CompileError: An object is not for this host, or has unresolved symbols.
    """
    for kernel in kernels:
        engine.raw_register_runtime(kernel.symbol, LinkedKernel(kernel))


def compile_object(
    module: ir.Module, entry: str, *, parallel: bool = False, kernels: Sequence[ExternalKernel] = ()
) -> bytes:
    """Compile a module in the LLVM dialect to an object file for this host.

    Args:
        module: Module in the LLVM dialect.
        entry: Any function that it defines.
        parallel: Whether the module calls an OpenMP runtime.
        kernels: External kernels that it calls, which are not part of the file.

    Raises:
        CompileError: LLVM rejects the module.
    """
    try:
        engine = ExecutionEngine(module, opt_level=3, shared_libs=runner_libraries(parallel=parallel))
        add_kernels(engine, kernels)
        engine.raw_lookup(entry)
    except RuntimeError as error:
        raise CompileError("jit", str(error)) from error
    return object_code(engine)


def disassemble(code: bytes, function: str) -> str:
    """Disassemble a function in an object file and its parallel loops with llvm-objdump.

    Raises:
        CompileError: Invalid object file.
        MachineError: Missing llvm-objdump.
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
    """Yield the lines of a disassembly before the first function, of one function, and of its parallel loops."""
    wanted = True
    for line in disassembly.splitlines(keepends=True):
        if heading := HEADING.match(line):
            wanted = heading[1] == function or heading[1].startswith(f"{function}{PARALLEL_LOOP}")
        if wanted:
            yield line
