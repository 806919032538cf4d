"""Shared libraries that compiled code calls; without MLIR bindings, so that cached code runs without a compiler."""

from autotune.compiler.codegen.llvm_library import find_file
from autotune.compiler.codegen.openmp import openmp_libraries


def runner_libraries(*, parallel: bool = False) -> list[str]:
    """Return the libraries that compiled code may call: MLIR's runner utilities if shipped, and OpenMP if `parallel`.

    Raises:
        CompileError: An OpenMP runtime is needed, and none is installed.
    """
    path = find_file("lib", "libmlir_c_runner_utils.so", package="mlir")
    runner = [str(path)] if path is not None else []
    return [*runner, *openmp_libraries()] if parallel else runner
