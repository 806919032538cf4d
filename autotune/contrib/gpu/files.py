"""Names of the files that `tune --target` writes, known without loading anything."""

from pathlib import Path

SCHEDULE, BINARY, PTX, CHOSEN = "schedule.mlir", "kernel.spv", "kernel.ptx", "chosen.json"
PROGRAM, PAYLOAD = "program.json", "payload.mlir"  # launches of a payload of several tasks; its text


def is_kernel_folder(folder: Path) -> bool:
    """Tell whether `tune --target` wrote a folder."""
    return (folder / PAYLOAD).is_file() and any((folder / name).is_file() for name in (PROGRAM, BINARY, PTX))
