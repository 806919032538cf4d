"""`Payload`: an MLIR program to be tuned, as text, with its arguments, its oracle and its input data."""

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
WRITTEN = ("state", "output")  # roles of arguments that a call writes; a state is read, too, and kept between calls
REFERENCE, PLAIN_LOWERING = "reference", "plain lowering"  # kinds of oracle
UNPROVED = "unproved: nothing but the plain lowering of the imported text says what is right"
MASKED = -1e30  # upper bound of a masked score: exp(MASKED - max) is 0; finite, since inf - inf is NaN
MOST_DIMENSIONS, MOST_ARGUMENTS = 16, 1000  # of an argument, and of a function, in a bundle
SYMBOL = "[A-Za-z_][A-Za-z0-9_.$-]{0,200}"  # a function's name that MLIR accepts without quotes
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
    """A fixed setting of inputs that are no random data, such as the position a token is decoded at.

    Attributes:
        values: Pairs of an input's name and the value of all its elements.
        weight: Number of calls with this setting in one timed call of the whole.
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
        low: Lower bound (inclusive) of random data.
        high: Upper bound (exclusive) of random data: for token ids, the vocabulary size.
        accepts: Range ``[low, high)`` of integers that a call accepts, since others may index out of bounds; `None`
            for the range of random data.
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
        name: Spec that builds it, such as ``matmul,m=512,n=512,k=512``; parses back to the same payload.
        text: The MLIR module: linalg on tensors inside, memref arguments outside.
        entry: Name of the public function.
        arguments: Arguments in the order of the function's signature.
        flops: Floating-point operations of one call that any implementation needs (multiply-add counts as two).
        reference: Oracle in float64 NumPy: takes every non-output argument as a keyword, without modifying any, and
            returns the states and outputs after a call, in order. `None`: the plain lowering of the same text is the
            oracle.
        inputs: Function from a seed to the non-output arrays by name; `None` for uniform random in ``[low, high)``.
        reduction: Longest chain of additions behind one output element; scales the tolerance.
        graph: The same computation as a graph of ops, which comparators translate. Empty where only the text is known,
            as of a file.
        cases: Input settings at which it is verified and measured; a timed call is one call at each. Empty: one case.
        notes: Notes for the user on how the payload was read, a sentence each.
        dialect: Text in the dialect of ops that the payload is written in; empty where there is none.
        schedule: Text of the whole file that it was read from, where that also holds a schedule of the user.
        model: Path of the model in its own format, which comparators that support it run directly; empty for none.
        foreign: Whether an external importer generated the text: its idioms are canonicalized before partitioning.
        rules: Rewrite rules that are applied before partitioning; the oracle uses the text before the rules.
        error: Tolerated error of results beyond that of the summation order, relative to an output's largest value.
        derived: Whether the text was converted from a source, such as a model's file, that defines the computation.
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
        takes = ", ".join(argument.signature for argument in self.arguments if argument.role != "output")
        gives = ", ".join(argument.signature for argument in self.arguments if argument.role == "output")
        return f"<Payload {self.name}: ({takes}) -> ({gives})>"

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
            inputs = [argument.name for argument in self.arguments if argument.role != "output"]
            check_graph(self.graph, inputs, {a.name: a.shape for a in self.outputs}, self.name)

    @property
    def oracle(self) -> str:
        """Kind of oracle: `REFERENCE` or `PLAIN_LOWERING`."""
        return REFERENCE if self.reference is not None else PLAIN_LOWERING

    @property
    def unproved(self) -> bool:
        """Whether a text that was converted from a source has no oracle but its own plain lowering.

        Verified programs then compute what the text says; that the conversion was correct is not verified. A text that
        the user wrote is its own source.
        """
        return self.derived and self.reference is None

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arguments that the function writes without reading them."""
        return tuple(argument for argument in self.arguments if argument.role == "output")

    @property
    def result_type(self) -> str:
        """Floating-point element type of its states and outputs; empty where they have several, or none."""
        dtypes = {argument.dtype for argument in self.written if not argument.dtype.startswith("i")}
        return dtypes.pop() if len(dtypes) == 1 else ""

    @property
    def written(self) -> tuple[Argument, ...]:
        """The arguments that the function writes: states and outputs."""
        return tuple(argument for argument in self.arguments if argument.role in WRITTEN)

    @property
    def bytes(self) -> int:
        """Bytes of all arguments: the compulsory memory traffic of one call."""
        return sum(argument.bytes for argument in self.arguments)

    @property
    def sha256(self) -> str:
        """Hex sha256 of the text, the payload's identity."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def make_inputs(self, seed: int) -> dict[str, Array]:
        """Return input data for every argument that is not an output, by name: by `inputs`, or uniform random."""
        if self.inputs is not None:
            with says_what_to_name(self.name):
                return self.inputs(seed)
        rng = np.random.default_rng(seed)
        return {a.name: random_array(a, rng) for a in self.arguments if a.role != "output"}


@contextmanager
def says_what_to_name(name: str) -> Iterator[None]:
    """Turn a refusal of the sandbox to read a file into an error that names the file and the remedy.

    Args:
        name: Name of the payload.

    Raises:
        PayloadError: The sandbox refused to read a file.
    """
    try:
        yield
    except PermissionError as error:
        raise PayloadError(
            f"a file that {name} is computed from must be named where the payload is made, {error.filename} may not be "
            "read in the sandbox; call autotune.core.host.readable.allow_reading with it"
        ) from error


def random_array(argument: Argument, rng: np.random.Generator) -> Array:
    """Return uniform random data of an argument's shape and dtype, in ``[low, high)``."""
    if argument.dtype.startswith("i"):
        return rng.integers(int(argument.low), int(argument.high), argument.shape, dtype=DTYPES[argument.dtype])
    return rng.uniform(argument.low, argument.high, argument.shape).astype(DTYPES[argument.dtype])
