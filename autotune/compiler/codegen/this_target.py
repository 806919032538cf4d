"""This machine as a target: what a file says of it, for others to compile for it."""

import platform

from autotune.compiler.codegen.cross import host_processor
from autotune.core.errors import MachineError
from autotune.core.host.machine import this_machine
from autotune.core.target import EXTENSIONS, Target

EMULATED = "max"  # whatever QEMU can


def this_target() -> Target:
    """What this machine is: its processor and features as LLVM knows them, its caches as the system lists them.

    Raises:
        MachineError: Nothing is compiled here for its architecture.
    """
    architecture, machine = platform.machine(), this_machine()
    if architecture not in EXTENSIONS or machine.isa not in EXTENSIONS[architecture]:
        raise MachineError(f"a machine must be one of {', '.join(EXTENSIONS)}; this is {architecture}, {machine.isa}")
    cpu, features = host_processor()
    emulated = "" if machine.isa == "avx512f" else EMULATED  # which QEMU does not know
    source = f"measured by autotune doctor --write: {machine.cpu}"
    return Target(
        machine.microarchitecture, f"{architecture}-linux-gnu", cpu, features, machine, source, emulated_as=emulated
    )
