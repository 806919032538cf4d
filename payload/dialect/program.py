"""A function written in the dialect, as data, and its writer: shapes are inferred and constraints checked op by op."""

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
    """A value of a program.

    Attributes:
        name: Name of the value, unique in its program.
        hint: Name that it was asked to have; what it is lowered to begins so.
        kind: Shape and element type.
    """

    name: str
    hint: str
    kind: Kind


@dataclass(frozen=True)
class OpBody:
    """The body of an op.

    Attributes:
        arguments: Values that it is entered with.
        calls: Ops in their order.
        gives: Values that it gives.
    """

    arguments: tuple[Ref, ...]
    calls: tuple["OpCall", ...]
    gives: tuple[Ref, ...]


@dataclass(frozen=True)
class OpCall:
    """An op with its operands and results.

    Attributes:
        name: Name of the op with that of its dialect, for messages.
        op: The op, with its attributes.
        operands: Values that it reads.
        results: Values that it gives.
        body: Body of the op; `None` where it has none.
        location: Location in a file, for messages; empty for what no file has.
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
        arguments: Arguments of the payload: values by their names, and the outputs.
        calls: Ops in their order.
        gives: What states and outputs hold afterwards, in the order of the arguments.
    """

    entry: str
    arguments: tuple[Argument, ...]
    calls: tuple[OpCall, ...]
    gives: tuple[Ref, ...]


class OpWriter:
    """Writes a program, op by op; a broken constraint is an error at once.

    Attributes:
        dialect: Name of the dialect, for messages.
        given: Values of the arguments by name, but for outputs.
        location: Location of the next op in a file, as messages begin with it; empty for what no file has.
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
        """The ops so far."""
        return tuple(self._calls)

    def several(self, op: DialectOp, *operands: Ref, names: Sequence[str] = ()) -> tuple[Ref, ...]:
        """Add an op; give its results.

        Args:
            op: The op.
            operands: Values that it reads, in the order that the op defines.
            names: Names of its results; by default those that the op has for them.

        Raises:
            PayloadError: The op breaks a constraint; the message has its location and shapes.
        """
        kinds = self._infer(op, *(operand.kind for operand in operands))
        results = tuple(map(self._ref, names or op.gives, kinds))
        self._calls.append(OpCall(f"{self.dialect}.{op.name}", op, operands, results, location=self.location))
        return results

    def one(self, op: DialectOp, *operands: Ref, name: str = "") -> Ref:
        """Add an op of one result; give it."""
        (result,) = self.several(op, *operands, names=(name,) if name else ())
        return result

    def repeat(self, layers: int, carried: Sequence[Ref], body: Repeated) -> tuple[Ref, ...]:
        """Add a body that is run for every layer.

        Args:
            layers: Number of layers.
            carried: What the first layer is given: x, and the caches.
            body: Writes a layer, given its index and what it is given; gives the next ones.

        Raises:
            PayloadError: A layer changes a shape.
        """
        op, outer, location = BlockOp(layers), self._calls, self.location
        self._calls = []
        inside = [self._ref(f"{each.hint}_in", each.kind) for each in carried]
        layer = self._ref("layer", INDEX)
        gives = tuple(body(layer, list(inside)))
        written, self._calls, self.location = self._calls, outer, location
        kinds = self._infer(op, lambda *_: [each.kind for each in gives], *(each.kind for each in carried))
        results = tuple(self._ref(f"{each.hint}_out", kind) for each, kind in zip(carried, kinds, strict=True))
        block = OpBody((layer, *inside), tuple(written), gives)
        self._calls.append(OpCall(f"{self.dialect}.{op.name}", op, tuple(carried), results, block, location))
        return results

    def program(self, entry: str, gives: Sequence[Ref]) -> OpProgram:
        """The program.

        Args:
            entry: Name of the function.
            gives: What states and outputs hold afterwards, in the order of the arguments.

        Raises:
            PayloadError: A result has another shape than its argument.
        """
        written = [argument for argument in self._arguments if argument.role in WRITTEN]
        found = [f"{each.kind}" for each in gives]
        wanted = [f"{Kind(argument.shape, argument.dtype)}" for argument in written]
        if found != wanted:
            raise PayloadError(f"{self.location}@{entry} must give {', '.join(wanted)}, it gives {', '.join(found)}")
        return OpProgram(entry, self._arguments, self.calls, tuple(gives))

    def _ref(self, hint: str, kind: Kind) -> Ref:
        """A value with a new name."""
        return Ref(self._names.fresh(hint), hint, kind)

    def _infer(self, op: DialectOp, *operands: object) -> tuple[Kind, ...]:
        """Shapes of an op's results; what it raises begins with its location and name."""
        try:
            return op.infer(*operands)
        except PayloadError as error:
            raise PayloadError(f"{self.location}{self.dialect}.{op.name}: {error}") from error
