"""`ExternalKernel`: machine code that another compiler, or a person, made for a task, as a C function."""

import hashlib
from dataclasses import dataclass

from autotune.core.payload import Payload


@dataclass(frozen=True)
class MadeObject:
    """What a back end makes of a task.

    The function takes a pointer to the first element of every operand, inputs first and the output last, each in
    row-major order without gaps, aligned to its elements alone; then `sizes`. It writes the whole output alone.

    Attributes:
        symbol: Name of the function.
        code: Bytes of a relocatable object file of this host; of LLVM IR as text, where that is what it makes.
        sizes: Numbers that the function takes after its pointers, each an ``int64_t``.
        maker: Generator of the code, in a line.
        source: Text that it was made of, for people.
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
        backend: Name of the back end that made it.
        types: Memref types of the operands that it is given pointers to, in order; the last is written.
        made: The object; its symbol is the only one it shows.
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
        """Hash of the object, and of how it is called."""
        called = repr((self.symbol, self.types, self.made.sizes)).encode()
        return hashlib.sha256(called + self.made.code).hexdigest()

    @property
    def files(self) -> dict[str, str | bytes]:
        """What a bundle keeps of it, by name of the file."""
        return dict(zip(kernel_files(self.tag), (self.made.code, self.made.source), strict=True))


def kernel_files(tag: str) -> tuple[str, str]:
    """Files of a bundle with a task's object, and with what that was made of."""
    return f"kernels/{tag}.o", f"kernels/{tag}.txt"


def operand_types(payload: Payload) -> tuple[str, ...]:
    """The types of a task's operands, as a kernel takes them."""
    return tuple(argument.type for argument in payload.arguments)
