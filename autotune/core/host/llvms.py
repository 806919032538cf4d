"""Two LLVMs in one process: that of Triton, which PyTorch loads to compile, must be there before that of MLIR."""

import ctypes
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import find_spec


def load_triton() -> None:
    """Load the library of Triton, where it is installed; nothing of Python is imported.

    Loaded after MLIR's bindings, as `torch.compile` does, it finds symbols of their LLVM instead of its own, and ends
    the process. It takes a twentieth of a second.
    """
    package = find_spec("triton")
    for folder in (package.submodule_search_locations or []) if package is not None else []:
        library = PathFinder.find_spec("libtriton", [f"{folder}/_C"])
        if library is not None and library.origin is not None:
            with suppress(OSError):  # whoever imports Triton is told why
                ctypes.CDLL(library.origin)
