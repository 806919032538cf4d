"""Importer of ``torch.export`` programs through torch-mlir."""

from collections.abc import Mapping
from pathlib import Path

from payload.importers.converter import start_converter

PACKAGES = {"torch_mlir": "import", "torch": "torch"}


def import_pt2(path: Path, folder: Path, sizes: Mapping[str, int]) -> None:
    """Import a ``.pt2`` file, as ``torch.export.save`` writes it, into a folder.

    Args:
        path: File to read.
        folder: Folder to write.
        sizes: Sizes of dimensions that the model leaves open, by the input and axis that has them: ``x.0``.

    Raises:
        PayloadError: The file is no exported program, or one that cannot be imported; the error names the op.
    """
    start_converter("payload.importers.pt2_convert", PACKAGES, path, folder, sizes)
