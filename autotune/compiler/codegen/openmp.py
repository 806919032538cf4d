"""The OpenMP runtime that parallel loops call: LLVM's libomp, or Intel's build of it, wherever one is installed.

Any of them serves: the calls are those of LLVM's runtime (https://openmp.llvm.org/doxygen), which both export.
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
    """What a machine without an OpenMP runtime lacks, and the command that installs it."""
    lacks = "parallel loops need an OpenMP runtime, libomp or libiomp5, none is installed"
    return f"{lacks}; {install_command('threads')}"


@cache
def find_openmp() -> str | None:
    """Path of the runtime: that of the environment this Python runs in, else the system's; `None` if there is none."""
    mine = [sys.prefix + "/lib", sysconfig.get_path("data") + "/lib", sys.base_prefix + "/lib"]
    machine = sysconfig.get_config_var("MULTIARCH")
    folders = [*mine, *([f"/usr/lib/{machine}"] if machine else []), *SYSTEM]
    for folder in dict.fromkeys(folders):
        for directory in sorted(Path("/").glob(folder.lstrip("/")), reverse=True):
            for name in NAMES:
                if (directory / name).is_file():
                    return str(directory / name)
    return None


def openmp_libraries() -> list[str]:
    """The runtime, as libraries that lowered code is linked with.

    Raises:
        CompileError: There is none; stage ``jit``.
    """
    found = find_openmp()
    if found is None:
        raise CompileError("jit", missing_runtime())
    return [found]


def usable_threads(wanted: int) -> int:
    """Threads, of those wanted, that this process can run: of a core each, with a runtime; else one."""
    if wanted == 1 or find_openmp() is None:
        return 1
    return min(wanted, len(physical_cores()))


def threads_or_why(wanted: int) -> tuple[int, tuple[str, ...]]:
    """Threads to use, and a sentence on why there is but one where several are wanted; none if they are there.

    Raises:
        OptionError: There are not as many cores.
    """
    check_threads(wanted)
    return (1, (f"one thread: {missing_runtime()}",)) if wanted > 1 and find_openmp() is None else (wanted, ())
