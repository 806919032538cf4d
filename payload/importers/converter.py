"""Converters as processes: how an importer starts one, and how it says in one line what went wrong."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from autotune.core.errors import PayloadError
from autotune.core.host.extras import install_command
from autotune.core.listener import tell_stage
from payload.importers.linalg import UnsupportedError

SECONDS = 600.0
LOOK_SECONDS = 0.2  # between looks at what a converter says
MOST_BYTES = 1 << 20  # of it that are read at once
STAGE = "autotune stage: "  # what a line begins with that tells of one
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
            f"run {install_command(*packages.values())}"
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
        text = said.read().decode(errors="replace")
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith(STAGE)]
    if code == REFUSED:
        raise PayloadError(f"{path} cannot be imported: {lines[-1]}")
    if code:
        why = lines[-1][:300] if lines else "it printed nothing"
        raise PayloadError(f"{path} cannot be imported: the converter failed (exit code {code}): {why}")


def run_module(module: str, arguments: Sequence[str], said: IO[bytes]) -> int:
    """Run a module as a program, in a new Python that says all it says into a file; its exit code.

    Raises:
        TimeoutExpired: The module takes longer than `SECONDS`.
    """
    command = [sys.executable, "-m", module, *arguments]
    until, told = time.monotonic() + SECONDS, 0
    with subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            while True:
                try:
                    code = process.wait(LOOK_SECONDS)
                    pass_on(said, told)
                    return code
                except subprocess.TimeoutExpired:
                    if time.monotonic() > until:
                        raise
                    told = pass_on(said, told)
        except BaseException:
            process.kill()
            raise


def pass_on(said: IO[bytes], told: int) -> int:
    """Report the stages that a converter wrote into its file behind so many bytes; bytes told of."""
    fresh = os.pread(said.fileno(), MOST_BYTES, told)  # at an offset: the converter writes where the file's own one is
    whole = fresh[: fresh.rfind(b"\n") + 1]
    for line in whole.decode(errors="replace").splitlines():
        if line.startswith(STAGE):
            tell_stage(line.removeprefix(STAGE))
    return told + (len(whole) or (len(fresh) if len(fresh) == MOST_BYTES else 0))


def say_stage(sentence: str) -> None:
    """Say, in a converter, that a stage begins."""
    print(STAGE + sentence, file=sys.stderr, flush=True)


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
