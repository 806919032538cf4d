"""Converters as processes: how an importer starts one, and how it says in one line what went wrong."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from autotune.core.errors import PayloadError
from payload.importers.linalg import UnsupportedError

SECONDS = 600.0
REFUSED = 3  # exit code of a converter that refuses a model


def start_converter(
    module: str, packages: Mapping[str, str], path: Path, folder: Path, sizes: Mapping[str, int]
) -> None:
    """Run a converter in a process of its own.

    Args:
        module: Name of its module.
        packages: What it imports, none of which this process does, and the extra that brings it.
        path: Model to convert.
        folder: Folder to write.
        sizes: Sizes of dimensions that the model leaves open, by name.

    Raises:
        PayloadError: A package is missing, the converter refuses the model or fails over it.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise PayloadError(
            f"to import {path} {', '.join(missing)} must be installed, it is not; "
            f"run pip install 'mlir-schedule-autotune[{','.join(sorted(set(packages.values())))}]'"
        )
    if not path.is_file():
        raise PayloadError(f"a model must be a file, {path} is none; check the path")
    given = [f"{name}={size}" for name, size in sizes.items()]
    with tempfile.TemporaryFile() as said:
        try:
            code = run_module(module, [str(path), str(folder), *given], said)
        except subprocess.TimeoutExpired as error:
            raise PayloadError(
                f"{path} must be imported within {SECONDS:g} s, it is not; import a smaller part"
            ) from error
        said.seek(0)
        lines = [line for line in said.read().decode(errors="replace").splitlines() if line.strip()]
    if code == REFUSED:
        raise PayloadError(f"{path} cannot be imported: {lines[-1]}")
    if code:
        why = lines[-1][:300] if lines else "it said nothing"
        raise PayloadError(f"{path} cannot be imported: the converter failed (exit code {code}): {why}")


def run_module(module: str, arguments: Sequence[str], said: IO[bytes]) -> int:
    """Run a module as a program, in a new Python that says all it says into a file; its exit code.

    Raises:
        TimeoutExpired: The module takes longer than `SECONDS`.
    """
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, stdout=said, stderr=said, timeout=SECONDS, check=False).returncode


def run_converter(convert: Callable[[Path, Path, Mapping[str, int]], None]) -> None:
    """A converter's main: a refusal is the last line on stderr."""
    path, folder, *given = sys.argv[1:]
    sizes = {name: int(size) for name, _, size in (each.partition("=") for each in given)}
    try:
        convert(Path(path), Path(folder), sizes)
    except UnsupportedError as error:
        print(error, file=sys.stderr)
        sys.exit(REFUSED)
    except OSError as error:
        if not str(error.filename).startswith(folder):
            raise
        print(f"{folder} must be writable, it is not: {error.strerror}; pass another folder", file=sys.stderr)
        sys.exit(REFUSED)
