"""Programs of ``torch.export`` in files: pickles in them run no code, weights are mapped where they lie."""

import os
import zipfile
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.host.tensor_file import TensorEntry, TensorInFile
from autotune.core.payload import Array

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

TENSORS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # torch.load reads it: pickles may then hold tensors alone
READ_TENSORS = "_build_file_map"  # PyTorch's function that copies an archive's tensors; others may lack it


class ProgramFile:
    """A file of a program: an archive, whose tensors are bytes as they are in memory.

    Args:
        path: The file.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @cached_property
    def _bytes(self) -> "np.memmap[Any, np.dtype[np.uint8]]":
        return np.memmap(self.path, np.uint8, "c")

    def load(self) -> "ExportedProgram":
        """Read the program; PyTorch's own reader would fall back to pickles that run code.

        Raises:
            Exception: The file is no program, or its weights are more than tensors.
        """
        os.environ[TENSORS_ONLY] = "1"
        import torch  # noqa: PLC0415 - comes with an extra
        from torch.export.pt2_archive import _package  # noqa: PLC0415

        if not hasattr(_package, READ_TENSORS) or not self._is_plain():
            return torch.export.load(self.path)
        theirs = getattr(_package, READ_TENSORS)
        setattr(_package, READ_TENSORS, self._mapped)
        try:
            return torch.export.load(self.path)
        finally:
            setattr(_package, READ_TENSORS, theirs)

    def entry_of(self, array: Array) -> TensorInFile | None:
        """Entry of the file for an array; `None` where the array lies elsewhere, or is not in one piece."""
        start = array.ctypes.data - self._bytes.ctypes.data
        if not array.flags.c_contiguous or not array.nbytes or not 0 <= start <= self._bytes.size - array.nbytes:
            return None
        return TensorInFile(self.path, TensorEntry.at(start, array.dtype, array.shape))

    def _is_plain(self) -> bool:
        """Whether everything in the archive is stored as it is: another program may have compressed it."""
        if not zipfile.is_zipfile(self.path):
            return False
        with zipfile.ZipFile(self.path) as archive:
            return all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())

    def _mapped(self, reader: Any, config: Any, folder: str) -> dict[str, Any]:  # noqa: ANN401 - of PyTorch
        """Tensors of a folder of the archive by their names there, each of one axis, mapped.

        Args:
            reader: PyTorch's reader of the archive.
            config: What the archive says of the folder.
            folder: The folder.
        """
        import torch  # noqa: PLC0415
        from torch._export.serde.serialize import deserialize_scalar_type  # noqa: PLC0415

        found = {}
        for entry in config.config.values():
            if entry.use_pickle or entry.path_name in found:
                continue
            name, dtype = os.path.join(folder, entry.path_name), deserialize_scalar_type(entry.tensor_meta.dtype)
            start, size = (
                reader.archive_file.get_record_offset(name),
                reader.archive_file.get_record_size(name),
            )
            data = self._bytes[start : start + size]
            if start % dtype.itemsize:
                data = np.array(data)
            found[entry.path_name] = torch.from_numpy(data).view(dtype)
        return found


def call_arguments(program: "ExportedProgram", tensors: Iterable[Any]) -> tuple[Any, ...]:
    """What a program is called with: tensors, and the values that its other arguments were exported with, in order.

    Bytes without a sign, which importers widen, are narrow again.
    """
    from torch.export.graph_signature import InputKind, TensorArgument  # noqa: PLC0415 - comes with an extra

    left, narrow = iter(tensors), {node.name for node in program.graph.find_nodes(op="placeholder") if is_byte(node)}
    given: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument):
            tensor = next(left)
            given.append(tensor.byte() if spec.arg.name in narrow else tensor)
        elif spec.kind is InputKind.USER_INPUT:
            given.append(getattr(spec.arg, "value", None))
    return tuple(given)


def is_byte(node: "Node") -> bool:
    """Tell whether a node gives bytes without a sign."""
    return str(getattr(node.meta.get("val"), "dtype", "")) == "torch.uint8"


def load_program(path: Path | str) -> "ExportedProgram":
    """Read a program, as `ProgramFile.load` does.

    Raises:
        Exception: The file is no program, or its weights are more than tensors.
    """
    return ProgramFile(path).load()
