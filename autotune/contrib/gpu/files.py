"""Names of the files that `tune --target` writes; this module imports little, for a fast command line."""

import os
from pathlib import Path

from autotune.core.host.files import holds
from autotune.store.folders import OUTPUT, slug

SCHEDULE, BINARY, PTX, CHOSEN = "schedule.mlir", "kernel.spv", "kernel.ptx", "chosen.json"
PROGRAM, PAYLOAD = "program.json", "payload.mlir"  # launches of a payload of several tasks; its text
STORE = "store.journal"  # trials of all candidates for a device
KERNELS = "kernels"  # study attribute with the `SweepFacts`, and prefix of the study's name
LOOKED_AT = 1 << 16  # bytes of a file that are searched for studies of kernels
NVPTX = "nvptx"  # prefix of the names of NVIDIA's chips


def home_of(device: str) -> Path:
    """Return the output folder of a device."""
    return OUTPUT / slug(f"for-{device}")


def task_folder(whole: Path, task: str, *, several: bool) -> Path:
    """Return the folder of a task's kernel: the payload's folder, or a subfolder if it has several tasks."""
    return whole / slug(task) if several else whole


def is_kernel_folder(folder: Path) -> bool:
    """Return whether `tune --target` wrote a folder."""
    return holds(folder, PAYLOAD) and any(holds(folder, name) for name in (PROGRAM, BINARY, PTX))


def holds_kernels(location: str | Path) -> bool:
    """Return whether a file is a store that begins with a study of kernels, without importing the store."""
    path = Path(location)
    if not os.path.isfile(path):
        return False
    with path.open("rb") as file:
        return f'"{KERNELS} of '.encode() in file.read(LOOKED_AT)
