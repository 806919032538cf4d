"""`--as cmake`: a package folder for CMake's ``find_package``."""

from pathlib import Path

from autotune.contrib.emit.c_library import write_library
from autotune.contrib.emit.c_source import SharedLibrary, header_text
from autotune.core.host.whole_file import write_file

CONFIG = """\
# {about}
get_filename_component(_prefix "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
if(NOT TARGET autotune::{stem})
  add_library(autotune::{stem} SHARED IMPORTED)
  set_target_properties(autotune::{stem} PROPERTIES
    IMPORTED_LOCATION "${{_prefix}}/lib/lib{name}.so"
    IMPORTED_SONAME "lib{name}.so"
    INTERFACE_INCLUDE_DIRECTORIES "${{_prefix}}/include")
endif()
set({name}_WEIGHTS "{weights}")
unset(_prefix)
"""


def write_cmake(library: SharedLibrary, output: Path) -> list[Path]:
    """Write ``include``, ``lib`` and ``lib/cmake/NAME``, whose target is ``autotune::PAYLOAD``, to a folder.

    Raises:
        BundleError: There is no compiler, or it fails.
    """
    name = library.name
    include, lib = output / "include", output / "lib"
    config = lib / "cmake" / name
    for folder in (include, config):
        folder.mkdir(parents=True, exist_ok=True)
    header = include / f"{name}.h"
    write_file(header, header_text(library))
    weights = library.weights.path.resolve() if library.weights else ""
    path = config / f"{name}Config.cmake"
    stem = name.removeprefix("autotune_")
    write_file(path, CONFIG.format(about=library.about, stem=stem, name=name, weights=weights))
    return [write_library(library, lib), header, path]
