"""Interface of a dialect that payloads are written in: its IRDL definition, and functions of it as plain data.

    file --isolated process, MLIR's parser--> WrittenFunction --dialect--> Payload

MLIR parses the text and verifies the IRDL constraints. The dialect defines shape inference, semantics and lowering.
"""

from dataclasses import dataclass
from typing import Protocol

from autotune.core.payload import Payload

Attribute = bool | int | float | str
OPEN = "none"  # type of a value whose type is inferred
RUNTIME = -1  # dynamic size


@dataclass(frozen=True)
class WrittenType:
    """A type as written in a file.

    Attributes:
        text: Text of the type, such as ``tensor<*xf32>``.
        dtype: Element type of a tensor; the type itself for any other type.
        shape: Sizes of a tensor, `RUNTIME` for a dynamic one; `None` where the shape is inferred.
        is_tensor: Whether it is a tensor type.
    """

    text: str
    dtype: str
    shape: tuple[int, ...] | None
    is_tensor: bool


@dataclass(frozen=True)
class WrittenValue:
    """An SSA value with its type in the file.

    Attributes:
        name: Name of the value, unique in its function.
        type: Type as written.
    """

    name: str
    type: WrittenType


@dataclass(frozen=True)
class WrittenOp:
    """An operation of a file.

    Attributes:
        name: Qualified name, such as ``gpt.linear``.
        line: Line of the op, from 1.
        operands: Names of its operands.
        results: Result values.
        attributes: Pairs of name and value; other values than numbers, booleans and strings are kept as text.
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
    """A block of a file: its arguments, its ops, and its terminator.

    Attributes:
        arguments: Block arguments.
        ops: Ops in the order of the text, without the terminator.
        terminator: Name of the terminator.
        line: Line of the terminator.
        gives: Names of the terminator's operands.
    """

    arguments: tuple[WrittenValue, ...]
    ops: tuple[WrittenOp, ...]
    terminator: str
    line: str
    gives: tuple[str, ...]


@dataclass(frozen=True)
class WrittenRange:
    """Role and range of a function argument in a file.

    Attributes:
        role: Role of the argument; ``input`` by default.
        low: Lower bound (inclusive) of its random data; `None` where the file gives none.
        high: Upper bound (exclusive) of its random data; `None` where the file gives none.
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
        results: Result types of the function.
        block: Body of the function.
    """

    entry: str
    line: str
    ranges: tuple[WrittenRange, ...]
    results: tuple[WrittenType, ...]
    block: WrittenBlock


class Dialect(Protocol):
    """A dialect that payloads can be written in."""

    @property
    def name(self) -> str:
        """Name of the dialect: ``gpt`` of ``gpt.linear``."""

    @property
    def definition(self) -> str:
        """IRDL module that defines the dialect."""

    def payload(self, path: str, function: WrittenFunction) -> Payload:
        """Lower a function to linalg on tensors, and return it as a payload.

        Args:
            path: Path of the file; begins every message, and is the name of the payload.
            function: Parsed function.

        Raises:
            PayloadError: An op violates a constraint, or has no lowering; the error has its line.
        """
