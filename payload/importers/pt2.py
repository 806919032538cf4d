"""Programs of ``torch.export``, by way of torch-mlir."""

from collections.abc import Mapping
from pathlib import Path

from autotune.core.errors import PayloadError
from payload.importers.converter import start_converter

PACKAGES = {"torch_mlir": "import", "torch": "torch"}


def import_pt2(path: Path, folder: Path, sizes: Mapping[str, int]) -> None:
    """Read a ``.pt2`` file, as ``torch.export.save`` writes it, into a folder.

    Args:
        path: File to read.
        folder: Folder to write.
        sizes: Sizes of dimensions that the model leaves open: there must be none.

    Raises:
        PayloadError: The file is no exported program, or one that cannot be imported; the error names the op.
    """
    if sizes:
        raise PayloadError(f"{path} must be exported at fixed sizes, got {', '.join(sizes)}; export it again without")
    start_converter("payload.importers.pt2_convert", PACKAGES, path, folder, {})
