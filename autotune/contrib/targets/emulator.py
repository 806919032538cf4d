"""Execution of programs for other processors: linked by a cross compiler and run by QEMU's user mode in a sandbox.

An emulated program makes system calls of the host. The emulator therefore runs with the limits and restrictions of
`sandbox`, which also apply to the emulated program: it reads its input and writes its output, and nothing else.
"""

import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from autotune.compiler.codegen.cross import host_processor
from autotune.core.errors import MachineError
from autotune.core.printable import first_lines
from autotune.core.target import Target
from autotune.worker.isolation.cause import name_of

PACKAGES = {
    "x86_64": "gcc-x86-64-linux-gnu libc6-dev-amd64-cross",
    "aarch64": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
}
EMULATORS = "apt-get install qemu-user"
LOG_BYTES = 1 << 16
ERRORS = 2_000  # characters kept of what a failed program wrote to stderr
NATIVE = ("cc", "gcc", "clang")


@dataclass(frozen=True)
class Emulator:
    """Command that runs programs of a target on this machine.

    Attributes:
        command: Words before the program.
        about: Description of the emulator for messages.
    """

    command: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class EmulatedRun:
    """Result of an emulated run.

    Attributes:
        output: Bytes that the program wrote.
        why_not: Sentence on why the run failed; empty if it succeeded.
        late: Whether it timed out.
    """

    output: bytes
    why_not: str = ""
    late: bool = False


def find_emulator(target: Target) -> Emulator:
    """Return the emulator for a target; an empty command if the target is this machine.

    Raises:
        MachineError: The target cannot be emulated, or its emulator is not installed.
    """
    if not target.emulated_as and (target.cpu, target.features) == host_processor():
        return Emulator((), "this machine")
    if not target.emulated_as:
        raise MachineError(
            f"verifying for {target.name} needs the name of a processor that QEMU emulates, its file gives none; "
            'add emulated_as, such as "max"'
        )
    name = f"qemu-{target.architecture}"
    path = shutil.which(name) or shutil.which(f"{name}-static")
    if path is None:
        raise MachineError(f"verifying for {target.name} needs {name}, it is not installed; {EMULATORS}")
    return Emulator((path, "-cpu", target.emulated_as), f"{name} -cpu {target.emulated_as}")


def find_compiler(target: Target) -> str:
    """Return the path of a C compiler for a target.

    Raises:
        MachineError: No such compiler is installed.
    """
    architecture, _, system = target.triple.partition("-")
    names: list[str] = [f"{architecture}-{system}-gcc", *(NATIVE if architecture == platform.machine() else ())]
    for name in names:
        if path := shutil.which(name):
            return path
    package = PACKAGES[architecture]
    raise MachineError(f"linking for {target.triple} needs {names[0]}, it is not installed; apt-get install {package}")


def link(compiler: str, folder: Path, source: str, objects: list[str]) -> Path:
    """Compile a C program and link it statically with objects, so that the emulator needs no libraries of the target.

    Args:
        compiler: C compiler for the target.
        folder: Folder with the objects and headers.
        source: Text of the program.
        objects: Names of the objects.

    Raises:
        MachineError: The compiler fails.
    """
    (folder / "main.c").write_text(source, encoding="utf-8")
    command = [compiler, "-std=c11", "-O1", "-static", "main.c", *objects, "-lm", "-o", "program"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(
            f"{compiler} must link what was compiled, with a static C library; {first_lines(done.stderr)}"
        )
    return folder / "program"


def run_program(emulator: Emulator, program: Path, image: bytes, seconds: float) -> EmulatedRun:
    """Run a program on an image; its output may be as long as the image, or `LOG_BYTES` if that is more.

    Args:
        emulator: Emulator to run it.
        program: Statically linked program.
        image: Input of the program.
        seconds: Timeout in seconds.
    """
    folder = program.parent
    (folder / "in").write_bytes(image)
    limits = [str(max(len(image), LOG_BYTES)), str(ceil(seconds) + 1)]
    command = [sys.executable, "-m", "autotune.contrib.targets.enclose", *limits, *emulator.command, str(program)]
    with (folder / "in").open("rb") as source, (folder / "out").open("wb") as out, (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=source, stdout=out, stderr=log)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return EmulatedRun(b"", f"took longer than {seconds:g} s under {emulator.about}", late=True)
        except BaseException:
            process.kill()
            process.wait()
            raise
    if code != 0:
        message = (folder / "log").read_bytes()[-LOG_BYTES:].decode(errors="replace")
        return EmulatedRun(
            b"", f"{name_of(code)} under {emulator.about}; {first_lines(message, width=ERRORS)}".rstrip("; ")
        )
    return EmulatedRun((folder / "out").read_bytes())
