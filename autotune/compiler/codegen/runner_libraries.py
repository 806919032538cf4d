"""Shared libraries that compiled code calls, without MLIR's bindings: who runs kept code needs no compiler."""

from autotune.compiler.codegen.llvm_library import find_file
from autotune.compiler.codegen.openmp import openmp_libraries


def runner_libraries(*, parallel: bool = False) -> list[str]:
    """Shared libraries that lowered code may call into, where this MLIR ships them; an OpenMP runtime if `parallel`.

    Raises:
        CompileError: A runtime is needed, and none is installed.
    """
    path = find_file("lib", "libmlir_c_runner_utils.so", package="mlir")
    runner = [str(path)] if path is not None else []
    return [*runner, *openmp_libraries()] if parallel else runner
