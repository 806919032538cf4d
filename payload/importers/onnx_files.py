"""External data files of ONNX models, which are as much part of the model as the file itself."""

import mmap
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from autotune.core.errors import PayloadError
from autotune.core.host.tensor_file import TensorEntry, TensorInFile

LOCATION = "location"  # the key under which a tensor names the file that holds its data


def external_files(path: Path) -> tuple[Path, ...]:
    """Return all external data files of a model: of initializers, attributes, subgraphs and functions.

    A file that cannot be parsed has none; its import reports the error.

    Raises:
        PayloadError: A file is missing, or outside of the model's folder.
    """
    if find_spec("onnx") is None or not names_files(path):
        return ()
    import onnx  # noqa: PLC0415 - comes with an extra

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # protobuf and file access have unrelated exception types
        return ()
    locations = sorted({entry.value for entry in entries_of(model) if entry.key == LOCATION})
    return tuple(checked(path, location) for location in locations)


def names_files(path: Path) -> bool:
    """Return whether a file may refer to external data, by a search of its bytes: most files do not."""
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(LOCATION.encode()) >= 0


def lying_in_files(graph: Any, names: Collection[str], model: Path) -> dict[str, TensorInFile]:  # noqa: ANN401
    """Return the file locations of initializers that are external data, by name.

    Args:
        graph: Graph, a protobuf message.
        names: Names of the requested initializers, whose element types must have whole bytes.
        model: Path of the model.

    Raises:
        PayloadError: A file is missing, or does not hold a tensor.
    """
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data  # noqa: PLC0415 - comes with an extra
    from onnx.helper import tensor_dtype_to_np_dtype  # noqa: PLC0415

    locations = {}
    for tensor in graph.initializer:
        if tensor.name not in names or not uses_external_data(tensor):
            continue
        info = ExternalDataInfo(tensor)
        file, start = checked(model, info.location), info.offset or 0
        dtype, size = np.dtype(tensor_dtype_to_np_dtype(tensor.data_type)), file.stat().st_size
        entry = TensorEntry.at(start, dtype, tuple(tensor.dims))
        if entry.end > size or info.length not in {None, entry.end - start}:
            raise PayloadError(
                f"weight {tensor.name[:200]} must be bytes {start} to {entry.end} of {info.location[:200]}, the model "
                f"names {info.length or 'all'} of the {size} there; export it again"
            )
        locations[tensor.name] = TensorInFile(file, entry)
    return locations


def entries_of(message: Any) -> Iterator[Any]:  # noqa: ANN401 - of protobuf
    """Yield every external data entry in a message and its nested messages."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for each in value if field.is_repeated else [value]:
            if field.name == "external_data":
                yield each
            else:
                yield from entries_of(each)


def checked(path: Path, location: str) -> Path:
    """Return the path of an external data location.

    Raises:
        PayloadError: The file is missing, unreadable, a symbolic link, or outside of the model's folder.
    """
    file, folder = path.parent / location, path.parent.resolve()
    if not location.isprintable() or not file.resolve().is_relative_to(folder) or Path(location).is_absolute():
        raise PayloadError(
            f"weights of {path} must lie in its folder, the model names {location[:200]!r}; copy them beside it"
        )
    try:
        is_link, is_there = file.is_symlink(), file.is_file()
    except OSError as error:  # a name that is too long, or a folder that is closed to the user
        raise PayloadError(
            f"weights of {path} must be in {location[:200]}, that cannot be read: {error.strerror}; copy them beside it"
        ) from error
    if is_link:  # ONNX rejects links as well
        raise PayloadError(
            f"weights of {path} must be in {location[:200]}, that is a link to a file; copy the file there"
        )
    if not is_there:
        raise PayloadError(
            f"weights of {path} must be in the file that the model names, {location[:200]!r} is none; copy it beside it"
        )
    return file
