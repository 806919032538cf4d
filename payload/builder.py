"""A small writer of MLIR text: fresh names, indentation, one function per module."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from autotune.task import Argument


@dataclass(frozen=True)
class Value:
    """An SSA value that is a tensor.

    Attributes:
        name: With its percent sign, such as ``%qkv``.
        shape: Static sizes, outermost first.
        dtype: MLIR element type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "f32"

    @property
    def type(self) -> str:
        """The MLIR type, such as ``tensor<32x64xf32>``."""
        return tensor_type(self.shape, self.dtype)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


class Builder:
    """Collects the lines of one function body; every name it hands out is new."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._uses: dict[str, int] = {}
        self._indent = "    "

    def fresh(self, name: str) -> str:
        """A name nobody has: ``%scores``, then ``%scores_2``, and so on."""
        self._uses[name] = self._uses.get(name, 0) + 1
        return f"%{name}" if self._uses[name] == 1 else self.fresh(f"{name}_{self._uses[name]}")

    def emit(self, *lines: str) -> None:
        """Append lines at the current indentation."""
        self.lines.extend(self._indent + line for line in lines)

    def define(self, name: str, shape: tuple[int, ...], op: str, dtype: str = "f32") -> Value:
        """Emit ``%name = op`` and give the tensor it defines."""
        value = Value(self.fresh(name), shape, dtype)
        self.emit(f"{value.name} = {op}")
        return value

    def index(self, name: str, value: int) -> str:
        """Emit an index constant and give its name."""
        name = self.fresh(name)
        self.emit(f"{name} = arith.constant {value} : index")
        return name

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indent what is emitted inside the ``with`` block by one level."""
        outer, self._indent = self._indent, self._indent + "  "
        yield
        self._indent = outer


def tensor_type(shape: Sequence[int], dtype: str = "f32") -> str:
    """The MLIR tensor type of static sizes."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"


def affine_map(rank: int, dims: Sequence[int]) -> str:
    """The projection of `rank` loops onto `dims`: ``affine_map<(d0, d1) -> (d1)>``."""
    loops = ", ".join(f"d{i}" for i in range(rank))
    return f"affine_map<({loops}) -> ({', '.join(f'd{i}' for i in dims)})>"


def for_each(f: Builder, count: int, carried: Value, body: Callable[[str, Value], Value]) -> Value:
    """Emit an ``scf.for`` over ``0..count`` that carries one tensor, in one buffer.

    What an iteration gives is materialized in the carried tensor, for a loop that yields another buffer does not
    bufferize.

    Args:
        f: Where to emit.
        count: Number of iterations.
        carried: The tensor before the first iteration.
        body: Emits one iteration, given the loop index and the carried tensor; gives the next one.
    """
    start, stop, step = f.index("start", 0), f.index("stop", count), f.index("step", 1)
    index, inside, result = f.fresh("layer"), f.fresh(f"{carried.name[1:]}_in"), f.fresh(f"{carried.name[1:]}_out")
    f.emit(
        f"{result} = scf.for {index} = {start} to {stop} step {step} "
        f"iter_args({inside} = {carried.name}) -> ({carried.type}) {{"
    )
    with f.indented():
        after = body(index, Value(inside, carried.shape, carried.dtype))
        same = f"({after.type}, {after.type}) -> {after.type}"
        same = f"({after.type}, {after.type}) -> {after.type}"
        kept = f.define(
            "kept", after.shape, f"bufferization.materialize_in_destination {after.name} in {inside} : {same}"
        )
        f.emit(f"scf.yield {kept.name} : {kept.type}")
    f.emit("}")
    return Value(result, carried.shape, carried.dtype)


def write_module(entry: str, arguments: Sequence[Argument], body: Callable[[Builder, dict[str, Value]], Value]) -> str:
    """Write a module with one public function that computes one tensor.

    Args:
        entry: Name of the function.
        arguments: Its memrefs; the last one is the output, the others are read as tensors.
        body: Emits the computation, given the tensors by argument name; gives the result.
    """
    f = Builder()
    *inputs, output = arguments
    memrefs = {argument.name: f.fresh(f"{argument.name}_memref") for argument in arguments}
    tensors = {
        a.name: f.define(
            a.name,
            a.shape,
            f"bufferization.to_tensor {memrefs[a.name]} restrict : {a.type} to {tensor_type(a.shape, a.dtype)}",
            a.dtype,
        )
        for a in inputs
    }
    result = body(f, tensors)
    f.emit(
        f"bufferization.materialize_in_destination {result.name} in restrict writable {memrefs[output.name]} : "
        f"({result.type}, {output.type}) -> ()",
        "return",
    )
    signature = ",\n      ".join(f"{memrefs[a.name]}: {a.type}" for a in arguments)
    head = ["module {", f"  func.func @{entry}(", f"      {signature}) {{"]
    return "\n".join([*head, *f.lines, "  }", "}"]) + "\n"
