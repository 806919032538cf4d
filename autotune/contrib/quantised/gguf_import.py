"""Importer of GGUF files, read by package `gguf` in a separate process."""

from collections.abc import Mapping
from pathlib import Path

from autotune.core.plugs.imported import Importer
from payload.importers.converter import start_converter


def read_model(path: Path, folder: Path, sizes: Mapping[str, int]) -> None:
    """Import a language model of a ``.gguf`` file into a folder.

    Args:
        path: File to read.
        folder: Folder to write.
        sizes: Tokens per call, 1 to decode, and positions of the caches.

    Raises:
        PayloadError: The file is not a model, or one that cannot be imported.
    """
    start_converter("autotune.contrib.quantised.gguf_convert", {"gguf": "gguf"}, path, folder, sizes)


import_gguf = Importer(read_model)
