"""Names of the C library, which code of MLIR and LLVM calls: a function of the user's must not replace them."""

import ctypes
from functools import cache

from mlir import ir

from autotune.compiler.ir.module import symbol, visibility

LIBC, MATHEMATICS = "libc.so.6", "libm.so.6"
CALLED = ("malloc", "free", "aligned_alloc", "memcpy", "memmove", "memset")  # by lowered code, besides mathematics


def leave_names_of_c(module: ir.Module) -> bool:
    """Give what a module calls as the C library calls something another name, in place; tells whether there is any.

    Lowered code allocates by ``malloc`` and copies by ``memcpy``: a function of that name would be called instead, or
    the two be of different types. What is private replaces nothing that others call.
    """
    named = {name: op for op in module.body.operations if (name := symbol(op)) is not None}
    names = set(named)
    taken = sorted(name for name, op in named.items() if (is_called if visibility(op) == "private" else is_of_c)(name))
    for name in taken:
        other = name
        while other in names or is_of_c(other):
            other += "_"
        names.add(other)
        ir.SymbolTable.replace_all_symbol_uses(name, other, module.operation)
        ir.SymbolTable.set_symbol_name(named[name], other)
    return bool(taken)


def is_called(name: str) -> bool:
    """Tell whether lowered code may call a function of that name."""
    return name in CALLED or (is_of_c(name) and not has(LIBC, name))


def is_of_c(name: str) -> bool:
    """Tell whether the C library has a function or variable of a name."""
    return has(MATHEMATICS, name)


def has(library: str, name: str) -> bool:
    """Tell whether a library, or one that it needs, has something of a name."""
    return name.isascii() and name.isidentifier() and hasattr(loaded(library), name)


@cache
def loaded(library: str) -> ctypes.CDLL:
    """A library as this process has loaded it."""
    return ctypes.CDLL(library)
