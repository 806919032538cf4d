"""Rename functions that clash with the C library, as code that MLIR and LLVM generate calls it."""

import ctypes
from functools import cache

from mlir import ir

from autotune.compiler.ir.module import symbol, visibility

LIBC, MATHEMATICS = "libc.so.6", "libm.so.6"
CALLED = ("malloc", "free", "aligned_alloc", "memcpy", "memmove", "memset")  # called by lowered code, besides libm


def leave_names_of_c(module: ir.Module) -> bool:
    """Rename symbols of a module that clash with the C library, in place; return whether there were any.

    Lowered code allocates by ``malloc`` and copies by ``memcpy``: a function of that name would be called instead, or
    the two declarations would have different types. A private symbol is only renamed if lowered code may call it, as it
    does not replace a library function otherwise.
    """
    named = {name: op for op in module.body.operations if (name := symbol(op)) is not None}
    names = set(named)
    clashing = sorted(
        name for name, op in named.items() if (is_called if visibility(op) == "private" else is_of_c)(name)
    )
    for name in clashing:
        new_name = name
        while new_name in names or is_of_c(new_name):
            new_name += "_"
        names.add(new_name)
        ir.SymbolTable.replace_all_symbol_uses(name, new_name, module.operation)
        ir.SymbolTable.set_symbol_name(named[name], new_name)
    return bool(clashing)


def is_called(name: str) -> bool:
    """Return whether lowered code may call a function of that name."""
    return name in CALLED or (is_of_c(name) and not has(LIBC, name))


def is_of_c(name: str) -> bool:
    """Return whether the C library, including libm, defines a symbol."""
    return has(MATHEMATICS, name)


def has(library: str, name: str) -> bool:
    """Return whether a library, or one that it depends on, defines a symbol."""
    return name.isascii() and name.isidentifier() and hasattr(loaded(library), name)


@cache
def loaded(library: str) -> ctypes.CDLL:
    """Load a shared library into this process, once."""
    return ctypes.CDLL(library)
