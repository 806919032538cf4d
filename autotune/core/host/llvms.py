"""Load order of two LLVMs in one process: Triton's, which PyTorch loads to compile, must precede MLIR's."""

import ctypes
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import find_spec


def load_triton() -> None:
    """Load the native library of Triton, where it is installed, without importing the Python package.

    Loaded after MLIR's bindings, as by `torch.compile`, it would resolve symbols to their LLVM instead of its own, and
    crash the process. Loading takes 50 ms.
    """
    package = find_spec("triton")
    for folder in (package.submodule_search_locations or []) if package is not None else []:
        library = PathFinder.find_spec("libtriton", [f"{folder}/_C"])
        if library is not None and library.origin is not None:
            with suppress(OSError):  # importing Triton raises the reason
                ctypes.CDLL(library.origin)
