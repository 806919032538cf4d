"""Locate the OpenMP runtime that parallel loops call: LLVM's libomp, or Intel's build of it, libiomp5.

Both export the functions of LLVM's runtime (https://openmp.llvm.org/doxygen) that compiled code calls.
"""

import sys
import sysconfig
from functools import cache
from pathlib import Path

from autotune.core.errors import CompileError
from autotune.core.host.cores import check_threads, physical_cores
from autotune.core.host.extras import install_command

NAMES = ("libiomp5.so", "libomp.so", "libomp.so.5")
SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/llvm-*/lib")


def missing_runtime() -> str:
    """Return an error for a machine without an OpenMP runtime, with the command that installs one."""
    lacks = "parallel loops need an OpenMP runtime, libomp or libiomp5, none is installed"
    return f"{lacks}; {install_command('threads')}"


@cache
def find_openmp() -> str | None:
    """Return the path of the runtime, in the Python environment or else in the system; `None` if there is none."""
    environment_folders = [sys.prefix + "/lib", sysconfig.get_path("data") + "/lib", sys.base_prefix + "/lib"]
    multiarch = sysconfig.get_config_var("MULTIARCH")
    folders = [*environment_folders, *([f"/usr/lib/{multiarch}"] if multiarch else []), *SYSTEM]
    for folder in dict.fromkeys(folders):
        for directory in sorted(Path("/").glob(folder.lstrip("/")), reverse=True):
            for name in NAMES:
                if (directory / name).is_file():
                    return str(directory / name)
    return None


def openmp_libraries() -> list[str]:
    """Return the runtime as a list of libraries to link with.

    Raises:
        CompileError: No runtime is installed; stage ``jit``.
    """
    path = find_openmp()
    if path is None:
        raise CompileError("jit", missing_runtime())
    return [path]


def usable_threads(wanted: int) -> int:
    """Return how many of the wanted threads this process can run: at most one per core, and one without a runtime."""
    if wanted == 1 or find_openmp() is None:
        return 1
    return min(wanted, len(physical_cores()))


def threads_or_why(wanted: int) -> tuple[int, tuple[str, ...]]:
    """Return the threads to use, and a warning if several are wanted but there is no runtime.

    Raises:
        OptionError: More threads than cores.
    """
    check_threads(wanted)
    return (1, (f"one thread: {missing_runtime()}",)) if wanted > 1 and find_openmp() is None else (wanted, ())
