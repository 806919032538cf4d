"""Names in C: identifiers for what MLIR and users call as they like."""

import re


def c_name(entry: str) -> str:
    """The C function of an MLIR function."""
    return f"autotune_{identifier(entry)}"


def identifier(name: str) -> str:
    """The letters and digits of a name that C knows, the others as underscores.

    Example:
        >>> identifier("é 2.5")
        '__2_5'
    """
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def c_symbol(entry: str) -> str:
    """The symbol of an emitted function that takes memref descriptors."""
    return f"{c_name(entry)}_memrefs"
