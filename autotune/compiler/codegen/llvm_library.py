"""LLVM's library and programs: where the wheel that is installed with MLIR has them; and texts that it gives away."""

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PARTS = ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser")
BACK_ENDS = ("X86", "AArch64")


def find_file(*parts: str, package: str = "llvm") -> Path | None:
    """A file of LLVM's package, or of another, such as `bin`, `llc`; `None` where it is not installed."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    return next((path for folder in folders or () if (path := Path(folder, *parts)).exists()), None)


@cache
def open_llvm() -> ctypes.CDLL | None:
    """LLVM's C interface, its back ends ready; `None` where it is not installed.

    Raises:
        AttributeError: The library lacks one of them.
    """
    path = find_file("lib", "libLLVM.so")
    if path is None:
        return None
    library = ctypes.CDLL(str(path))
    for back_end in BACK_ENDS:
        for part in PARTS:
            getattr(library, f"LLVMInitialize{back_end}{part}")()
    library.LLVMGetErrorMessage.restype, library.LLVMGetErrorMessage.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    for free in (library.LLVMDisposeMessage, library.LLVMDisposeErrorMessage):
        free.restype, free.argtypes = None, (ctypes.c_void_p,)
    return library


def take_text(library: ctypes.CDLL, text: int | None) -> str:
    """A text that LLVM gave away, freed."""
    if not text:
        return "no message"
    found = ctypes.string_at(text).decode(errors="replace")
    library.LLVMDisposeMessage(text)
    return found


def take_error(library: ctypes.CDLL, error: int | ctypes.c_void_p) -> str:
    """What LLVM says of an error, which is gone then."""
    text = library.LLVMGetErrorMessage(error)
    found = ctypes.string_at(text).decode(errors="replace")
    library.LLVMDisposeErrorMessage(text)
    return found
