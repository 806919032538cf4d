"""What is computed: a payload, its arguments and its data. MLIR crosses it as text."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from autotune.core.errors import PayloadError
from autotune.core.html import html_table
from autotune.core.ops.graph import Graph, check_graph
from autotune.core.scripts.rules import Rules

Array = npt.NDArray[Any]

ROLES = ("input", "weight", "state", "output")
WRITTEN = ("state", "output")  # what a call leaves a result in; a state is read too, and kept from call to call
REFERENCE, PLAIN_LOWERING = "reference", "plain lowering"  # what says what a payload's results must be
UNPROVED = "unproved: nothing but the plain lowering of the imported text says what is right"
MASKED = -1e30  # what a score that a mask hides is at most: exp(MASKED - max) is 0; finite, for inf - inf is no number
MOST_DIMENSIONS, MOST_ARGUMENTS = 16, 1000  # of an argument, and of a function, that a bundle describes
SYMBOL = "[A-Za-z_][A-Za-z0-9_.$-]{0,200}"  # what MLIR takes as the name of a function without quotes
DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype("float32"),
    "f64": np.dtype("float64"),
    "i32": np.dtype("int32"),
    "i64": np.dtype("int64"),
    "i8": np.dtype("int8"),
    "f16": np.dtype("float16"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}


@dataclass(frozen=True)
class Case:
    """Inputs that are no random data, such as the position a token is decoded at.

    Attributes:
        values: Value of every element of an input, by name of the input.
        weight: Number of calls at this case in one call of the whole that is timed.
    """

    values: tuple[tuple[str, int], ...] = ()
    weight: int = 1


@dataclass(frozen=True)
class Argument:
    """One memref argument of a payload's entry function.

    Attributes:
        name: Unique in its payload; the key of the reference's keyword arguments.
        role: ``input``, ``weight``, ``state`` or ``output``.
        shape: Static sizes, outermost first.
        dtype: MLIR element type, one of `DTYPES`.
        low: Smallest value that random data takes.
        high: Upper end (exclusive) of random data: for token ids, the vocabulary size.
        accepts: Least whole number that a call may give, and the one above the largest: others would be read at
            indices that there are not. `None`: those of random data.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str = "f32"
    low: float = -1.0
    high: float = 1.0
    accepts: tuple[int, int] | None = None

    @property
    def signature(self) -> str:
        """Name and type, ``x: 8x8xf32``."""
        return f"{self.name}: {'x'.join(map(str, (*self.shape, self.dtype)))}"

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise PayloadError(f"role of argument {self.name!r} must be one of {', '.join(ROLES)}; got {self.role!r}")
        if self.dtype not in DTYPES:
            raise PayloadError(
                f"element type of argument {self.name!r} must be one of {', '.join(DTYPES)}; got {self.dtype!r}"
            )
        if any(size < 1 for size in self.shape):
            raise PayloadError(f"sizes of argument {self.name!r} must be at least 1; got {self.shape}")

    @property
    def type(self) -> str:
        """The MLIR type, such as ``memref<32x64xf32>``."""
        return f"memref<{''.join(f'{size}x' for size in self.shape)}{self.dtype}>"

    @property
    def bytes(self) -> int:
        """Size of the data in bytes."""
        return prod(self.shape) * DTYPES[self.dtype].itemsize


@dataclass(frozen=True)
class Payload:
    """A program to be tuned: one public function over statically shaped memrefs.

    Attributes:
        name: The spec that built it, such as ``matmul,m=512,n=512,k=512``; parses back to the same payload.
        text: The MLIR module: linalg on tensors inside, memref arguments outside.
        entry: Name of the public function.
        arguments: Arguments in the order of the function's signature.
        flops: Floating-point operations of one call that any implementation needs (multiply-add counts as two).
        reference: Oracle in float64 NumPy: called with every non-output argument by name, which it leaves as they are,
            gives what states and outputs hold after a call, in order. `None` means that the plain lowering of the same
            text is the oracle.
        inputs: Gives the non-output arrays by name for a seed; `None` means uniform random in ``[low, high)``.
        reduction: Longest chain of additions behind one output element; scales the tolerance.
        graph: The same computation as a graph of ops, which comparators translate. Empty where only the text is known,
            as of a file.
        cases: Inputs at which it is verified and measured; a call that is timed is one call at each. Empty: one case.
        notes: Notes for the user on how the payload was read, a sentence each.
        dialect: The payload in the dialect of ops that it is written in; empty where it is not written in one.
        schedule: The whole file that it was read from, where that also holds a schedule of the user's own.
        model: File of the model in its own format, which comparators that know it run as it is; empty for none.
        foreign: Whether others wrote the text: what importers write is then undone before tasks are found.
        rules: Rewrite rules that are applied before that; the oracle stays with the text before.
        error: What results may be off besides what the order of sums explains, relative to the largest of an output.
        derived: Whether the text was made from something else, such as a model's file, that says what it must compute.
    """

    name: str
    text: str
    entry: str
    arguments: tuple[Argument, ...]
    flops: float = 0.0
    reference: Callable[..., tuple[Array, ...]] | None = None
    inputs: Callable[[int], dict[str, Array]] | None = None
    reduction: int = 1
    graph: Graph = ()
    cases: tuple[Case, ...] = ()
    notes: tuple[str, ...] = ()
    dialect: str = ""
    schedule: str = ""
    model: str = ""
    foreign: bool = False
    rules: Rules = field(default_factory=Rules)
    error: float = 0.0
    derived: bool = False

    def __repr__(self) -> str:
        given = ", ".join(argument.signature for argument in self.arguments if argument.role != "output")
        gives = ", ".join(argument.signature for argument in self.arguments if argument.role == "output")
        return f"<Payload {self.name}: ({given}) -> ({gives})>"

    def _repr_html_(self) -> str:
        rows = ((each.name, each.role, "x".join(map(str, (*each.shape, each.dtype)))) for each in self.arguments)
        return html_table(f"{self.name}, {self.flops:.4g} operations a call", ("argument", "role", "type"), rows)

    def __post_init__(self) -> None:
        if not re.fullmatch(SYMBOL, self.entry):
            raise PayloadError(
                f"the function of {self.name} must have a name of letters, digits, _, ., $ and -, "
                f"it is {self.entry!r}; rename it"
            )
        if self.graph:
            given = [argument.name for argument in self.arguments if argument.role != "output"]
            check_graph(self.graph, given, {a.name: a.shape for a in self.outputs}, self.name)

    @property
    def oracle(self) -> str:
        """What says what results must be: `REFERENCE` or `PLAIN_LOWERING`."""
        return REFERENCE if self.reference is not None else PLAIN_LOWERING

    @property
    def unproved(self) -> bool:
        """Whether nothing but its own plain lowering says what a text must compute that was made from something else.

        Programs that are right then compute what the text says; whether the text says what its source does is not
        known. A text that the user wrote is its own source.
        """
        return self.derived and self.reference is None

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arguments that the function writes without reading them."""
        return tuple(argument for argument in self.arguments if argument.role == "output")

    @property
    def result_type(self) -> str:
        """Element type of the floats that it writes; empty where there are several, or none."""
        kinds = {argument.dtype for argument in self.written if not argument.dtype.startswith("i")}
        return kinds.pop() if len(kinds) == 1 else ""

    @property
    def written(self) -> tuple[Argument, ...]:
        """The arguments that the function writes: states and outputs."""
        return tuple(argument for argument in self.arguments if argument.role in WRITTEN)

    @property
    def bytes(self) -> int:
        """Bytes of all arguments: the least that one call has to move, each touched once."""
        return sum(argument.bytes for argument in self.arguments)

    @property
    def sha256(self) -> str:
        """Hash of the text: the identity of what is computed."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def make_inputs(self, seed: int) -> dict[str, Array]:
        """Signed random data for every argument that is not an output, by name."""
        if self.inputs is not None:
            with says_what_to_name(self.name):
                return self.inputs(seed)
        rng = np.random.default_rng(seed)
        return {a.name: random_array(a, rng) for a in self.arguments if a.role != "output"}


@contextmanager
def says_what_to_name(name: str) -> Iterator[None]:
    """Say of a payload's function that reads a file which the sandbox does not show what to do.

    Args:
        name: Name of the payload.

    Raises:
        PayloadError: The function was refused a file.
    """
    try:
        yield
    except PermissionError as error:
        raise PayloadError(
            f"a file that {name} is computed from must be named where the payload is made, {error.filename} may not be "
            "read in the sandbox; call autotune.core.host.readable.allow_reading with it"
        ) from error


def random_array(argument: Argument, rng: np.random.Generator) -> Array:
    """Uniform random data of an argument's shape and dtype, in ``[low, high)``."""
    if argument.dtype.startswith("i"):
        return rng.integers(int(argument.low), int(argument.high), argument.shape, dtype=DTYPES[argument.dtype])
    return rng.uniform(argument.low, argument.high, argument.shape).astype(DTYPES[argument.dtype])
