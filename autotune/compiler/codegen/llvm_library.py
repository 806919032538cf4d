"""Locate libLLVM and LLVM's tools in the wheel that is installed with MLIR; take ownership of returned strings."""

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PARTS = ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser")
BACK_ENDS = ("X86", "AArch64")


def find_file(*parts: str, package: str = "llvm") -> Path | None:
    """Return the path of a file in LLVM's or another package, such as `bin`, `llc`; `None` if it is not installed."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    return next((path for folder in folders or () if (path := Path(folder, *parts)).exists()), None)


@cache
def open_llvm() -> ctypes.CDLL | None:
    """Load libLLVM and initialize its back ends; `None` if it is not installed.

    Raises:
        AttributeError: The library lacks a back end.
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
    """Copy a string that LLVM returned, and free it."""
    if not text:
        return "no message"
    message = ctypes.string_at(text).decode(errors="replace")
    library.LLVMDisposeMessage(text)
    return message


def take_error(library: ctypes.CDLL, error: int | ctypes.c_void_p) -> str:
    """Return the message of an LLVM error, which this consumes."""
    text = library.LLVMGetErrorMessage(error)
    message = ctypes.string_at(text).decode(errors="replace")
    library.LLVMDisposeErrorMessage(text)
    return message
