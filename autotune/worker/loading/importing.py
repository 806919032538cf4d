"""Import of another tool's model file into a folder that a payload is read from."""

from pathlib import Path

from autotune.compiler.tasks.payload_folder import write_text_folder
from autotune.core.errors import PayloadError
from autotune.core.host.files import why_refused
from autotune.core.plugs.imported import DESCRIPTION
from autotune.registry import import_file
from autotune.worker.loading.reading import open_text


def import_model(spec: str, folder: Path) -> None:
    """Import a model file into a folder with the importer for its suffix.

    Args:
        spec: Path of the file, followed by sizes of its dynamic dimensions, such as ``model.onnx,batch=1``.
        folder: Folder to write.

    Raises:
        PayloadError: There is no such importer, the file cannot be imported, or the folder is in use.
    """
    try:
        check_empty(folder)
        if spec.endswith(".mlir"):
            write_text_folder(open_text(spec), folder)
        else:
            import_file(spec, folder)
    except OSError as error:
        raise PayloadError(
            f"a folder must be writable, {folder} is not: {why_refused(error)}; pass --output"
        ) from error


def check_empty(folder: Path) -> None:
    """Refuse a folder with other contents before anything is imported.

    Raises:
        PayloadError: The path is a file, or a non-empty folder that no importer wrote.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not (folder / DESCRIPTION).is_file()):
        raise PayloadError(f"a model must be imported into a folder of its own, {folder} is in use; pass --output")
