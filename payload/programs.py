"""Load ``torch.export`` programs from files: pickles cannot run code, and weights are memory-mapped."""

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

TENSORS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # environment variable of torch.load: pickles may hold tensors only
READ_TENSORS = "_build_file_map"  # PyTorch's function that copies an archive's tensors; some versions lack it


class ProgramFile:
    """File of an exported program: a zip archive, whose tensors are stored as they are in memory.

    Args:
        path: Path of the file.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @cached_property
    def _bytes(self) -> "np.memmap[Any, np.dtype[np.uint8]]":
        return np.memmap(self.path, np.uint8, "c")

    def load(self) -> "ExportedProgram":
        """Load the program without PyTorch's fallback to pickles that can run code.

        Raises:
            Exception: The file is not a program, or its weights contain more than tensors.
        """
        os.environ[TENSORS_ONLY] = "1"
        import torch  # noqa: PLC0415 - comes with an extra
        from torch.export.pt2_archive import _package  # noqa: PLC0415

        if not hasattr(_package, READ_TENSORS) or not self._is_plain():
            return torch.export.load(self.path)
        original = getattr(_package, READ_TENSORS)
        setattr(_package, READ_TENSORS, self._mapped)
        try:
            return torch.export.load(self.path)
        finally:
            setattr(_package, READ_TENSORS, original)

    def entry_of(self, array: Array) -> TensorInFile | None:
        """Return the file entry of an array; `None` where the array is not mapped from this file, or not contiguous."""
        start = array.ctypes.data - self._bytes.ctypes.data
        if not array.flags.c_contiguous or not array.nbytes or not 0 <= start <= self._bytes.size - array.nbytes:
            return None
        return TensorInFile(self.path, TensorEntry.at(start, array.dtype, array.shape))

    def _is_plain(self) -> bool:
        """Return whether all entries of the archive are uncompressed; another program may have compressed them."""
        if not zipfile.is_zipfile(self.path):
            return False
        with zipfile.ZipFile(self.path) as archive:
            return all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())

    def _mapped(self, reader: Any, config: Any, folder: str) -> dict[str, Any]:  # noqa: ANN401 - of PyTorch
        """Map the tensors of a folder of the archive, each as a 1-D tensor, by file name.

        Stands in for PyTorch's `READ_TENSORS`. A tensor whose offset is not aligned to its element size is copied.

        Args:
            reader: PyTorch's reader of the archive.
            config: Metadata of the folder's tensors.
            folder: Folder inside the archive.
        """
        import torch  # noqa: PLC0415
        from torch._export.serde.serialize import deserialize_scalar_type  # noqa: PLC0415

        tensors = {}
        for entry in config.config.values():
            if entry.use_pickle or entry.path_name in tensors:
                continue
            name, dtype = os.path.join(folder, entry.path_name), deserialize_scalar_type(entry.tensor_meta.dtype)
            start, size = (
                reader.archive_file.get_record_offset(name),
                reader.archive_file.get_record_size(name),
            )
            data = self._bytes[start : start + size]
            if start % dtype.itemsize:
                data = np.array(data)
            tensors[entry.path_name] = torch.from_numpy(data).view(dtype)
        return tensors


def call_arguments(program: "ExportedProgram", tensors: Iterable[Any]) -> tuple[Any, ...]:
    """Return the arguments to call a program with: tensors, and the values its other arguments were exported with.

    Tensors of u8 parameters, which importers widen, are converted back to u8.
    """
    from torch.export.graph_signature import InputKind, TensorArgument  # noqa: PLC0415 - comes with an extra

    rest, narrow = iter(tensors), {node.name for node in program.graph.find_nodes(op="placeholder") if is_byte(node)}
    arguments: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument):
            tensor = next(rest)
            arguments.append(tensor.byte() if spec.arg.name in narrow else tensor)
        elif spec.kind is InputKind.USER_INPUT:
            arguments.append(getattr(spec.arg, "value", None))
    return tuple(arguments)


def is_byte(node: "Node") -> bool:
    """Return whether the result of a node has element type u8."""
    return str(getattr(node.meta.get("val"), "dtype", "")) == "torch.uint8"


def load_program(path: Path | str) -> "ExportedProgram":
    """Load a program with `ProgramFile.load`.

    Raises:
        Exception: The file is not a program, or its weights contain more than tensors.
    """
    return ProgramFile(path).load()
