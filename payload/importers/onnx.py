"""Importer of ONNX models through torch-mlir; PyTorch is not needed."""

from collections.abc import Mapping
from pathlib import Path

from autotune.core.plugs.imported import Importer
from payload.importers.converter import start_converter
from payload.importers.onnx_files import external_files

PACKAGES = {"torch_mlir": "import", "onnx": "import"}


def read_onnx(path: Path, folder: Path, sizes: Mapping[str, int]) -> None:
    """Import an ``.onnx`` file, with external data, into a folder.

    Args:
        path: File to read; weights may lie in files beside it.
        folder: Folder to write.
        sizes: Sizes of dimensions that the model leaves open, by name.

    Raises:
        PayloadError: The file is no model, or one that cannot be imported; the error names the op.
    """
    start_converter("payload.importers.onnx_convert", PACKAGES, path, folder, sizes, files=external_files)


import_onnx = Importer(read_onnx, external_files)
