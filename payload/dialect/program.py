"""Program representation of a function in the dialect, and its writer, which infers types and verifies op by op."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.core.errors import PayloadError
from autotune.core.payload import WRITTEN, Argument
from payload.builder import Builder
from payload.dialect.op import INDEX, DialectOp, Kind
from payload.dialect.ops.block import BlockOp

Repeated = Callable[["Ref", list["Ref"]], Sequence["Ref"]]


@dataclass(frozen=True)
class Ref:
    """An SSA value of a program.

    Attributes:
        name: Name of the value, unique in its program.
        hint: Requested name; names of the values that it is lowered to start with it.
        kind: Shape and element type.
    """

    name: str
    hint: str
    kind: Kind


@dataclass(frozen=True)
class OpBody:
    """The single-block region of an op.

    Attributes:
        arguments: Block arguments.
        calls: Ops in program order.
        gives: Values that the block yields.
    """

    arguments: tuple[Ref, ...]
    calls: tuple["OpCall", ...]
    gives: tuple[Ref, ...]


@dataclass(frozen=True)
class OpCall:
    """An operation instance: an op with its operands and results.

    Attributes:
        name: Qualified name ``dialect.op``, for messages.
        op: Op class instance, with its attributes.
        operands: Operands.
        results: Results.
        body: Region of the op; `None` where it has none.
        location: Location in a file, for messages; empty for a program not read from a file.
    """

    name: str
    op: DialectOp
    operands: tuple[Ref, ...]
    results: tuple[Ref, ...]
    body: OpBody | None = None
    location: str = ""


@dataclass(frozen=True)
class OpProgram:
    """A function in the dialect.

    Attributes:
        entry: Name of the function.
        arguments: Arguments of the payload, including the outputs.
        calls: Ops in program order.
        gives: Final values of states and outputs, in the order of the arguments.
    """

    entry: str
    arguments: tuple[Argument, ...]
    calls: tuple[OpCall, ...]
    gives: tuple[Ref, ...]


class OpWriter:
    """Writer of a program, op by op; a violated constraint raises at once.

    Attributes:
        dialect: Name of the dialect, for messages.
        given: Values of all arguments but outputs, by name.
        location: Location of the next op, the prefix of messages; empty for a program not read from a file.
    """

    def __init__(self, arguments: Sequence[Argument], dialect: str = "gpt") -> None:
        self.dialect = dialect
        self._arguments = tuple(arguments)
        self._names = Builder()
        self._calls: list[OpCall] = []
        self.location = ""
        self.given = {a.name: self._ref(a.name, Kind(a.shape, a.dtype)) for a in arguments if a.role != "output"}

    @property
    def calls(self) -> tuple[OpCall, ...]:
        """Ops written so far."""
        return tuple(self._calls)

    def several(self, op: DialectOp, *operands: Ref, names: Sequence[str] = ()) -> tuple[Ref, ...]:
        """Add an op and return its results.

        Args:
            op: Op to add.
            operands: Operands, in the order that the op defines.
            names: Names of the results; the op's default names if empty.

        Raises:
            PayloadError: The op violates a constraint; the message has its location and shapes.
        """
        kinds = self._infer(op, *(operand.kind for operand in operands))
        results = tuple(map(self._ref, names or op.gives, kinds))
        self._calls.append(OpCall(f"{self.dialect}.{op.name}", op, operands, results, location=self.location))
        return results

    def one(self, op: DialectOp, *operands: Ref, name: str = "") -> Ref:
        """Add an op with a single result and return the result."""
        (result,) = self.several(op, *operands, names=(name,) if name else ())
        return result

    def repeat(self, layers: int, carried: Sequence[Ref], body: Repeated) -> tuple[Ref, ...]:
        """Add a ``block`` op, whose body is run for every layer.

        Args:
            layers: Number of layers.
            carried: Initial loop-carried values: x and the caches.
            body: Callback that writes a layer from its index and the carried values, and returns their next values.

        Raises:
            PayloadError: A layer changes a shape.
        """
        op, outer, location = BlockOp(layers), self._calls, self.location
        self._calls = []
        block_arguments = [self._ref(f"{each.hint}_in", each.kind) for each in carried]
        layer = self._ref("layer", INDEX)
        gives = tuple(body(layer, list(block_arguments)))
        calls, self._calls, self.location = self._calls, outer, location
        kinds = self._infer(op, lambda *_: [each.kind for each in gives], *(each.kind for each in carried))
        results = tuple(self._ref(f"{each.hint}_out", kind) for each, kind in zip(carried, kinds, strict=True))
        block = OpBody((layer, *block_arguments), tuple(calls), gives)
        self._calls.append(OpCall(f"{self.dialect}.{op.name}", op, tuple(carried), results, block, location))
        return results

    def program(self, entry: str, gives: Sequence[Ref]) -> OpProgram:
        """Return the finished program.

        Args:
            entry: Name of the function.
            gives: Final values of states and outputs, in the order of the arguments.

        Raises:
            PayloadError: The type of a result differs from its argument's.
        """
        written = [argument for argument in self._arguments if argument.role in WRITTEN]
        actual = [f"{each.kind}" for each in gives]
        expected = [f"{Kind(argument.shape, argument.dtype)}" for argument in written]
        if actual != expected:
            raise PayloadError(f"{self.location}@{entry} must give {', '.join(expected)}, it gives {', '.join(actual)}")
        return OpProgram(entry, self._arguments, self.calls, tuple(gives))

    def _ref(self, hint: str, kind: Kind) -> Ref:
        """Create a value with a fresh name."""
        return Ref(self._names.fresh(hint), hint, kind)

    def _infer(self, op: DialectOp, *operands: object) -> tuple[Kind, ...]:
        """Infer the result types of an op; prefix errors with its location and name."""
        try:
            return op.infer(*operands)
        except PayloadError as error:
            raise PayloadError(f"{self.location}{self.dialect}.{op.name}: {error}") from error
