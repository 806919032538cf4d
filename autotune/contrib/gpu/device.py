"""Target devices of kernels: their limits, and the parameters of the cost model."""

from dataclasses import dataclass

from autotune.contrib.gpu.files import NVPTX
from autotune.core.errors import MachineError
from autotune.core.printable import one_line

WORKGROUP_BYTES = 32 << 10  # limit of lavapipe; also applied to PTX, since kernels are verified on lavapipe
MOST_THREADS = 1024  # of a block
GRID = 65_535  # blocks along an axis that every device supports


@dataclass(frozen=True)
class Device:
    """A target device.

    Attributes:
        name: Name for `--target`.
        chip: Chip that PTX is assembled for; empty for Vulkan.
        workgroup_bytes: Maximum workgroup memory of a block, in bytes.
        threads: Maximum number of threads of a block.
        cores: Number of multiprocessors, for the cost model.
        lanes: Multiply-adds of f32 per cycle and multiprocessor.
        issued: Warp instructions issued per cycle and multiprocessor.
        bytes_per_cycle: Bytes per cycle and multiprocessor from global memory, without caches.
        resident: Maximum number of resident threads of a multiprocessor.
        blocks: Maximum number of resident blocks of a multiprocessor.
        shared_bytes: Workgroup memory of a multiprocessor, in bytes.
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
        """One-line description."""
        room = f"{self.threads} threads and {self.workgroup_bytes >> 10} KiB of workgroup memory a block"
        board = f" ({CHIPS[self.chip].name})" if self.chip else ""
        format = f"PTX for {self.chip}{board}, never run" if self.chip else "SPIR-V, verified on lavapipe"
        return f"{format}; at most {room}"


VULKAN, DEFAULT_CHIP = Device("vulkan"), "sm_90"


@dataclass(frozen=True)
class Board:
    """A chip on a commercial board, as documented by NVIDIA.

    Lanes, threads, blocks and workgroup memory are from the table of compute capabilities in the CUDA C++ Programming
    Guide; multiprocessors, bandwidth and boost clock from the board's data sheet.

    Attributes:
        name: Name of the board.
        cores: Number of multiprocessors.
        lanes: Multiply-adds of f32 per cycle and multiprocessor.
        resident: Maximum number of resident threads of a multiprocessor.
        blocks: Maximum number of resident blocks of a multiprocessor.
        shared_kib: Workgroup memory of a multiprocessor, in KiB.
        gigabytes: Memory bandwidth, in GB/s.
        gigahertz: Boost clock, in GHz.
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
        """Memory bandwidth, in bytes per cycle and multiprocessor."""
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
    """Return the device of a chip of `CHIPS`."""
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
    """Return the device that an option names.

    Args:
        spec: Value of the option.
        option: Name of the option, for the message.

    Raises:
        MachineError: The device is unknown.
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
