"""Converter subprocesses: starting them, reporting their progress, and reducing their failures to one line."""

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

SECONDS, SECONDS_A_GIB = 600.0, 120.0  # CPU time limit, and its increment per GiB of the model's files
MOST_DISTURBED = 5.0  # wall-clock limit as a multiple of the CPU time limit, for a converter that hangs idle
LOOK_SECONDS = 0.2  # polling interval of the converter's output
MOST_BYTES = 1 << 20  # maximum number of bytes read from the output at once
STAGE = "autotune stage: "  # prefix of the lines that report a stage
RAISED = re.compile(r"[\w.]+(Error|Exception)\b")  # start of a traceback's line with the exception; others may follow
REFUSED, UNABLE = 3, 4  # exit codes: the model is unsupported; memory or disk space is insufficient


def start_converter(
    module: str,
    packages: Mapping[str, str],
    path: Path,
    folder: Path,
    sizes: Mapping[str, int],
    *,
    files: Callable[[Path], Sequence[Path]] = no_others,
) -> None:
    """Run a converter in a subprocess.

    Args:
        module: Module of the converter.
        packages: Packages that the converter imports, not loaded in this process, and the extras that provide them.
        path: Model to convert.
        folder: Output folder.
        sizes: Sizes of symbolic dimensions, by name.
        files: Function that returns the other files of the model, whose size extends the time limit.

    Raises:
        RefusedModelError: The model is unsupported.
        PayloadError: A package, memory or disk space is missing, or the converter fails.
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
    size_options = [f"{name}={size}" for name, size in sizes.items()]
    with tempfile.TemporaryFile() as output:
        try:
            code = run_module(module, [str(path), str(folder), *size_options], output, seconds)
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
        stages = [line.removeprefix(STAGE) for line in text.splitlines() if line.startswith(STAGE)]
        after = stages[-1] if stages else "it began"
        silent = f"it printed nothing after {after}; import parts of the model to find why"
        why = ([line for line in lines if RAISED.match(line)] or lines or [silent])[-1][:300]
        raise PayloadError(f"{path} cannot be imported: the converter failed (exit code {code}): {why}")


def run_module(module: str, arguments: Sequence[str], output: IO[bytes], seconds: float) -> int:
    """Run a module as a program in a new Python process, with its output in a file; return the exit code.

    Args:
        module: Name of the module.
        arguments: Command-line arguments.
        output: File for stdout and stderr.
        seconds: Limit of CPU time.

    Raises:
        TimeoutExpired: The process exceeds the limit.
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
    """Return the CPU time of a process and its waited-for children; 0 if it has ended."""
    with suppress(psutil.Error):
        return sum(psutil.Process(pid).cpu_times()[:4])
    return 0.0


def pass_on(output: IO[bytes], reported: int) -> int:
    """Report the stages in the output after the first `reported` bytes; return the new number of reported bytes."""
    # pread, because the file offset is shared with the converter, which writes at it.
    fresh = os.pread(output.fileno(), MOST_BYTES, reported)
    whole = fresh[: fresh.rfind(b"\n") + 1]
    for line in whole.decode(errors="replace").splitlines():
        if line.startswith(STAGE):
            tell_stage(line.removeprefix(STAGE))
    return reported + (len(whole) or (len(fresh) if len(fresh) == MOST_BYTES else 0))


def say_stage(sentence: str) -> None:
    """Report the start of a stage from a converter."""
    print(STAGE + sentence, file=sys.stderr, flush=True)


def run_converter(convert: Callable[[Path, Path, Mapping[str, int]], None]) -> None:
    """Run a converter's main; if the model is unsupported, the message is the last line on stderr."""
    path, folder, *words = sys.argv[1:]
    sizes = {name: int(size) for name, _, size in (each.partition("=") for each in words)}
    try:
        convert(Path(path), Path(folder), sizes)
    except UnsupportedError as error:
        print(one_line(str(error)), file=sys.stderr)  # the message may contain names from the file
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
