"""Programs of ``torch.export`` in files: read without running what pickles in them say."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.export import ExportedProgram

TENSORS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # torch.load reads it: pickles may then hold tensors alone


def load_program(path: Path | str) -> "ExportedProgram":
    """Read a program; PyTorch's own reader would fall back to pickles that run code.

    Raises:
        Exception: The file is no program, or its weights are more than tensors.
    """
    os.environ[TENSORS_ONLY] = "1"
    import torch  # noqa: PLC0415 - comes with an extra

    return torch.export.load(path)
