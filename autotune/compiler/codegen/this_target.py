"""Description of this machine as a target file, so that other machines can compile for it."""

import platform

from autotune.compiler.codegen.cross import host_processor
from autotune.core.errors import MachineError
from autotune.core.host.machine import this_machine
from autotune.core.target import EXTENSIONS, Target

EMULATED = "max"  # QEMU's CPU model with all features


def this_target() -> Target:
    """Return this machine as a target: processor and features as LLVM names them, caches as the system lists them.

    Raises:
        MachineError: Unsupported architecture.
    """
    architecture, machine = platform.machine(), this_machine()
    if architecture not in EXTENSIONS or machine.isa not in EXTENSIONS[architecture]:
        raise MachineError(f"a machine must be one of {', '.join(EXTENSIONS)}; this is {architecture}, {machine.isa}")
    cpu, features = host_processor()
    emulated = "" if machine.isa == "avx512f" else EMULATED  # QEMU does not emulate AVX-512
    source = f"measured by autotune doctor --write: {machine.cpu}"
    return Target(
        machine.microarchitecture, f"{architecture}-linux-gnu", cpu, features, machine, source, emulated_as=emulated
    )
