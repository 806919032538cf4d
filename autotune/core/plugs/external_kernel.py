"""`ExternalKernel`: machine code for a task from another compiler, or hand-written, as a C function."""

import hashlib
from dataclasses import dataclass

from autotune.core.payload import Payload


@dataclass(frozen=True)
class MadeObject:
    """Object code that a back end generated for a task.

    The function takes a pointer to the first element of every operand, inputs first and the output last, each dense,
    in row-major order, and aligned to its element size only; then `sizes`. It writes the whole output, and nothing
    else.

    Attributes:
        symbol: Name of the function.
        code: Bytes of a relocatable object file for this host, or LLVM IR as text.
        sizes: Trailing arguments of the function, each an ``int64_t``.
        maker: Description of the code's generator, in a line.
        source: Source text that it was generated from, for users.
    """

    symbol: str
    code: bytes
    sizes: tuple[int, ...] = ()
    maker: str = ""
    source: str = ""


@dataclass(frozen=True)
class ExternalKernel:
    """A function of an object file that computes a task.

    Attributes:
        tag: Tag of the task.
        backend: Name of the back end that generated it.
        types: Memref types of the operands that it takes pointers to, in order; the last one is written.
        made: Object code, whose symbol is the only exported one.
    """

    tag: str
    backend: str
    types: tuple[str, ...]
    made: MadeObject

    @property
    def symbol(self) -> str:
        """Name of the function."""
        return self.made.symbol

    @property
    def sha256(self) -> str:
        """Hex sha256 of the object code and the function's signature."""
        signature = repr((self.symbol, self.types, self.made.sizes)).encode()
        return hashlib.sha256(signature + self.made.code).hexdigest()

    @property
    def files(self) -> dict[str, str | bytes]:
        """Contents of its files in a bundle, by name of the file."""
        return dict(zip(kernel_files(self.tag), (self.made.code, self.made.source), strict=True))


def kernel_files(tag: str) -> tuple[str, str]:
    """Return the names of the files in a bundle with a task's object code, and with its source."""
    return f"kernels/{tag}.o", f"kernels/{tag}.txt"


def operand_types(payload: Payload) -> tuple[str, ...]:
    """Return the memref types of a task's operands, in the order of a kernel's pointers."""
    return tuple(argument.type for argument in payload.arguments)
