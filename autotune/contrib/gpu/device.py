"""Devices that kernels are written for: what they refuse, and what the model of their time counts with."""

from dataclasses import dataclass

from autotune.contrib.gpu.files import NVPTX
from autotune.core.errors import MachineError
from autotune.core.printable import one_line

WORKGROUP_BYTES = 32 << 10  # what lavapipe has, also where the kernel becomes PTX: it is verified there
MOST_THREADS = 1024  # of a block
GRID = 65_535  # blocks along an axis that every device has


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
        blocks: Most blocks that it holds.
        shared_bytes: Workgroup memory of all of them, in bytes.
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
    blocks: int = 16
    shared_bytes: int = 100 << 10

    @property
    def summary(self) -> str:
        """A line for people."""
        room = f"{self.threads} threads and {self.workgroup_bytes >> 10} KiB of workgroup memory a block"
        board = f" ({CHIPS[self.chip].name})" if self.chip else ""
        what = f"PTX for {self.chip}{board}, never run" if self.chip else "SPIR-V, verified on lavapipe"
        return f"{what}; at most {room}"


VULKAN, DEFAULT_CHIP = Device("vulkan"), "sm_90"


@dataclass(frozen=True)
class Board:
    """A chip on a board that is sold, as its maker's documents have it.

    Lanes, threads, blocks and workgroup memory are those of the table of compute capabilities in NVIDIA's CUDA C++
    Programming Guide. Multiprocessors, bandwidth and boost clock are those of the board's data sheet.

    Attributes:
        name: Name of the board.
        cores: Multiprocessors.
        lanes: Multiply-adds of f32 a cycle and multiprocessor.
        resident: Most threads of a multiprocessor.
        blocks: Most blocks of a multiprocessor.
        shared_kib: Workgroup memory of a multiprocessor, in KiB.
        gigabytes: Gigabytes a second from its memory.
        gigahertz: Boost clock.
    """

    name: str
    cores: int
    lanes: int
    resident: int
    blocks: int
    shared_kib: int
    gigabytes: float
    gigahertz: float

    @property
    def bytes_per_cycle(self) -> float:
        """Bytes a cycle and multiprocessor from memory."""
        return self.gigabytes / (self.gigahertz * self.cores)


CHIPS = {
    "sm_80": Board("A100 SXM 40 GB", 108, 64, 2048, 32, 164, 1555, 1.41),
    "sm_86": Board("RTX A6000", 84, 128, 1536, 16, 100, 768, 1.80),
    "sm_89": Board("RTX 4090", 128, 128, 1536, 24, 100, 1008, 2.52),
    "sm_90": Board("H100 SXM", 132, 128, 2048, 32, 228, 3350, 1.98),
    "sm_100": Board("B200", 148, 128, 2048, 32, 228, 8000, 1.96),
    "sm_120": Board("RTX 5090", 170, 128, 1536, 24, 100, 1792, 2.41),
}


def nvidia(chip: str) -> Device:
    """NVIDIA's chip of a name of `CHIPS`."""
    board = CHIPS[chip]
    return Device(
        f"{NVPTX}:{chip}",
        chip,
        cores=board.cores,
        lanes=board.lanes,
        bytes_per_cycle=board.bytes_per_cycle,
        resident=board.resident,
        blocks=board.blocks,
        shared_bytes=board.shared_kib << 10,
    )


def find_device(spec: str, option: str = "--target") -> Device:
    """The device that an option names.

    Args:
        spec: What is given for the option.
        option: The option, for the message.

    Raises:
        MachineError: There is none of that name.
    """
    name, colon, chip = spec.partition(":")
    if spec == VULKAN.name:
        return VULKAN
    if name == NVPTX and (chip in CHIPS or not colon):
        return nvidia(chip or DEFAULT_CHIP)
    raise MachineError(
        f"{option} of a GPU must be {VULKAN.name}, {NVPTX} or {NVPTX}:CHIP of {', '.join(CHIPS)}; "
        f"got {one_line(spec)[:60]!r}; for a processor that is not here give tune --for"
    )
