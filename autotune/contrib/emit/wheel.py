"""`--as wheel`: a Python wheel of the library that depends only on NumPy.

Source: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

import hashlib
import tempfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from autotune.contrib.emit.c_library import write_library
from autotune.contrib.emit.c_source import SharedLibrary
from autotune.core.host.whole_file import whole_file
from autotune.core.payload import DTYPES

VERSION, TAG = "1.0", "py3-none-linux_x86_64"
HERE = Path(__file__).parent
MODULE = '''\
"""{about}.

    import {name}
    function = {name}.load()
    {results} = function({given})
"""

from pathlib import Path

from {name}._function import CallArgument, Function, LibraryError

ARGUMENTS = (
{arguments})
__all__ = ["ARGUMENTS", "CallArgument", "Function", "LibraryError", "load"]


def load(threads: int = 0, weights: "str | Path | None" = None) -> Function:
    """The function, which any number of threads may call.

    Args:
        threads: Threads of one call; 0 for as many as it was tuned on.
        weights: File of weights; by default the one in this package.
    """
    here = Path(__file__).parent
    return Function(here / "lib{name}.so", "{name}", ARGUMENTS, weights or {weights}, threads{sizes})
'''


def write_wheel(library: SharedLibrary, output: Path) -> list[Path]:
    """Write a wheel to a folder.

    Raises:
        BundleError: There is no compiler, or it fails.
    """
    name = library.name
    path = output / f"{name}-{VERSION}-{TAG}.whl"
    about = f"{name}-{VERSION}.dist-info"
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        shared = write_library(library, Path(folder))
        files: dict[str, Path | str] = {
            f"{name}/__init__.py": module_text(library),
            f"{name}/_function.py": HERE / "standalone.py",
            f"{name}/{shared.name}": shared,
            f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n"
            f"Summary: {library.about}\nRequires-Python: >=3.10\nRequires-Dist: numpy>=1.25\n",
            f"{about}/WHEEL": f"Wheel-Version: 1.0\nGenerator: autotune\nRoot-Is-Purelib: false\nTag: {TAG}\n",
        }
        if library.weights is not None:
            files[f"{name}/{library.weights.path.name}"] = library.weights.path
        pack(path, files, f"{about}/RECORD")
    return [path]


def module_text(library: SharedLibrary) -> str:
    """Return the source of the package's ``__init__``."""
    arguments = "".join(
        f"    CallArgument({name!r}, {a.role!r}, {numpy_type(a.dtype)!r}, {library.shape(a)!r}),\n"
        for a, name in library.call_arguments
    )
    return MODULE.format(
        about=library.about,
        name=library.name,
        sizes=f", {tuple(library.dim_names)!r}" if library.any_size else "",
        arguments=arguments,
        given=", ".join(name for a, name in library.call_arguments if a.role != "output"),
        results=", ".join(name for a, name in library.call_arguments if a.role == "output") or "_",
        weights=f"here / {library.weights.path.name!r}" if library.weights else None,
    )


def numpy_type(dtype: str) -> str:
    """Return NumPy's name of an element type; bf16, which NumPy lacks, is passed as ``uint16``."""
    return "uint16" if dtype == "bf16" else DTYPES[dtype].name


def pack(path: Path, files: Mapping[str, Path | str], record: str) -> None:
    """Write files, and a record of their hashes, as a wheel."""
    lines = []
    with whole_file(path) as fresh, zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            if isinstance(content, str):
                wheel.writestr(name, content)
                digest, size = hashlib.sha256(content.encode()).digest(), len(content.encode())
            else:
                wheel.write(content, name)
                with content.open("rb") as file:
                    digest, size = hashlib.file_digest(file, "sha256").digest(), content.stat().st_size
            lines.append(f"{name},sha256={urlsafe_b64encode(digest).decode().rstrip('=')},{size}\n")
        wheel.writestr(record, "".join((*lines, f"{record},,\n")))
