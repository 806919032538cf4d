"""Programs of ``torch.export`` in files: read without running what pickles in them say."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram

TENSORS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # torch.load reads it: pickles may then hold tensors alone


def call_arguments(program: "ExportedProgram", tensors: Iterable[Any]) -> tuple[Any, ...]:
    """What a program is called with: tensors, and the values that its other arguments were exported with, in order."""
    from torch.export.graph_signature import InputKind, TensorArgument  # noqa: PLC0415 - comes with an extra

    left = iter(tensors)
    asked = [spec.arg for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    return tuple(next(left) if isinstance(each, TensorArgument) else getattr(each, "value", None) for each in asked)


def load_program(path: Path | str) -> "ExportedProgram":
    """Read a program; PyTorch's own reader would fall back to pickles that run code.

    Raises:
        Exception: The file is no program, or its weights are more than tensors.
    """
    os.environ[TENSORS_ONLY] = "1"
    import torch  # noqa: PLC0415 - comes with an extra

    return torch.export.load(path)
