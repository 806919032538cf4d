"""Cache of implicitly imported models: one folder per model file, dimension sizes and importer version.

model.onnx --importer, a process of its own--> folder: text, weights, recorded results --reading--> Payload
"""

import hashlib
import os
import shutil
from pathlib import Path

from autotune.compiler.tasks.payload_folder import read_description
from autotune.core.errors import PayloadError
from autotune.core.host.files import why_refused
from autotune.core.host.scratch import Scratch
from autotune.core.plugs.imported import DESCRIPTION, hash_model
from autotune.registry import import_file, importer_of
from autotune.worker.loading.paths import cache


def import_once(spec: str) -> Path:
    """Return the imported folder of a model file; import it if the cache has none for this file and these sizes.

    Raises:
        PayloadError: The file is missing, or cannot be imported.
    """
    folder = folder_of(spec)
    if is_whole(folder):
        return folder
    sources = importer_of(spec).source_hash
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with Scratch(".importing-", folder.parent) as scratch:  # renamed when complete
            import_file(spec, scratch.path / "model")
            if folder_of(spec) != folder:
                changed = spec if importer_of(spec).source_hash == sources else "the code of its importer"
                raise PayloadError(f"a model must stay as it is while it is imported, {changed} changed; do it again")
            if not is_whole(folder):  # else another process was faster
                shutil.rmtree(folder, ignore_errors=True)
                (scratch.path / "model").rename(folder)
    except OSError as error:
        raise PayloadError(
            f"imported models must be kept in {folder.parent}, that is not writable: {why_refused(error)}; "
            f"run autotune import {spec} -o FOLDER"
        ) from error
    return folder


def is_whole(folder: Path) -> bool:
    """Return whether a folder holds an imported model whose external weight files still exist."""
    if not (folder / DESCRIPTION).is_file():
        return False
    return all((folder / each.path).is_file() for each in read_description(folder).weights)


def imported_before(spec: str) -> Path:
    """Return the imported folder of a model file from the cache; do not import it.

    Raises:
        PayloadError: The file is missing, or its current contents have not been imported.
    """
    folder = folder_of(spec)
    if not (folder / DESCRIPTION).is_file():
        raise PayloadError(f"a model must be imported before records of it are read, {spec} is not; tune it once")
    return folder


def folder_of(spec: str) -> Path:
    """Return the path of a model file's folder in the cache, which need not exist.

    Raises:
        PayloadError: The file is missing, or cannot be read.
    """
    path = Path(spec.partition(",")[0])
    if not os.path.isfile(path):
        raise PayloadError(f"a model must be a file, {path} is none; check the path")
    try:
        importer = importer_of(spec)
        parts = importer.source_hash, hash_model(path, importer.files(path)), spec.partition(",")[2]
    except OSError as error:
        raise PayloadError(f"a model must be a readable file, {path} is not: {error.strerror}") from error
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return imports() / f"{path.stem}-{key[:16]}"


def imports() -> Path:
    """Return the cache folder of imported models."""
    return cache() / "imports"
