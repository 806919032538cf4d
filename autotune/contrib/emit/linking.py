"""Linking of a library's C source and objects to a shared library by a C compiler.

The MLIR wheels contain no linker. The system's compiler is used or that of the package ``ziglang``, a wheel of clang
with its linker and headers.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from autotune.core.errors import BundleError
from autotune.core.host.whole_file import whole_file
from autotune.core.printable import first_lines

NAMES = ("cc", "gcc", "clang")
OPTIONS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra")
EXPORTS = "exports.map"


def find_compiler() -> list[str] | None:
    """Return the command of a C compiler: from ``CC``, the system, or package ``ziglang``; `None` if there is none."""
    if command := os.environ.get("CC"):
        return shlex.split(command)
    for name in NAMES:
        if path := shutil.which(name):
            return [path]
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else None


def link(folder: Path, sources: Mapping[str, str | bytes], library: Path, exported: tuple[str, ...]) -> None:
    """Compile C source and link it with objects to a shared library that exports the given symbols.

    Args:
        folder: Working folder; its files remain if there is no compiler.
        sources: C files and objects by name.
        library: File to write.
        exported: Exported symbols; all others are local, whatever names a payload's functions have.

    Raises:
        BundleError: There is no compiler, or it fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in sources.items():
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    (folder / EXPORTS).write_text(
        "{ global: " + " ".join(f"{name};" for name in exported) + " local: *; };\n", encoding="utf-8"
    )
    files = [name for name in sources if name.endswith((".c", ".o"))]
    linker = [f"-Wl,--version-script={EXPORTS}", f"-Wl,-soname,{library.name}", "-Wl,--no-undefined"]
    command = [*OPTIONS, *linker, *files, "-lm", "-lpthread", "-o"]
    compiler = find_compiler()
    if compiler is None:
        raise BundleError(
            f"a library is linked by a C compiler, none is here: cc, gcc, clang, $CC; pip install ziglang, or in "
            f"{folder}: cc {shlex.join([*command, str(library.resolve())])}"
        )
    with whole_file(library.resolve()) as fresh:
        completed = subprocess.run(
            [*compiler, *command, fresh], cwd=folder, capture_output=True, text=True, check=False
        )
        if completed.returncode != 0:
            raise BundleError(
                f"{shlex.join(compiler)} must link the library, it does not; {first_lines(completed.stderr)}"
            )
