"""A dialect of content, as the engine knows it: its definition in IRDL, and functions written in it, as plain data.

    file --isolated process, MLIR's parser--> WrittenFunction --dialect--> Payload

MLIR parses the text and checks what IRDL says. Shapes, meaning and lowering of the ops are content.
"""

from dataclasses import dataclass
from typing import Protocol

from autotune.core.payload import Payload

Attribute = bool | int | float | str
OPEN = "none"  # the type of a value whose type is to be inferred
RUNTIME = -1  # a size that is known at run time only


@dataclass(frozen=True)
class WrittenType:
    """A type as a file says it.

    Attributes:
        text: Text of the type, such as ``tensor<*xf32>``.
        dtype: Element type of a tensor; of anything else, the type.
        shape: Sizes of a tensor, `RUNTIME` where the file has a question mark; `None` where they are to be inferred.
        is_tensor: Whether it is a tensor.
    """

    text: str
    dtype: str
    shape: tuple[int, ...] | None
    is_tensor: bool


@dataclass(frozen=True)
class WrittenValue:
    """A value with the type that the file gives it.

    Attributes:
        name: Name of the value, unique in its function.
        type: Type in the file.
    """

    name: str
    type: WrittenType


@dataclass(frozen=True)
class WrittenOp:
    """An op of a file.

    Attributes:
        name: Name of the op with that of its dialect, such as ``gpt.linear``.
        line: Line of the op, from 1 on.
        operands: Names of the values it reads.
        results: Values it gives.
        attributes: Attributes by name; what is no number, switch or string is its text.
        body: Block of its region; `None` where it has none.
    """

    name: str
    line: str
    operands: tuple[str, ...]
    results: tuple[WrittenValue, ...]
    attributes: tuple[tuple[str, Attribute], ...]
    body: "WrittenBlock | None" = None


@dataclass(frozen=True)
class WrittenBlock:
    """A block of a file: its arguments, its ops, and what its terminator gives.

    Attributes:
        arguments: Values that it is entered with.
        ops: Ops in the order of the text, without the terminator.
        terminator: Name of the terminator.
        line: Line of the terminator.
        gives: Names of the values that the terminator gives.
    """

    arguments: tuple[WrittenValue, ...]
    ops: tuple[WrittenOp, ...]
    terminator: str
    line: str
    gives: tuple[str, ...]


@dataclass(frozen=True)
class WrittenRange:
    """What a file says of an argument.

    Attributes:
        role: Role of the argument; ``input`` where nothing is said.
        low: Smallest value of its random data; `None` where nothing is said.
        high: Upper end (exclusive) of its random data; `None` where nothing is said.
    """

    role: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class WrittenFunction:
    """The function of a file.

    Attributes:
        entry: Name of the function.
        line: Line of the function.
        ranges: Role and range of every argument, as the file gives them.
        results: Types that the function says it gives.
        block: Body of the function.
    """

    entry: str
    line: str
    ranges: tuple[WrittenRange, ...]
    results: tuple[WrittenType, ...]
    block: WrittenBlock


class Dialect(Protocol):
    """A dialect that payloads may be written in."""

    @property
    def name(self) -> str:
        """Name of the dialect: ``gpt`` of ``gpt.linear``."""

    @property
    def definition(self) -> str:
        """The dialect in IRDL, as a module."""

    def payload(self, path: str, function: WrittenFunction) -> Payload:
        """The payload that a function is, lowered to linalg on tensors.

        Args:
            path: Path of the file; begins every message, and is the name of the payload.
            function: What MLIR read.

        Raises:
            PayloadError: An op breaks a constraint, or has no lowering; the error has its line.
        """
