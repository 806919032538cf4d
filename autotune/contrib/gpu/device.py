"""Devices that kernels are written for: what they refuse, and what the model of their time counts with."""

from dataclasses import dataclass

from autotune.core.errors import MachineError
from autotune.core.printable import one_line

WORKGROUP_BYTES = 32 << 10  # what lavapipe has, also where the kernel becomes PTX: it is verified there
MOST_THREADS = 1024  # of a block


@dataclass(frozen=True)
class Device:
    """What kernels are written for.

    Attributes:
        name: Name that `--target` knows.
        chip: Chip that PTX is assembled for; empty of Vulkan.
        workgroup_bytes: Most workgroup memory of a block, in bytes.
        threads: Most threads of a block.
        cores: Multiprocessors, for the model.
        lanes: Multiply-adds of f32 a cycle and multiprocessor.
        issued: Instructions of a warp issued a cycle and multiprocessor.
        bytes_per_cycle: Bytes a cycle and multiprocessor from global memory, caches left out.
        resident: Most threads that a multiprocessor holds.
    """

    name: str
    chip: str = ""
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
        what = f"PTX for {self.chip}, assembled and never run" if self.chip else "SPIR-V, verified on lavapipe"
        return f"{what}; at most {room}"


VULKAN, NVPTX, DEFAULT_CHIP = Device("vulkan"), "nvptx", "sm_90"
# Multiprocessors of a board with each chip, as data sheets have them: proportions for the model, nobody's speed.
CHIPS = {"sm_80": 108, "sm_86": 84, "sm_89": 128, "sm_90": 132, "sm_100": 148, "sm_120": 170}


def nvidia(chip: str) -> Device:
    """NVIDIA's chip of a name of `CHIPS`."""
    return Device(f"{NVPTX}:{chip}", chip, cores=CHIPS[chip])


def find_device(spec: str) -> Device:
    """The device that `--target` names.

    Raises:
        MachineError: There is none of that name.
    """
    name, colon, chip = spec.partition(":")
    if spec == VULKAN.name:
        return VULKAN
    if name == NVPTX and (chip in CHIPS or not colon):
        return nvidia(chip or DEFAULT_CHIP)
    raise MachineError(
        f"--target of tune must be {VULKAN.name}, {NVPTX} or {NVPTX}:CHIP of {', '.join(CHIPS)}; "
        f"got {one_line(spec)[:60]!r}; for a processor that is not here give --for"
    )
