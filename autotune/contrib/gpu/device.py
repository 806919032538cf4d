"""Devices that kernels are written for: what they refuse, and what the model of their time counts with."""

from dataclasses import dataclass

from autotune.core.errors import MachineError
from autotune.core.printable import one_line

WORKGROUP_BYTES = 32 << 10  # what lavapipe has
MOST_THREADS = 1024  # of a block


@dataclass(frozen=True)
class Device:
    """What kernels are written for.

    Attributes:
        name: Name that `--target` knows.
        workgroup_bytes: Most workgroup memory of a block, in bytes.
        threads: Most threads of a block.
        cores: Multiprocessors, for the model.
        lanes: Multiply-adds of f32 a cycle and multiprocessor.
        issued: Instructions of a warp issued a cycle and multiprocessor.
        bytes_per_cycle: Bytes a cycle and multiprocessor from global memory, caches left out.
        resident: Most threads that a multiprocessor holds.
    """

    name: str
    workgroup_bytes: int = WORKGROUP_BYTES
    threads: int = MOST_THREADS
    cores: int = 64
    lanes: int = 128
    issued: int = 4
    bytes_per_cycle: float = 16.0
    resident: int = 2048

    @property
    def summary(self) -> str:
        """A line for people."""
        room = f"{self.threads} threads and {self.workgroup_bytes >> 10} KiB of workgroup memory a block"
        return f"SPIR-V, verified on lavapipe; at most {room}"


VULKAN = Device("vulkan")


def find_device(spec: str) -> Device:
    """The device that `--target` names.

    Raises:
        MachineError: There is none of that name.
    """
    if spec != VULKAN.name:
        raise MachineError(
            f"--target of tune must be {VULKAN.name}, got {one_line(spec)[:60]!r}; "
            "for a processor that is not here give --for"
        )
    return VULKAN
