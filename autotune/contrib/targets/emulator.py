"""Programs for other processors, run here: linked by a C compiler for them, run by QEMU's user mode, behind walls.

An emulated program makes the host's system calls. So the emulator runs with the limits and behind the walls of
`sandbox`, which hold for what it emulates too: it reads its input, writes its output, and nothing else.
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
ERRORS = 2_000  # characters of what a program wrote before it failed
NATIVE = ("cc", "gcc", "clang")


@dataclass(frozen=True)
class Emulator:
    """How programs of a target run here.

    Attributes:
        command: Words before the program.
        about: What runs them, for people.
    """

    command: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class EmulatedRun:
    """The outcome of a program.

    Attributes:
        output: Bytes it wrote.
        why_not: Why it did not end well, a sentence; empty if it did.
        late: Whether it took too long.
    """

    output: bytes
    why_not: str = ""
    late: bool = False


def find_emulator(target: Target) -> Emulator:
    """What runs a target's programs here: the emulator, as that processor; this one, if its file is of this machine.

    Raises:
        MachineError: There is no emulator of it, or it is not installed.
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
    """A C compiler for a target.

    Raises:
        MachineError: There is none.
    """
    architecture, _, system = target.triple.partition("-")
    names: list[str] = [f"{architecture}-{system}-gcc", *(NATIVE if architecture == platform.machine() else ())]
    for name in names:
        if path := shutil.which(name):
            return path
    package = PACKAGES[architecture]
    raise MachineError(f"linking for {target.triple} needs {names[0]}, it is not installed; apt-get install {package}")


def link(compiler: str, folder: Path, source: str, objects: list[str]) -> Path:
    """Compile a C program and link it with objects, statically: an emulator needs no library of its processor.

    Args:
        compiler: C compiler for the target.
        folder: Folder with the objects and headers.
        source: Text of the program.
        objects: Names of the objects.

    Raises:
        MachineError: The compiler refuses.
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
    """Run a program on an image; what it writes may be as long as that, and no longer.

    Args:
        emulator: What runs it.
        program: The program, statically linked.
        image: Input of the program.
        seconds: Seconds that it may take.
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
