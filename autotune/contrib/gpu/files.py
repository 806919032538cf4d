"""Names of the files that `tune --target` writes, known without loading anything."""

import os
from pathlib import Path

from autotune.core.host.files import holds
from autotune.store.places import OUTPUT, slug

SCHEDULE, BINARY, PTX, CHOSEN = "schedule.mlir", "kernel.spv", "kernel.ptx", "chosen.json"
PROGRAM, PAYLOAD = "program.json", "payload.mlir"  # launches of a payload of several tasks; its text
STORE = "store.journal"  # what became of all candidates for a device
KERNELS = "kernels"  # the attribute of a study that says what its kernels are of, and how its name begins
LOOKED_AT = 1 << 16  # bytes of a file, for whether it holds kernels
NVPTX = "nvptx"  # how the names of NVIDIA's chips begin


def home_of(device: str) -> Path:
    """Folder of what is found for a device of some name, below the one that everything is written to."""
    return OUTPUT / slug(f"for-{device}")


def task_folder(whole: Path, task: str, *, several: bool) -> Path:
    """Folder of a task's kernel: that of the payload where it has one task, else one of its own in it."""
    return whole / slug(task) if several else whole


def is_kernel_folder(folder: Path) -> bool:
    """Tell whether `tune --target` wrote a folder."""
    return holds(folder, PAYLOAD) and any(holds(folder, name) for name in (PROGRAM, BINARY, PTX))


def holds_kernels(location: str | Path) -> bool:
    """Tell whether a file is a store that begins with kernels, without loading what reads it."""
    path = Path(location)
    if not os.path.isfile(path):
        return False
    with path.open("rb") as file:
        return f'"{KERNELS} of '.encode() in file.read(LOOKED_AT)
