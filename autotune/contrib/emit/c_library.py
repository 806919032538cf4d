"""`--as c`: a shared library and its header."""

import tempfile
from pathlib import Path

from autotune.contrib.emit.c_source import SharedLibrary, header_text, source_text
from autotune.contrib.emit.linking import find_compiler, link
from autotune.core.host.whole_file import write_file

CALLS = ("open", "run", "close", "status")


def write_c(library: SharedLibrary, output: Path) -> list[Path]:
    """Write a shared library and its header to a folder.

    Raises:
        BundleError: There is no compiler, or it fails.
    """
    header = output / f"{library.name}.h"
    write_file(header, header_text(library))
    return [write_library(library, output), header]


def write_library(
    library: SharedLibrary, output: Path, more: tuple[str, ...] = (), exported: tuple[str, ...] = ()
) -> Path:
    """Compile and link a shared library.

    Args:
        library: The library.
        output: Folder to write to; without a compiler, the sources and objects are left in its subfolder ``src``.
        more: Additional parts of C source, as for `source_text`.
        exported: Additional exported symbols.

    Raises:
        BundleError: There is no compiler, or it fails.
    """
    files: dict[str, str | bytes] = {
        f"{library.name}.h": header_text(library),
        f"{library.name}.c": source_text(library, more),
    }
    for code in library.codes:
        files[f"{code.symbol}.o"] = code.code
        files |= dict(code.others)
    path = output / f"lib{library.name}.so"
    symbols = (*(f"{library.name}_{call}" for call in CALLS), *exported)
    if find_compiler() is None:
        link(output / "src", files, path, symbols)
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        link(Path(folder), files, path, symbols)
    return path
