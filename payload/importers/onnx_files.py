"""Files that an ONNX file keeps its weights in: they are part of the model, as much as the file itself is."""

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
    """Every file that tensors of a model lie in, wherever in it they are: initializers, attributes, graphs, functions.

    A file that cannot be parsed has none: its import says what is wrong with it.

    Raises:
        PayloadError: A file is missing, or lies outside of the model's folder.
    """
    if find_spec("onnx") is None or not names_files(path):
        return ()
    import onnx  # noqa: PLC0415 - comes with an extra

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # protobuf and files each raise their own
        return ()
    locations = sorted({entry.value for entry in entries_of(model) if entry.key == LOCATION})
    return tuple(checked(path, location) for location in locations)


def names_files(path: Path) -> bool:
    """Return whether a file may name others: a look at its bytes, as most name none."""
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(LOCATION.encode()) >= 0


def lying_in_files(graph: Any, names: Collection[str], model: Path) -> dict[str, TensorInFile]:  # noqa: ANN401
    """Where initializers lie that are in other files, by name.

    Args:
        graph: The graph, of protobuf.
        names: Initializers that are wanted, of elements of whole bytes.
        model: The model's file.

    Raises:
        PayloadError: A file is missing, or does not hold a tensor.
    """
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data  # noqa: PLC0415 - comes with an extra
    from onnx.helper import tensor_dtype_to_np_dtype  # noqa: PLC0415

    found = {}
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
        found[tensor.name] = TensorInFile(file, entry)
    return found


def entries_of(message: Any) -> Iterator[Any]:  # noqa: ANN401 - of protobuf
    """Every entry on external data in a message and those inside it."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for each in value if field.is_repeated else [value]:
            if field.name == "external_data":
                yield each
            else:
                yield from entries_of(each)


def checked(path: Path, location: str) -> Path:
    """The file of a location.

    Raises:
        PayloadError: No file is there, a link to one, or one outside of the model's folder.
    """
    file, folder = path.parent / location, path.parent.resolve()
    if not location.isprintable() or not file.resolve().is_relative_to(folder) or Path(location).is_absolute():
        raise PayloadError(
            f"weights of {path} must lie in its folder, the model names {location[:200]!r}; copy them beside it"
        )
    if file.is_symlink():  # which ONNX refuses, in words of its own
        raise PayloadError(
            f"weights of {path} must be in {location[:200]}, that is a link to a file; copy the file there"
        )
    if not file.is_file():
        raise PayloadError(f"weights of {path} must be in {location[:200]}, that is no file; copy it beside the model")
    return file
