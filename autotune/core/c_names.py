"""C identifiers for names of MLIR and of users."""

import re


def c_name(entry: str) -> str:
    """Return the name of the C function for an MLIR function."""
    return f"autotune_{identifier(entry)}"


def identifier(name: str) -> str:
    """Replace every character of a name that C does not allow in identifiers by an underscore.

    Example:
        >>> identifier("é 2.5")
        '__2_5'
    """
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def c_symbol(entry: str) -> str:
    """Return the symbol of an emitted function that takes memref descriptors."""
    return f"{c_name(entry)}_memrefs"
