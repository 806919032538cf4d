"""Names of the C library, which code of MLIR and LLVM calls: a function of the user's must not stand in their place."""

import ctypes
from functools import cache

from mlir import ir

from autotune.compiler.ir.module import symbol

LIBRARIES = ("libc.so.6", "libm.so.6")


def leave_names_of_c(module: ir.Module) -> bool:
    """Give what a module calls as the C library calls something another name, in place; tells whether there is any.

    Lowered code allocates by ``malloc`` and copies by ``memcpy``: a function of that name would be called instead, or
    the two be of different types.
    """
    table = ir.SymbolTable(module.operation)
    names = {name for op in module.body.operations if (name := symbol(op)) is not None}
    taken = sorted(name for name in names if is_of_c(name))
    for name in taken:
        op, other = table[name], name
        while other in names or is_of_c(other):
            other += "_"
        names.add(other)
        ir.SymbolTable.replace_all_symbol_uses(name, other, module.operation)
        ir.SymbolTable.set_symbol_name(op, other)
    return bool(taken)


def is_of_c(name: str) -> bool:
    """Tell whether the C library has a function or variable of a name."""
    return name.isascii() and name.isidentifier() and any(hasattr(library, name) for library in c_libraries())


@cache
def c_libraries() -> tuple[ctypes.CDLL, ...]:
    """The C library and its mathematics, as this process has loaded them."""
    return tuple(map(ctypes.CDLL, LIBRARIES))
