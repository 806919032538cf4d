"""Converters as processes: how an importer starts one, and how it says in one line what went wrong."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import psutil

from autotune.core.errors import PayloadError, RefusedModelError
from autotune.core.host.extras import install_command
from autotune.core.listener import tell_stage
from autotune.core.plugs.imported import no_others
from autotune.core.printable import one_line
from payload.importers.linalg import UnsupportedError

SECONDS, SECONDS_A_GIB = 600.0, 120.0  # of processor time; and for each GiB of the model's files
MOST_DISTURBED = 5.0  # times that by the clock: a converter that sleeps is ended then
LOOK_SECONDS = 0.2  # between looks at what a converter says
MOST_BYTES = 1 << 20  # of it that are read at once
STAGE = "autotune stage: "  # what a line begins with that tells of one
RAISED = re.compile(r"[\w.]+(Error|Exception)\b")  # how the line of a traceback begins that says why: others follow
REFUSED, UNABLE = 3, 4  # exit codes of a converter that refuses a model, and of one that lacks memory or space for it


def start_converter(
    module: str,
    packages: Mapping[str, str],
    path: Path,
    folder: Path,
    sizes: Mapping[str, int],
    *,
    files: Callable[[Path], Sequence[Path]] = no_others,
) -> None:
    """Run a converter in a process of its own.

    Args:
        module: Name of its module.
        packages: What it imports, none of which this process does, and the extra that brings it.
        path: Model to convert.
        folder: Folder to write.
        sizes: Sizes of dimensions that the model leaves open, by name.
        files: Gives the other files of the model; a larger one may take longer.

    Raises:
        RefusedModelError: The converter refuses the model.
        PayloadError: A package, memory or space is missing, or the converter fails.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise PayloadError(
            f"to import {path} {', '.join(missing)} must be installed, it is not; "
            f"run {install_command(*packages.values())}"
        )
    if not path.is_file():
        raise PayloadError(f"a model must be a file, {path} is none; check the path")
    seconds = SECONDS + SECONDS_A_GIB * sum(each.stat().st_size for each in (path, *files(path))) / 2**30
    given = [f"{name}={size}" for name, size in sizes.items()]
    with tempfile.TemporaryFile() as output:
        try:
            code = run_module(module, [str(path), str(folder), *given], output, seconds)
        except subprocess.TimeoutExpired as error:
            raise PayloadError(
                f"{path} must be imported within {seconds:.0f} s of processor time, it is not; import a smaller part"
            ) from error
        output.seek(0)
        text = output.read().decode(errors="replace")
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith(STAGE)]
    if code in (REFUSED, UNABLE):
        raise (RefusedModelError if code == REFUSED else PayloadError)(f"{path} cannot be imported: {lines[-1]}")
    if code:
        begun = [line.removeprefix(STAGE) for line in text.splitlines() if line.startswith(STAGE)]
        after = begun[-1] if begun else "it began"
        silent = f"it printed nothing after {after}; import parts of the model to find why"
        why = ([line for line in lines if RAISED.match(line)] or lines or [silent])[-1][:300]
        raise PayloadError(f"{path} cannot be imported: the converter failed (exit code {code}): {why}")


def run_module(module: str, arguments: Sequence[str], output: IO[bytes], seconds: float) -> int:
    """Run a module as a program, in a new Python that prints into a file; its exit code.

    Args:
        module: Name of the module.
        arguments: What it is called with.
        output: File for what it prints.
        seconds: Processor time that it may take.

    Raises:
        TimeoutExpired: The module takes longer.
    """
    command = [sys.executable, "-m", module, *arguments]
    until, reported = time.monotonic() + MOST_DISTURBED * seconds, 0
    with subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            while True:
                try:
                    code = process.wait(LOOK_SECONDS)
                    pass_on(output, reported)
                    return code
                except subprocess.TimeoutExpired:
                    if time.monotonic() > until or busy_seconds(process.pid) > seconds:
                        raise
                    reported = pass_on(output, reported)
        except BaseException:
            process.kill()
            raise


def busy_seconds(pid: int) -> float:
    """Processor time that a process has used, and those that it waited for; 0 where it has ended."""
    with suppress(psutil.Error):
        return sum(psutil.Process(pid).cpu_times()[:4])
    return 0.0


def pass_on(output: IO[bytes], reported: int) -> int:
    """Report the stages that a converter wrote into its file behind so many bytes; the number of bytes reported."""
    # At an offset: the converter writes where the file's own one is.
    fresh = os.pread(output.fileno(), MOST_BYTES, reported)
    whole = fresh[: fresh.rfind(b"\n") + 1]
    for line in whole.decode(errors="replace").splitlines():
        if line.startswith(STAGE):
            tell_stage(line.removeprefix(STAGE))
    return reported + (len(whole) or (len(fresh) if len(fresh) == MOST_BYTES else 0))


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
        print(one_line(str(error)), file=sys.stderr)  # it may name what a file calls something
        sys.exit(REFUSED)
    except MemoryError as error:
        why = " ".join(str(error).split())[:200]
        print(
            f"it must fit the memory of this machine, it does not: {why}; import it with smaller sizes", file=sys.stderr
        )
        sys.exit(UNABLE)
    except OSError as error:
        if not str(error.filename).startswith(folder):
            raise
        print(f"{folder} must be writable, it is not: {error.strerror}; pass another folder", file=sys.stderr)
        sys.exit(UNABLE)
